"""Decodes records once for all queries of an instance that read them.

Readers of one topic that decode its records alike are a *group*. What one of them decodes is kept
until the others have read it. How they cut the topic into batches need not agree: a reader gets the
parts that are there, and decodes what is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from millstream.executor.decoded_partition import (
    UNKNOWN,
    DecodedBatch,
    DecodedPartition,
    Span,
    gaps,
)
from millstream.formats.codec import DecodeSpec

MAX_BYTES = 64 << 20
CLAIM = 1 << 15
"""A reader decodes at least so many records at a time, and then leaves other partitions to other
threads."""


@dataclass(frozen=True, slots=True)
class Part:
    """Offsets of one partition."""

    partition: int
    first: int
    stop: int


Decode = Callable[[Sequence[Part], Collection[str]], Sequence[DecodedBatch]]
"""Decodes records into these columns; returns a batch for each part."""


class Group:
    """The readers of one topic that decode its records alike. `spec` has no columns: those that any
    of the readers needs are decoded."""

    def __init__(self, topic: str, spec: DecodeSpec) -> None:
        self.topic = topic
        self.spec = spec
        self.partitions: dict[int, DecodedPartition] = {}
        self.names: dict[object, frozenset[str]] = {}
        """The columns that each reader needs."""


@dataclass(slots=True)
class _Request:
    """A part that a reader needs, and what it has of it."""

    part: Part
    batches: list[DecodedBatch] = field(default_factory=list)

    def find(self, kept: DecodedPartition, names: frozenset[str]) -> int:
        """Take what is there of the rest; returns the number of records."""
        found = [batch for gap in self.gaps() for batch in kept.decoded(gap, names)]
        self.batches += found
        return sum(batch.records for batch in found)

    def gaps(self) -> list[Span]:
        return gaps((self.part.first, self.part.stop), self.batches)


class DecodeCache:
    """What readers have decoded for others, at most `max_bytes`; with 0, each decodes for itself.

    Thread-safe. A reader that needs what another thread is decoding waits for it. No thread waits
    before it has finished what it has begun, so there is always one that decodes.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: dict[DecodedBatch, tuple[DecodedPartition, int]] = {}
        """All batches with their bytes, the oldest first."""
        self._groups: dict[str, list[Group]] = {}
        self._changed = threading.Condition()
        self.decoded = 0
        """Records that were decoded where they had several readers."""
        self.reused = 0
        """Records that were read from here instead."""

    @property
    def bytes(self) -> int:
        """The size of what is kept."""
        return self._bytes

    def join(self, topic: str, spec: DecodeSpec, reader: object, names: frozenset[str]) -> Group:
        """Add a reader to the group that decodes like it. `topic` differs from that of an earlier
        topic of the same name; `spec` is without columns."""
        with self._changed:
            groups = self._groups.setdefault(topic, [])
            group = next((one for one in groups if one.spec == spec), None)
            if group is None:
                group = Group(topic, spec)
                groups.append(group)
            group.names[reader] = names
            return group

    def leave(self, group: Group, reader: object) -> None:
        """Remove a reader; idempotent."""
        with self._changed:
            self._forget(group, reader)
            group.names.pop(reader, None)
            groups = self._groups.get(group.topic, [])
            if not group.names and group in groups:
                groups.remove(group)
            if not groups:
                self._groups.pop(group.topic, None)

    def open(self, group: Group, reader: object, partition: int) -> None:
        """Note that a reader will read a partition, from a position that it has yet to tell."""
        with self._changed:
            kept = group.partitions.setdefault(partition, DecodedPartition())
            kept.positions[reader] = UNKNOWN
            kept.left_behind.discard(reader)

    def forget(self, group: Group, reader: object, but: Collection[int] = ()) -> None:
        """Note that a reader reads no partition any more, but for these."""
        with self._changed:
            self._forget(group, reader, but)

    def _forget(self, group: Group, reader: object, but: Collection[int] = ()) -> None:
        for partition, kept in list(group.partitions.items()):
            if partition in but:
                continue
            kept.positions.pop(reader, None)
            kept.left_behind.discard(reader)
            self._drop(kept)
            if not kept.positions and not kept.claims:
                del group.partitions[partition]

    def passed(self, group: Group, reader: object, partition: int, position: int) -> None:
        """Note that a reader will not read what is before the position."""
        with self._changed:
            kept = group.partitions.get(partition)
            if kept is not None and reader in kept.positions:
                kept.positions[reader] = position
                self._drop(kept)

    def shared(self, group: Group, reader: object, partitions: Collection[int]) -> bool:
        """Whether a reader of these partitions is to `read` here: others will come to what it
        reads, or something is kept for them."""
        if not self._max_bytes or len(group.names) < 2:
            return False
        with self._changed:
            found = [group.partitions[at] for at in partitions if at in group.partitions]
            return any(
                kept.batches or any(other is not reader for other in kept.active())
                for kept in found
            )

    def read(
        self, group: Group, reader: object, parts: Sequence[Part], decode: Decode
    ) -> list[list[DecodedBatch]]:
        """The batches of each part, by offset; one part for each partition. `decode` is called
        without a lock, for what is not decoded yet."""
        with self._changed:
            for part in parts:
                kept = group.partitions.setdefault(part.partition, DecodedPartition())
                kept.positions[reader] = part.first
                kept.left_behind.discard(reader)
        requests = {part.partition: _Request(part) for part in parts}
        while claimed := self._claimed(group, reader, requests):
            made: Sequence[DecodedBatch] = ()
            try:
                made = decode(claimed, self._needed(group, reader, claimed))
            finally:
                self._release(group, reader, claimed, made)
            for part, batch in zip(claimed, made, strict=True):
                requests[part.partition].batches.append(batch)
        return [
            sorted(request.batches, key=lambda batch: batch.first) for request in requests.values()
        ]

    def _claimed(
        self, group: Group, reader: object, requests: Mapping[int, _Request]
    ) -> Sequence[Part]:
        """What the reader is to decode now; nothing if it has everything."""
        names = group.names[reader]
        with self._changed:
            while True:
                missing: list[Part] = []
                for partition, request in requests.items():
                    self.reused += request.find(group.partitions[partition], names)
                    missing += (Part(partition, *gap) for gap in request.gaps())
                free = [
                    Part(part.partition, *span)
                    for part in missing
                    for span in group.partitions[part.partition].free((part.first, part.stop))
                ]
                if free or not missing:
                    break
                self._changed.wait()
            claimed = _first(free)
            for part in claimed:
                group.partitions[part.partition].claims.append((part.first, part.stop))
        return claimed

    def _needed(self, group: Group, reader: object, parts: Sequence[Part]) -> frozenset[str]:
        """The columns that readers of these partitions need."""
        with self._changed:
            names = group.names[reader]
            for part in parts:
                readers = group.partitions[part.partition].active()
                names = names.union(*(group.names[other] for other in readers))
            return names

    def _release(
        self, group: Group, reader: object, claimed: Sequence[Part], made: Sequence[DecodedBatch]
    ) -> None:
        with self._changed:
            for part in claimed:
                group.partitions[part.partition].claims.remove((part.first, part.stop))
            for part, batch in zip(claimed, made, strict=False):
                self.decoded += batch.records
                self._keep(group.partitions[part.partition], reader, batch)
            self._changed.notify_all()

    def _keep(self, kept: DecodedPartition, reader: object, batch: DecodedBatch) -> None:
        size = batch.bytes
        if not kept.waits(reader, batch.stop):
            # What is kept only for readers that were left behind goes as fast as others read on.
            while size > 0 and kept.batches:
                size -= self._evict(kept.batches[0])
            return
        for replaced in kept.add(batch):
            self._bytes -= self._kept.pop(replaced)[1]
        self._kept[batch] = (kept, size)
        self._bytes += size
        while self._bytes > self._max_bytes:
            self._evict(next(iter(self._kept)))

    def _evict(self, batch: DecodedBatch) -> int:
        kept, size = self._kept.pop(batch)
        kept.remove(batch)
        self._bytes -= size
        return size

    def _drop(self, kept: DecodedPartition) -> None:
        for batch in kept.passed():
            self._bytes -= self._kept.pop(batch)[1]


def _first(parts: Sequence[Part]) -> Sequence[Part]:
    """The first of these parts, together at least `CLAIM` records. They are not divided: each is
    also fetched by the thread that decodes it."""
    chosen: list[Part] = []
    for part in parts:
        chosen.append(part)
        if sum(one.stop - one.first for one in chosen) >= CLAIM:
            break
    return chosen
