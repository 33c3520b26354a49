"""The command log: every statement that changed the catalog, in order, on a topic of its own.

Opening a database replays it. On a log that other instances of the service write to as well, a
command is appended in a *turn*: opening the topic's writer fences whoever was about to append, the
turn is written down, what others wrote before it is read, and only then is the command prepared
and appended. So nobody appends without having seen everything that is before his command.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from millstream.log.log import Appended, Log, Outcome, Topic, TopicPartition, Writer
from millstream.model.batch import raw_batch
from millstream.model.errors import FencedError, MillstreamError, UnavailableError
from millstream.service.command_topic.entries import (
    Command,
    Entry,
    Hold,
    command_value,
    entry_of,
    turn_value,
)

READ_MAX = 10_000
UNKNOWN = "E-LOG-UNKNOWN"
"""The code of the error after which a command may be on the log, or not."""
_IDENTITY = "millstream.database"


@dataclass(frozen=True, slots=True)
class FirstCommit:
    """What a query begins with, written in one transaction with its command: both or neither."""

    query_id: str
    records: tuple[Appended[pa.Table], ...]
    positions: Mapping[TopicPartition, int]


class LeaseLostError(FencedError):
    """Another instance has taken its turn: what was prepared was not written."""


class CommandLog:
    """Appends commands and reads them all back."""

    def __init__(self, log: Log[pa.Table], topic: str, *, shared: bool = False) -> None:
        """`shared`: other instances append to the topic too."""
        self.shared = shared
        self._log = log
        self._topic = topic
        database_id(log, topic)
        self._writer: Writer[pa.Table] | None = None if shared else log.writer(topic)

    @property
    def next_offset(self) -> int:
        """The offset after the last command."""
        return self._log.end_offset(self._topic, 0)

    @contextmanager
    def turn(
        self, now: int, *, size: int = 0, hold: Hold | None = None
    ) -> Iterator[CommandTopicLease]:
        """Be the one who appends, until somebody else is. LostTurnError where that is at once.
        `size`: bytes of what is written with the command. `hold`: where the log is shared, a query
        that is to stand still until the command is written, or the turn is over."""
        token = uuid.uuid4().hex if self.shared else ""
        turn = CommandTopicLease(self, token, self._writer or self._open(size))
        try:
            if token:
                turn.write(self._topic, turn_value(token, hold), now)
            yield turn
        except LeaseLostError:
            raise
        except Exception:
            if self.shared and hold is not None:
                with suppress(MillstreamError):
                    turn.write(self._topic, turn_value(uuid.uuid4().hex), now)
            raise
        finally:
            if self.shared:
                turn.writer.close()

    def _open(self, size: int = 0) -> Writer[pa.Table]:
        try:
            return self._log.writer(self._topic, size=size)
        except FencedError as error:
            raise LeaseLostError(error.message) from error

    def since(self, position: int) -> Iterator[Entry]:
        """All entries from an offset on; -1 for the first that there is."""
        if position < 0:
            position = self._log.start_offset(self._topic, 0)
        while True:
            fetched = self._log.read(self._topic, 0, position, READ_MAX)
            for row in fetched.batch.to_pylist():
                yield entry_of(row["offset"], row["value"])
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
        turn: CommandTopicLease,
        value: bytes,
        now: int,
        position: int,
        first: FirstCommit | None,
    ) -> None:
        """Write a command, with what the query that it starts begins with; durable when this
        returns. LostTurnError when it is not written as the turn is over; UnavailableError when it
        is not written for other reasons, or (code E-LOG-UNKNOWN) when nobody knows. `position`: up
        to where the topic has been read."""
        try:
            turn.write(self._topic, value, now, first)
        except UnavailableError as error:
            if not self._landed(turn, value, position):
                raise error

    def _landed(self, turn: CommandTopicLease, value: bytes, position: int) -> bool:
        """Whether a command whose append failed is there nevertheless. A new writer settles what
        the old one left open."""
        try:
            if self.shared:
                turn.writer = self._open()
            return any(entry.value == value for entry in self.since(position))
        except UnavailableError as error:
            raise UnavailableError(
                "Nobody knows whether the statement was written",
                detail=str(error),
                hint="Look whether it was carried out before giving it again.",
                code=UNKNOWN,
            ) from error

    def close(self) -> None:
        """Release the writer; idempotent."""
        if self._writer is not None:
            self._writer.close()


class CommandTopicLease:
    """Being the one who appends. `token` is how it is known on the topic; on a log of one process
    it has none, and is not written."""

    def __init__(self, commands: CommandLog, token: str, writer: Writer[pa.Table]) -> None:
        self.commands = commands
        self.token = token
        self.writer = writer

    def write(self, topic: str, value: bytes, now: int, first: FirstCommit | None = None) -> None:
        """Append one record without a key; LostTurnError when the turn is over."""
        record = Appended(topic, 0, raw_batch([(None, value, now)]), 1, len(value))
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
                f"The past of {first.query_id} could not be written: the outcome of the"
                f" transaction is {outcome.value}",
                hint="Give the statement again.",
            )

    def append(
        self,
        command: Command,
        previous: str,
        now: int,
        position: int,
        first: FirstCommit | None = None,
    ) -> bytes:
        """Write a command after the one whose hash is `previous`; see `CommandLog.append`.
        Returns what was written."""
        numbered = command if self.token else replace(command, number=-1)
        value = command_value(numbered, previous)
        self.commands.append(self, value, now, position, first)
        return value


def database_id(log: Log[pa.Table], topic: str) -> str:
    """What tells one log from every other; drawn when its command topic is made, here if need be.

    A state database that was made for another log must not be used with this one.
    """
    found = log.topic(topic)
    if found is None:
        config = {"cleanup.policy": "delete", _IDENTITY: uuid.uuid4().hex}
        found = Topic(topic, 1, config=config)
        log.create_topic(found)
    return found.config.get(_IDENTITY, "")
