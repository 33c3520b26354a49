"""A `Log` with an end, from which the streaming runtime reads the input of one task of a bounded
run."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NoReturn

import numpy as np
import pyarrow as pa

from millstream.history.reading import ReadChunk
from millstream.history.splits import Split
from millstream.log.log import (
    Appended,
    DirectReader,
    Fetched,
    Member,
    Participant,
    Reader,
    Result,
    Topic,
    TopicPartition,
    Writer,
)
from millstream.log.usage import TopicUsage
from millstream.model.batch import NO_RECORDS
from millstream.model.errors import MillstreamError, StatementError

READ_BYTES = 16 << 20
"""The approximate bytes of one read, however few records that is."""


class SplitBuffer:
    """The records of one partition in order, kept for as long as they may be requested."""

    def __init__(self, pieces: Iterator[ReadChunk]) -> None:
        self._pieces = pieces
        self._kept: deque[ReadChunk] = deque()
        self._ended = False

    def read(self, offset: int, max_records: int) -> tuple[pa.Table, int, bool]:
        """Records from `offset` on, the next offset, and whether there are no more. Records before
        `offset` must not be requested again."""
        while self._kept and self._kept[0][1] <= offset:
            self._kept.popleft()
        taken, count, size, at = [], 0, 0, offset
        index = 0
        cut = False
        while count < max_records and size < READ_BYTES and not cut and self._reaches(index):
            records, following = self._kept[index]
            index += 1
            if at == offset:
                records = _from(records, offset)
            room = min(max_records - count, _fitting(records, READ_BYTES - size))
            cut = records.num_rows > room
            if cut:
                records = records.slice(0, room)
                following = records["offset"][-1].as_py() + 1
            taken.append(records)
            count, size, at = count + records.num_rows, size + records.nbytes, following
        batch = pa.concat_tables(taken) if taken else NO_RECORDS
        last = index == len(self._kept) and (index == 0 or at == self._kept[index - 1][1])
        return batch, at, last and not self._reaches(index)

    def _reaches(self, index: int) -> bool:
        """Whether a piece with this number exists; blocks until that is known."""
        while len(self._kept) <= index and not self._ended:
            piece = next(self._pieces, None)
            if piece is None:
                self._ended = True
            else:
                self._kept.append(piece)
        return len(self._kept) > index


def _from(records: pa.Table, offset: int) -> pa.Table:
    offsets = records["offset"].to_numpy()
    return records.slice(int(np.searchsorted(offsets, offset)))


def _fitting(records: pa.Table, size: int) -> int:
    """The number of records with about this many bytes; at least one."""
    return max(1, int(records.num_rows * size / max(records.nbytes, 1)))


class BoundedLog:
    """Implements `Log` for reading some partitions, from feeds."""

    def __init__(
        self, feeds: Mapping[TopicPartition, SplitBuffer], splits: Mapping[TopicPartition, Split]
    ) -> None:
        """`splits`: the contents of the feeds, where known beforehand."""
        self._feeds = feeds
        self._splits = splits

    def read(self, topic: str, partition: int, offset: int, max_records: int) -> Fetched[pa.Table]:
        """See `Log`; blocks until records have arrived."""
        batch, following, end = self._feeds[topic, partition].read(offset, max_records)
        return Fetched(topic, partition, batch, batch.num_rows, following, end, batch.nbytes)

    def reader(self, *, alone: bool = False) -> Reader[pa.Table]:
        """See `Log`."""
        return DirectReader(self)

    def join(self, group: str, partitions: int) -> Member[pa.Table]:
        """Refused."""
        refuse()

    def start_offset(self, topic: str, partition: int) -> int:
        """See `Log`; 0 without a start."""
        place = (topic, partition)
        return self._splits[place].start if place in self._splits else 0

    def end_offset(self, topic: str, partition: int) -> int:
        """Known once it is reached."""
        refuse()

    def end_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """None is known."""
        return {}

    def written_end(self, topic: str, partition: int) -> int:
        """See `Log`; for a changelog, the position from which its state continues."""
        return self._splits[topic, partition].end

    def written_ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See `written_end`."""
        return {place: self.written_end(*place) for place in places}

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """Records that were read are not kept."""

    def positions(
        self, group: str, places: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, int]:
        """Nothing is committed."""
        return {}

    def vacant(self, group: str) -> bool:
        """There is no group."""
        return True

    def forget_group(self, group: str) -> None:
        """Nothing is committed."""

    def topic(self, name: str) -> Topic | None:
        """A bounded run does not check topics."""
        return None

    def topics(self) -> tuple[Topic, ...]:
        """See `topic`."""
        return ()

    def describe(self, names: Collection[str]) -> Mapping[str, Topic]:
        """See `topic`."""
        return {}

    def seen(self, names: Collection[str]) -> Mapping[str, Topic | None]:
        """See `topic`."""
        return {}

    def create_topic(self, topic: Topic) -> None:
        """Refused."""
        refuse()

    def create_topics(self, topics: Sequence[Topic]) -> list[Topic | MillstreamError]:
        """Refused."""
        refuse()

    def delete_topic(self, name: str) -> None:
        """Refused."""
        refuse()

    def configure_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Refused."""
        refuse()

    def usage(self, names: Collection[str]) -> Mapping[str, TopicUsage]:
        """See `topic`."""
        return {}

    def writer(self, identity: str, *, size: int = 0) -> Writer[pa.Table]:
        """Refused."""
        refuse()

    def send(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Refused."""
        refuse()

    marker_offsets = 0
    """See `Log`."""
    commits_together = False
    """See `Log`."""

    def transact_all(self, participants: Sequence[Participant[pa.Table]]) -> list[Result]:
        """Refused."""
        refuse()

    def close(self) -> None:
        """Nothing is open."""


def refuse() -> NoReturn:
    """The run called an operation that a bounded log does not support."""
    raise StatementError("A bounded run only reads")
