"""Reads a partition with the rows of several senders as if each had a partition of its own.

The records of a fast sender are held back until those of slower ones come, which lie behind them on
the same partition. So this buffer reads on behind what is held back. It keeps what is not consumed,
up to a number of bytes. Above it, it reads on only for senders of which it keeps nothing, and drops
the records of all others. The records that a sender lacks then are read again when what is kept of
it is consumed: the log is where they are spilled to.

Records of an instance with all tasks name no senders: these have merged their rows, and nothing
that was sent earlier is held back. They are read together neither with labelled ones before them
nor with those behind them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol

from millstream.log.log import Batch, Fetched, Reader, SenderEnds, TopicPartition

_NEVER_CUT = 1 << 62
_FEW_BYTES = 1 << 17
"""Up to this size, everything that is kept is presented to each run."""


@dataclass(frozen=True, slots=True)
class LabelledRecord(Generic[Batch]):
    """One record, and the tasks that have sent its rows; none for an instance with all tasks."""

    offset: int
    senders: frozenset[int]
    bytes: int
    batch: Batch


class Labels(Protocol[Batch]):
    """Reads the labels of records; the runtime itself never inspects a batch."""

    def records(self, batch: Batch) -> Sequence[LabelledRecord[Batch]]:
        """The records of a batch, one by one."""

    def join(self, batches: Sequence[Batch]) -> Batch:
        """Records one after another; none are the empty batch."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a run has consumed: how many records were released, and a number that is positive if
    anything was consumed behind the position."""

    records: int
    ahead: int


@dataclass(slots=True)
class _Reread:
    """Reading again what was dropped, for some senders: how far it has come."""

    senders: set[int]
    at: int


@dataclass(slots=True)
class SenderBuffer(Generic[Batch]):
    """What is read of one partition and not consumed, and what of it to present to the next run.

    The position is that of the first record that is not consumed; of some senders, records behind
    it are (`_ahead`).
    """

    labels: Labels[Batch]
    senders: int
    """How many tasks send."""
    _kept: list[LabelledRecord[Batch]] = field(default_factory=list)
    _size: int = 0
    _position: int = 0
    _high: int = 0
    """Before this offset everything was read."""
    _ended: bool = False
    """Whether that was the end of the partition."""
    _barrier: bool = False
    """Whether a record of the other kind follows there."""
    _dropped: dict[int, int] = field(default_factory=dict)
    """For senders with dropped records, the first one. All before it are kept or consumed."""
    _ahead: dict[int, int] = field(default_factory=dict)
    """Before which offset the records of a sender are consumed."""
    _share: dict[int, int] = field(default_factory=dict)
    """For senders whose records are held back, how many of them to present."""
    _reread: _Reread | None = None
    _few: int = 0

    def read(
        self,
        reader: Reader[Batch],
        topic_partition: TopicPartition,
        position: int,
        quota: int,
        budget: int,
        bound: int | None = None,
    ) -> Fetched[Batch]:
        """The records to process next, after reading more of them if that is allowed. `quota`:
        records to read at most. `budget`: bytes to keep."""
        self._position = position
        self._few = min(_FEW_BYTES, budget // 4)
        self._high = max(self._high, position)
        awaited = self._ended = False
        if self._reads_on(budget):
            at = self._high if self._reread is None else self._reread.at
            fetched = reader.read(*topic_partition, at, quota, bound)
            awaited = fetched.awaited
            self._take(fetched, budget if self._kept else _NEVER_CUT)
        return self._presented(topic_partition, awaited)

    def consumed(self, position: int, ahead: Mapping[int, int]) -> Taken:
        """Release what a run has consumed: everything before the position, and of some senders the
        records before another offset."""
        kept = len(self._kept)
        if position >= self._high:
            self._position, self._size = position, 0
            self._kept.clear()
            self._ahead.clear()
            self._share.clear()
            return Taken(kept, 0)
        presented = self._pending(self._limits()) if self._paced else None
        before, self._ahead = self._ahead, {s: at for s, at in ahead.items() if at > position}
        # Of a sender that was read for the first time here, the state may say that it is ahead.
        moved = sum(at - before.get(sender, at) for sender, at in self._ahead.items())
        new = len(self._ahead.keys() - before.keys())
        self._position = position
        self._kept = [record for record in self._kept if self._needed(record)]
        self._size = sum(record.bytes for record in self._kept)
        self._pace(presented)
        return Taken(kept - len(self._kept), max(0, moved) + new)

    def forget(self) -> None:
        """Read again everything that is not consumed."""
        self._kept.clear()
        self._dropped.clear()
        self._share.clear()
        self._size, self._high, self._reread = 0, self._position, None
        self._ended = self._barrier = False

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return self._size

    @property
    def version(self) -> tuple[int, int, int, int]:
        """Changes with every change of what is presented."""
        offsets = sum(self._dropped.values()) + sum(self._share.values())
        return self._high, len(self._kept), offsets, self._size

    # ---- what is kept ------------------------------------------------------------------------

    @property
    def _labelled(self) -> bool:
        """Whether what is kept names its senders."""
        return bool(self._kept and self._kept[0].senders) or bool(self._dropped)

    def _needed(self, record: LabelledRecord[Batch]) -> bool:
        """Whether something of a record is not consumed."""
        if record.offset < self._position:
            return False
        if not record.senders or not self._ahead:
            return True
        return any(self._ahead.get(sender, 0) <= record.offset for sender in record.senders)

    def _pending(self, limits: Mapping[int, int]) -> dict[int, list[int]]:
        """The offsets of the kept records of each sender, before some limits."""
        found: dict[int, list[int]] = {}
        for record in self._kept:
            for sender in record.senders:
                consumed = max(self._position, self._ahead.get(sender, 0))
                if consumed <= record.offset < limits.get(sender, _NEVER_CUT):
                    found.setdefault(sender, []).append(record.offset)
        return found

    def _hungry(self) -> set[int]:
        """The senders of which nothing is kept, and more may come."""
        pending = self._pending(self._dropped)
        reread = self._reread.senders if self._reread else set()
        return {
            sender
            for sender in range(self.senders)
            if sender not in pending and (sender not in self._dropped or sender in reread)
        }

    def _reads_on(self, budget: int) -> bool:
        if self._dropped and self._reread is None:
            pending = self._pending(self._dropped)
            lacking = {sender for sender in self._dropped if sender not in pending}
            if lacking:
                self._reread = _Reread(lacking, min(self._dropped[s] for s in lacking))
        if self._reread is not None:
            return True
        if self._barrier and (self._kept or self._dropped):
            return False
        return self._size < budget or (self._labelled and bool(self._hungry()))

    # ---- reading -----------------------------------------------------------------------------

    def _take(self, fetched: Fetched[Batch], budget: int) -> None:
        """Keep what was read, or drop it. With nothing kept before, all of it is kept."""
        stop = fetched.next_offset
        stopped = barrier = False
        hungry: set[int] | None = None
        known = {record.offset for record in self._kept} if self._reread else set()
        for record in self.labels.records(fetched.records()) if fetched.count else ():
            if self._reread is not None and record.offset >= self._high:
                # From here on it is read for all senders.
                stop, stopped = self._high, True
                break
            labelled = self._labelled if self._kept or self._dropped else bool(record.senders)
            if bool(record.senders) != labelled:
                stop, stopped, barrier = record.offset, True, True
                break
            wanted = self._wanted(record)
            if not wanted:
                continue
            if self._size >= budget and record.offset not in known:
                hungry = self._hungry() if hungry is None else hungry
                if not record.senders or not hungry:
                    stop, stopped = record.offset, True
                    break
                if hungry.isdisjoint(wanted):
                    self._drop(wanted, record.offset)
                    continue
            if record.offset not in known:
                self._keep(record)
            if hungry is not None:
                hungry -= wanted
        self._arrived(stop)
        if self._reread is None:
            self._ended, self._barrier = fetched.end and not stopped, barrier
        elif stopped or self._reread.at >= self._high or not self._reread.senders:
            self._reread = None

    def _wanted(self, record: LabelledRecord[Batch]) -> set[int]:
        """The senders for which a record that was read is to be kept."""
        if not record.senders:
            return {-1}
        reread = self._reread.senders if self._reread else ()
        return {sender for sender in record.senders if self._lacks(sender, record.offset, reread)}

    def _lacks(self, sender: int, offset: int, reread: Collection[int]) -> bool:
        if offset < max(self._position, self._ahead.get(sender, 0)):
            return False
        if sender in self._dropped:
            return sender in reread and offset >= self._dropped[sender]
        return offset >= self._high

    def _keep(self, record: LabelledRecord[Batch]) -> None:
        self._kept.append(record)
        self._size += record.bytes
        if self._reread is not None:
            self._kept.sort(key=lambda each: each.offset)

    def _drop(self, senders: Collection[int], offset: int) -> None:
        for sender in senders:
            self._dropped[sender] = offset
            if self._reread is not None:
                self._reread.senders.discard(sender)

    def _arrived(self, offset: int) -> None:
        """Everything before an offset was read, or read again."""
        if self._reread is None:
            self._high = max(self._high, offset)
            return
        self._reread.at = offset
        for sender in self._reread.senders:
            self._dropped[sender] = max(self._dropped[sender], offset)
            if self._dropped[sender] >= self._high:
                del self._dropped[sender]

    # ---- what is presented -------------------------------------------------------------------

    def _limits(self) -> dict[int, int]:
        """For some senders, from which offset on their records are not presented."""
        limits = dict(self._dropped)
        if self._share:
            pending = self._pending(self._dropped)
            for sender, share in self._share.items():
                offsets = pending.get(sender, ())
                if len(offsets) > share:
                    limits[sender] = offsets[share]
        return limits

    def _presented(self, topic_partition: TopicPartition, awaited: bool) -> Fetched[Batch]:
        limits = self._limits()
        records: Sequence[LabelledRecord[Batch]] = self._kept
        if limits:
            records = [
                record
                for record in self._kept
                if any(record.offset < limits.get(sender, _NEVER_CUT) for sender in record.senders)
            ]
        joint = bool(records) and not records[0].senders
        return Fetched(
            *topic_partition,
            self.labels.join([record.batch for record in records]),
            len(records),
            min((self._high, *limits.values())),
            self._ended and not limits,
            sum(record.bytes for record in records),
            awaited,
            senders=SenderEnds(
                limits, joint=joint, barrier=self._barrier and bool(records), complete=self._ended
            ),
        )

    @property
    def _paced(self) -> bool:
        """Whether so much is held back that each run should not order all of it again."""
        return self._size > self._few and self._labelled

    def _pace(self, presented: Mapping[int, Sequence[int]] | None) -> None:
        """Present less of a sender whose records are held back, more again when they are not."""
        if presented is None:
            self._share.clear()
            return
        left = self._pending(self._dropped)
        for sender, offsets in presented.items():
            remaining = sum(offset in offsets for offset in left.get(sender, ()))
            if remaining:
                self._share[sender] = max(1, 2 * (len(offsets) - remaining))
            elif sender in self._share:
                self._share[sender] *= 2
