"""Hands rows from one sub-topology of a query to the next one in memory (ADR 45).

This needs all tasks of the query in this process: there is only one sender then, and what it has
sent and not committed has the same fate as what becomes of it. Rows that are processed before the
commit are never written, because the commit moves the positions behind their causes together with
the state that they have changed. What is left is written with the commit, and read from the log.

Records that are handed over are numbered from the end of their partition on the log. These offsets
mean nothing outside of this process: the position to commit is that end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from millstream.log.batches import Batches
from millstream.log.log import Appended, Batch, Fetched, Reader, TopicPartition


@dataclass(slots=True)
class _Place(Generic[Batch]):
    """A partition: where its records on the log end, the number of the first record that is kept,
    and what is kept."""

    end: int
    first: int
    records: list[Appended[Batch]] = field(default_factory=list)
    bytes: int = 0

    @property
    def count(self) -> int:
        return sum(appended.count for appended in self.records)


class HandOver(Generic[Batch]):
    """What the sub-topologies of one query have sent each other and not processed yet."""

    def __init__(self, batches: Batches[Batch] | None) -> None:
        """Without `batches` nothing is handed over."""
        self._batches = batches
        self._places: Mapping[TopicPartition, _Place[Batch]] = {}

    def begin(self, ends: Mapping[TopicPartition, int]) -> None:
        """From now on, hand over what is sent to these partitions, if that is possible; `ends`:
        those on the log."""
        if self.possible:
            self._places = {at: _Place(end, end) for at, end in ends.items()}

    def stop(self) -> None:
        """Hand nothing over any more, and drop what is kept."""
        self._places = {}

    @property
    def possible(self) -> bool:
        """Whether it can hand anything over."""
        return self._batches is not None

    @property
    def active(self) -> bool:
        """Whether anything is handed over."""
        return bool(self._places)

    @property
    def bytes(self) -> int:
        """The bytes that are kept."""
        return sum(place.bytes for place in self._places.values())

    @property
    def count(self) -> int:
        """The records that are kept; callable from any thread."""
        return sum(place.count for place in self._places.values())

    def take(self, outputs: Sequence[Appended[Batch]]) -> list[Appended[Batch]]:
        """Keep the outputs that are handed over; returns the others."""
        others = []
        for output in outputs:
            place = self._places.get((output.topic, output.partition))
            if place is None:
                others.append(output)
            else:
                place.records.append(output)
                place.bytes += output.bytes
        return others

    def over(self, reader: Reader[Batch]) -> Reader[Batch]:
        """A reader that continues behind the log with what is handed over."""
        return _Continued(reader, self) if self.possible else reader

    def durable(self, at: TopicPartition, position: int) -> int:
        """What to commit for a position."""
        place = self._places.get(at)
        return position if place is None else min(position, place.end)

    def lag(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The records that are kept of each partition whose position is behind the log: what lies
        there is of processes that have lost the tasks, and void. Callable from any thread."""
        places = self._places.items()
        return {at: place.count for at, place in places if positions.get(at, -1) >= place.end}

    def ended(self, at: TopicPartition, position: int, bound: int) -> int:
        """The position in a partition of which everything before a bound was sent. What lies on the
        log there is void if this process has sent nothing but what is processed."""
        place = self._places.get(at)
        if place is None or position < place.end or place.records:
            return position
        place.end, place.first = max(place.end, bound), max(place.first, bound)
        return max(position, bound)

    def consumed(self, at: TopicPartition, position: int) -> None:
        """Drop the records before a position."""
        place = self._places.get(at)
        if place is None or position <= place.first:
            return
        assert self._batches is not None
        kept = self._behind(place, position)
        place.first = position
        place.records = kept
        place.bytes = sum(appended.bytes for appended in kept)

    def leave(self, at: TopicPartition) -> tuple[int, Sequence[Appended[Batch]]]:
        """Give up what is kept of a partition, to write it; returns it with the number of the first
        record. `written` has to follow before anything is read."""
        place = self._places.get(at)
        if place is None:
            return 0, ()
        left, place.records, place.bytes = place.records, [], 0
        return place.first, left

    def written(self, ends: Mapping[TopicPartition, int]) -> None:
        """Note the ends of partitions after what was left of them is written."""
        for at, end in ends.items():
            place = self._places[at]
            place.end = place.first = end

    def past(self, at: TopicPartition, offset: int) -> bool:
        """Whether everything on the log lies before an offset."""
        place = self._places.get(at)
        return place is not None and offset >= place.end

    def read(self, at: TopicPartition, offset: int, max_records: int) -> Fetched[Batch]:
        """Records that were handed over, as if they were on the log."""
        assert self._batches is not None
        place = self._places[at]
        wanted, count = [], 0
        for appended in self._behind(place, offset):
            room = max_records - count
            if room <= 0:
                break
            wanted.append(appended if appended.count <= room else self._cut(appended, 0, room))
            count += wanted[-1].count
        batch = self._batches.join([appended.batch for appended in wanted])
        if wanted:
            batch = self._batches.topic_partition(batch, offset)
        size = sum(appended.bytes for appended in wanted)
        end = offset + count >= place.first + place.count
        return Fetched(*at, batch, count, offset + count, end, size)

    def before(self, at: TopicPartition, bound: int | None) -> int | None:
        """Where to end a read of the log with a bound."""
        place = self._places.get(at)
        if place is None:
            return bound
        return place.end if bound is None else min(bound, place.end)

    def follows(self, at: TopicPartition) -> bool:
        """Whether records of a partition lie behind the log."""
        place = self._places.get(at)
        return place is not None and bool(place.records)

    def _behind(self, place: _Place[Batch], offset: int) -> list[Appended[Batch]]:
        """The kept records of a partition from an offset on."""
        skipped = offset - place.first
        kept = []
        for appended in place.records:
            if skipped >= appended.count:
                skipped -= appended.count
                continue
            kept.append(
                self._cut(appended, skipped, appended.count - skipped) if skipped > 0 else appended
            )
            skipped = 0
        return kept

    def _cut(self, appended: Appended[Batch], start: int, count: int) -> Appended[Batch]:
        assert self._batches is not None
        share = appended.bytes * count // appended.count
        return replace(
            appended,
            batch=self._batches.cut(appended.batch, start, count),
            count=count,
            bytes=share,
        )


@dataclass(frozen=True, slots=True)
class _Continued(Generic[Batch]):
    """Reads partitions from the log, and from where that ends what was handed over."""

    log: Reader[Batch]
    hand_over: HandOver[Batch]

    def begin(self, together: Collection[TopicPartition] = ()) -> None:
        """See `Reader`."""
        self.log.begin(together)

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_records: int,
        before: int | None = None,
    ) -> Fetched[Batch]:
        """See `Reader`. What is handed over never lies behind `before`: its senders have read
        nothing behind the offsets that belong to that."""
        at = (topic, partition)
        if self.hand_over.past(at, offset):
            return self.hand_over.read(at, offset, max_records)
        bound = self.hand_over.before(at, before)
        fetched = self.log.read(topic, partition, offset, max_records, bound)
        if fetched.end and self.hand_over.follows(at):
            return replace(fetched, end=False)
        return fetched

    def ready(self, positions: Mapping[TopicPartition, int]) -> int:
        """See `Reader`."""
        return self.log.ready(positions) + self.hand_over.count

    def close(self) -> None:
        """See `Reader`; what is handed over stays."""
        self.log.close()
