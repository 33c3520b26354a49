"""The command log: every statement that changed the catalog, in order, on a topic of its own.

Opening a database replays it. On a shared log, an instance appends a command under a *lease*: it
opens the topic's writer, which fences every other instance that is about to append, writes a lease
record, reads the topic up to that record, and only then prepares and appends the command. So an
instance that appends has read everything before its command (docs/adr/0011-one-command-topic.md).
The writer is kept for the next lease: until another instance takes one, it is the newest writer,
and opening another one would fence nobody.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import pyarrow as pa

from millstream.command_topic.entries import (
    Command,
    Entry,
    QuiesceRequest,
    command_hash,
    decode_entry,
    encode_command,
    encode_lease,
    numbered_token,
)
from millstream.log.log import Appended, Log, Outcome, Topic, Writer
from millstream.model.batch import raw_batch
from millstream.model.errors import FencedError, MillstreamError, UnavailableError
from millstream.queries.backfill_result import FirstCommit

READ_MAX = 10_000
UNKNOWN = "E-LOG-UNKNOWN"
"""The code of the error after which it is unknown whether a command is on the log."""
IDENTITY = "millstream.database"
"""The setting of the command topic that holds the id of its database."""


class LeaseLostError(FencedError):
    """Another instance has taken the lease; the prepared command was not written."""


class CommandLog:
    """Appends commands to the command topic and reads them."""

    def __init__(self, log: Log[pa.Table], topic: str, *, shared: bool = False) -> None:
        """`shared`: whether other instances append to the topic, too."""
        self.shared = shared
        self._log = log
        self._topic = topic
        database_id(log, topic)
        self._writer: Writer[pa.Table] | None = None if shared else log.writer(topic)
        """On a shared log, the writer of the last lease, if nothing went wrong with it."""

    @property
    def next_offset(self) -> int:
        """The end offset of the topic."""
        return self._log.end_offset(self._topic, 0)

    def unread(self, position: int, end: int) -> bool:
        """Whether entries may lie between a position and an end of the topic. Every entry is a
        transaction of its own, so what is left of the last one may be its marker."""
        return not position <= end <= position + self._log.marker_offsets

    @contextmanager
    def lease(
        self,
        now: int,
        *,
        size: int = 0,
        quiesce: QuiesceRequest | None = None,
        statements: int = 1,
    ) -> Iterator[CommandTopicLease]:
        """Context manager that holds the lease until another instance takes it. Raises
        LeaseLostError if another instance is faster.

        `size`: bytes of the records that are written with the command. `quiesce`: a query to
        quiesce on all instances until the next entry; only for a shared log. `statements`: how many
        statements may be executed under it; it has a record for each, whose offset is the number of
        the query that the statement starts.
        """
        lease = self._take(now, size, quiesce, statements)
        kept = False
        try:
            yield lease
            kept = not size
        except LeaseLostError:
            raise
        except Exception:
            if self.shared and quiesce is not None:
                with suppress(MillstreamError):
                    lease.write(self._topic, [encode_lease(uuid.uuid4().hex)], now)
            raise
        finally:
            if kept:
                self._writer = lease.writer
            elif self.shared:
                lease.writer.close()

    def _take(
        self, now: int, size: int, quiesce: QuiesceRequest | None, statements: int
    ) -> CommandTopicLease:
        if not self.shared:
            assert self._writer is not None, "the command log is closed"
            return CommandTopicLease(self, "", self._writer)
        kept, self._writer = self._writer, None
        if kept is not None and not size:
            # Whatever is wrong with it, a new writer puts an end to what this one has left open.
            with suppress(MillstreamError):
                return self._written(kept, now, quiesce, statements)
        return self._written(self._open_writer(size), now, quiesce, statements)

    def _written(
        self,
        writer: Writer[pa.Table],
        now: int,
        quiesce: QuiesceRequest | None,
        statements: int,
    ) -> CommandTopicLease:
        lease = CommandTopicLease(self, uuid.uuid4().hex, writer)
        earlier = (numbered_token(lease.token, count) for count in range(1, statements))
        values = [*map(encode_lease, earlier), encode_lease(lease.token, quiesce)]
        try:
            lease.write(self._topic, values, now)
        except BaseException:
            writer.close()
            raise
        return lease

    def _open_writer(self, size: int = 0) -> Writer[pa.Table]:
        try:
            return self._log.writer(self._topic, size=size)
        except FencedError as error:
            raise LeaseLostError(error.message) from error

    def since(self, position: int, *, until: str = "", end: int | None = None) -> Iterator[Entry]:
        """The entries from an offset on, -1 for the first retained one: all of them, those up to
        the lease `until`, or those below the offset `end`.

        With either of these it reads entry by entry, and only where it knows that there is one: on
        Kafka, learning that a partition has no more takes 100 ms.
        """
        if position < 0:
            position = self._log.start_offset(self._topic, 0)
        count = READ_MAX if end is None and not until else 1
        while end is None or self.unread(position, end):
            fetched = self._log.read(self._topic, 0, position, count)
            for row in fetched.batch.to_pylist():
                entry = decode_entry(row["offset"], row["value"], row["timestamp"])
                yield entry
                if until and entry.lease == until:
                    return
            if fetched.end:
                return
            position = fetched.next_offset

    def read(self) -> Iterator[tuple[int, Command]]:
        """All commands with their offsets."""
        for entry in self.since(-1):
            if entry.command is not None:
                yield entry.offset, entry.command

    def append(
        self,
        lease: CommandTopicLease,
        values: Sequence[bytes],
        now: int,
        position: int,
        first: FirstCommit | None,
    ) -> None:
        """Append commands, all or none, with the first commit of the query that the only one
        starts; they are durable when this returns. `position`: the offset up to which the topic has
        been read.

        Raises LeaseLostError if another instance holds the lease, UnavailableError if the append
        failed, and UnavailableError with code E-LOG-UNKNOWN if its outcome is unknown.
        """
        try:
            lease.write(self._topic, values, now, first)
        except UnavailableError as error:
            if not self._was_written(lease, values[-1], position):
                raise error

    def _was_written(self, lease: CommandTopicLease, value: bytes, position: int) -> bool:
        """Whether a command was written although its append failed. Opening a new writer ends the
        open transaction of the old one."""
        try:
            if self.shared:
                lease.writer = self._open_writer()
            return any(entry.value == value for entry in self.since(position))
        except UnavailableError as error:
            raise UnavailableError(
                "It is unknown whether the statement was written",
                detail=str(error),
                hint="Check whether the statement took effect before you repeat it.",
                code=UNKNOWN,
            ) from error

    def close(self) -> None:
        """Release the writer; idempotent."""
        if self._writer is not None:
            self._writer.close()


class CommandTopicLease:
    """The right to append to the command topic. `token` identifies the lease on the topic; on a
    log of one process it is "", and no lease is written."""

    def __init__(self, commands: CommandLog, token: str, writer: Writer[pa.Table]) -> None:
        self.commands = commands
        self.token = token
        self.writer = writer

    def write(
        self, topic: str, values: Sequence[bytes], now: int, first: FirstCommit | None = None
    ) -> None:
        """Append records without keys, all or none, with a query's first commit. Raises
        LeaseLostError if the lease is lost."""
        batch = raw_batch([(None, value, now) for value in values])
        record = Appended(topic, 0, batch, len(values), sum(map(len, values)))
        try:
            if first is None:
                self.writer.append([record])
            else:
                self._transact(record, first)
        except FencedError as error:
            if not self.commands.shared:
                raise
            raise LeaseLostError(error.message) from error

    def _transact(self, record: Appended[pa.Table], first: FirstCommit) -> None:
        records = (*first.records, record)
        outcome = self.writer.transact(first.query_id, records, first.positions)
        if outcome is not Outcome.COMMITTED:
            raise UnavailableError(
                f"The back-fill of {first.query_id} could not be written: the outcome of the"
                f" transaction is {outcome.value}",
                hint="Repeat the statement.",
            )

    def append(
        self,
        commands: Sequence[Command],
        previous: str,
        now: int,
        position: int,
        first: FirstCommit | None = None,
    ) -> list[bytes]:
        """Append commands after the one with the hash `previous`; see `CommandLog.append`.
        Returns the values of the records."""
        values: list[bytes] = []
        for command in commands:
            numbered = command if self.token else replace(command, number=-1)
            values.append(encode_command(numbered, previous))
            previous = command_hash(values[-1])
        self.commands.append(self, values, now, position, first)
        return values


def database_id(log: Log[pa.Table], topic: str) -> str:
    """The unique id of a log, which is generated with its command topic; creates the topic if it
    does not exist.

    A state database of another log must not be used with this one.
    """
    existing = log.topic(topic)
    if existing is None:
        config = {"cleanup.policy": "delete", IDENTITY: uuid.uuid4().hex}
        existing = Topic(topic, 1, config=config)
        log.create_topic(existing)
    return existing.config.get(IDENTITY, "")
