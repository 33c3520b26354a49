"""The topics of a service's members: one on which they agree on their tasks, and one without
records, whose partitions the brokers share out to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from millstream.log.assignment.encoding import decode, encode
from millstream.log.assignment.group_assignment import Record
from millstream.log.log import AS_THE_CLUSTER, Appended, Reader, Topic
from millstream.model.batch import raw_batch
from millstream.model.clock import now_ms

Row = Appended[pa.Table]
READ_MAX = 10_000
_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
MEMBERS_MAX = 32
"""Each member has to have a partition (a seat): the client says that a member was removed only if
it had one, and the others see it by who has that partition now."""


def assignment_topic(prefix: str) -> Topic:
    """The topic of the assignments. It has one partition, because all members read all records in
    one order."""
    return Topic(f"{prefix}-assignments", 1, AS_THE_CLUSTER, _CONFIG)


def members_topic(prefix: str) -> Topic:
    """The topic that members subscribe to; its partitions are their seats."""
    return Topic(f"{prefix}-members", MEMBERS_MAX, AS_THE_CLUSTER)


class TopicLog(Protocol):
    """What the topic needs of the log."""

    def start_offset(self, topic: str, partition: int) -> int:
        """See `Log`."""

    def end_offset(self, topic: str, partition: int) -> int:
        """See `Log`."""

    def reader(self) -> Reader[pa.Table]:
        """See `Log`."""

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """See `Log`."""


class AssignmentTopic:
    """Reads and writes the records. `read` and `restart` are for one thread; the rest may be called
    from any."""

    def __init__(self, name: str, log: TopicLog, send: Callable[[Sequence[Row]], None]) -> None:
        """`send` appends records, which are durable and readable when it returns. Raises
        UnavailableError when that is not known."""
        self.name = name
        self.position = 0
        """Before which offset everything was read."""
        self._log = log
        self._send = send
        self._reader: Reader[pa.Table] | None = None

    def restart(self) -> int:
        """Read from the first record that is retained; returns its offset."""
        self.position = self._log.start_offset(self.name, 0)
        return self.position

    def end(self) -> int:
        """The offset after the last record."""
        return self._log.end_offset(self.name, 0)

    def read(self) -> list[tuple[int, Record | None]]:
        """The next records that have been fetched, and their offsets; None for one that this
        version does not know. Does not wait. Raises CorruptionError where they were deleted,
        UnavailableError."""
        if self._reader is None:
            self._reader = self._log.reader()
        self._reader.begin([(self.name, 0)])
        fetched = self._reader.read(self.name, 0, self.position, READ_MAX)
        self.position = fetched.next_offset
        rows = fetched.batch.select(["offset", "value"]).to_pylist() if fetched.count else ()
        return [(row["offset"], decode(row["value"] or b"")) for row in rows]

    def row(self, record: Record) -> Row:
        """A record as it is appended."""
        value = encode(record)
        batch = raw_batch([(None, value, now_ms())])
        return Appended(self.name, 0, batch, 1, len(value))

    def write(self, record: Record) -> None:
        """Append a record."""
        self._send([self.row(record)])

    def truncate(self, before: int) -> None:
        """Delete the records before an offset, soon."""
        self._log.truncate(self.name, 0, before)

    def close(self) -> None:
        """Stop to read; idempotent."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
