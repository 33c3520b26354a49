"""Orders the rows of several senders that lie on one partition: each sender is a channel, and those
of a task are merged by time, as in `order`.

All steps are over arrays of rows, or of tasks times senders, so that a row costs the same however
many tasks send.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.executor.exchange_read import (
    AT,
    CHANNEL,
    OFFSET,
    SKIP,
    ChannelWatermark,
    Slot,
    Unpacked,
)
from millstream.executor.order import ALL_RANKS, Ints, Segment
from millstream.log.log import Fetched
from millstream.model.batch import MOMENT, ROWTIME
from millstream.model.event_time import END, NEVER
from millstream.topology.topology import RepartitionInput, SubTopology

Bools = np.ndarray[Any, np.dtype[np.bool_]]
_NO_OFFSET = 1 << 62


@dataclass(frozen=True, slots=True)
class Progress:
    """What a run has consumed: the new position of each partition, the watermarks that have
    changed, those that say nothing any more, and `ahead` as of `RunResult`."""

    consumed: Mapping[tuple[str, int], int]
    marks: Mapping[Slot, ChannelWatermark]
    obsolete: tuple[Slot, ...]
    ahead: Mapping[tuple[str, int], Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class _Channels:
    """The channels of the tasks of one input. A *key* is the number of a task among `tasks`, times
    the number of channels, plus the channel: 0 of an instance with all tasks, s + 1 of sender s. If
    `further`, there is one behind them, with partitions of its own."""

    sub: SubTopology
    index: int
    senders: int
    further: bool
    tasks: tuple[int, ...]

    @property
    def each(self) -> int:
        return self.senders + 1 + self.further

    @property
    def count(self) -> int:
        return len(self.tasks) * self.each

    def slot(self, key: int) -> Slot:
        task, channel = divmod(key, self.each)
        return Slot(self.tasks[task], self.index + channel * len(self.sub.inputs))

    def keys_of(self, read: Fetched[pa.Table]) -> slice:
        """The keys of the channels on a partition."""
        lane, task = divmod(read.partition, self.sub.partitions)
        first = self.tasks.index(task) * self.each
        behind = first + self.senders + 1
        return slice(behind, behind + 1) if lane else slice(first, behind)


@dataclass(frozen=True, slots=True)
class _Known:
    """The stored watermarks: m by task; by key, the offset and the row in it before which all is
    consumed."""

    carried: Ints
    offset: Ints
    done: Ints
    first: Mapping[Slot, ChannelWatermark]
    """As they are stored, for the channels of instances with all tasks."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that are not consumed yet, in the order of offsets."""

    table: pa.Table
    key: Ints
    offset: Ints
    at: Ints
    """The number of the row among those of its sender in its record."""

    def only(self, which: Bools) -> _Rows:
        table = self.table.filter(pa.array(which))
        return _Rows(table, self.key[which], self.offset[which], self.at[which])


@dataclass(frozen=True, slots=True)
class SenderRows:
    """The rows of one input: `table` has those that no sender holds back, those of each task before
    `ends`, in processing order. `segments`: one for each task."""

    table: pa.Table
    ends: Sequence[int]
    segments: tuple[Segment, ...]
    channels: _Channels
    known: _Known
    reads: tuple[Fetched[pa.Table], ...]
    rows: _Rows
    place: Ints
    """The number of each row in the processing order of its task."""

    def taken(self, accepted: Sequence[int], tops: Sequence[int]) -> Progress:
        """The progress of a run that has consumed this many rows of each task. `tops`: the m behind
        them."""
        rows, channels = self.rows, self.channels
        left = self.place >= np.asarray(accepted, np.int64)[rows.key // channels.each]
        offset, done = self.known.offset.copy(), self.known.done.copy()
        # Of several assignments to one key, the last one counts.
        offset[rows.key[~left]] = rows.offset[~left] + 1
        done[rows.key[~left]] = 0
        first = np.flatnonzero(left)[::-1]
        offset[rows.key[first]] = rows.offset[first]
        done[rows.key[first]] = rows.at[first]
        held = np.full(channels.count, _NO_OFFSET)
        held[rows.key[first]] = rows.offset[first]
        position = np.zeros(channels.count, np.int64)
        consumed = {}
        for read in self.reads:
            own = channels.keys_of(read)
            position[own] = min(int(held[own].min()), read.next_offset)
            consumed[read.topic, read.partition] = int(position[own.start])
        beyond = (offset > position) | ((offset == position) & (done > 0))
        return Progress(
            consumed,
            self._moved(offset, done, beyond, tops),
            tuple(
                channels.slot(key)
                for key in np.flatnonzero((self.known.offset >= 0) & ~beyond).tolist()
                if key % channels.each
            ),
            self._ahead(offset, position),
        )

    def _moved(
        self, offset: Ints, done: Ints, beyond: Bools, tops: Sequence[int]
    ) -> dict[Slot, ChannelWatermark]:
        """A watermark for each sender that is ahead of the position, and one for each task."""
        channels, known = self.channels, self.known
        new = (offset != known.offset) | (done != known.done)
        keys = np.flatnonzero(beyond & new)
        rows = zip(keys.tolist(), offset[keys].tolist(), done[keys].tolist(), strict=True)
        marks = {channels.slot(key): ChannelWatermark(NEVER, *at) for key, *at in rows}
        for number, top in enumerate(tops):
            key = number * channels.each
            at = (int(offset[key]), int(done[key])) if beyond[key] else (-1, 0)
            marks[channels.slot(key)] = ChannelWatermark(top, *at)
        first = {channels.slot(number * channels.each) for number in range(len(tops))}
        return {
            slot: mark
            for slot, mark in marks.items()
            if slot not in first or known.first.get(slot, ChannelWatermark()) != mark
        }

    def _ahead(self, offset: Ints, position: Ints) -> dict[tuple[str, int], dict[int, int]]:
        channels = self.channels
        ahead: dict[tuple[str, int], dict[int, int]] = {}
        for read in self.reads:
            if read.partition < channels.sub.partitions:
                own = channels.keys_of(read)
                behind = np.flatnonzero(offset[own] > position[own])
                pairs = zip((behind - 1).tolist(), offset[own][behind].tolist(), strict=True)
                ahead[read.topic, read.partition] = {s: at for s, at in pairs if s >= 0}
        return ahead


def in_sender_order(
    sub: SubTopology,
    index: int,
    reads: Sequence[Fetched[pa.Table]],
    marks: Mapping[Slot, ChannelWatermark],
    moved: Unpacked,
    rank: int,
    *,
    by_arrival: bool,
) -> SenderRows:
    """Merge the rows of an input. `rank`: that of its first channel."""
    source = sub.inputs[index]
    assert isinstance(source, RepartitionInput)
    tasks = tuple(sorted({read.partition % sub.partitions for read in reads}))
    channels = _Channels(sub, index, source.senders, source.channels > 1, tasks)
    known = _known(channels, marks)
    rows = _new_rows(channels, known, source, reads, moved, moments=by_arrival)
    table = rows.table
    moments = table[MOMENT if by_arrival else ROWTIME].to_numpy()
    second = table[SKIP].to_numpy() < 0
    paired = bool(second.any())
    m = _rising(moments, rows.key, known.carried[rows.key // channels.each], second)
    task, channel = np.divmod(rows.key, channels.each)
    limits = _limits(channels, known, reads, rows.key, m, rank)
    order = np.lexsort((channel, m, task))
    place = np.empty(len(order), np.int64)
    counts = np.bincount(task, minlength=len(tasks))
    starts = np.cumsum(counts) - counts
    place[order] = np.arange(len(order)) - starts[task[order]]
    accepted = (m < limits.own_time[task]) | (
        (m == limits.own_time[task]) & (rank + channel <= limits.own_rank[task])
    )
    order = order[accepted[order]]
    ends = np.cumsum(np.bincount(task[accepted], minlength=len(tasks)))
    in_order = len(order) == len(m) and bool(np.all(order[1:] > order[:-1]))
    table = (table if in_order else table.take(pa.array(order))).drop_columns([CHANNEL, AT])
    segments = tuple(
        Segment(
            rank,
            tasks[number],
            m[order[begin:end]],
            last[0] == END,
            int(known.carried[number]),
            second[order[begin:end]] if paired else None,
            last=last,
        )
        for number, (begin, end, last) in enumerate(
            zip((0, *ends.tolist()), ends.tolist(), limits.others, strict=False)
        )
    )
    return SenderRows(table, ends.tolist(), segments, channels, known, tuple(reads), rows, place)


def _known(channels: _Channels, marks: Mapping[Slot, ChannelWatermark]) -> _Known:
    carried = np.full(len(channels.tasks), NEVER, np.int64)
    offset = np.full(channels.count, -1, np.int64)
    done = np.zeros(channels.count, np.int64)
    first = {}
    numbers = {task: number for number, task in enumerate(channels.tasks)}
    for slot, mark in marks.items():
        channel, index = divmod(slot.number, len(channels.sub.inputs))
        number = numbers.get(slot.task)
        if index != channels.index or number is None:
            continue
        carried[number] = max(carried[number], mark.m)
        if channel < channels.each:
            key = number * channels.each + channel
            offset[key], done[key] = mark.offset, mark.done
        if channel == 0:
            first[slot] = mark
    return _Known(carried, offset, done, first)


def _new_rows(
    channels: _Channels,
    known: _Known,
    source: RepartitionInput,
    reads: Sequence[Fetched[pa.Table]],
    moved: Unpacked,
    *,
    moments: bool,
) -> _Rows:
    """What was read, without rows that are consumed, and without those behind the limits."""
    table, counts = moved.rows_of_senders(source, channels.sub.partitions, reads, moments=moments)
    first = np.array([channels.keys_of(read).start for read in reads], np.int64)
    key = np.repeat(first, counts) + table[CHANNEL].to_numpy()
    rows = _Rows(table, key, table[OFFSET].to_numpy(), table[AT].to_numpy())
    limit = np.full(channels.count, _NO_OFFSET)
    for read in reads:
        begin = channels.keys_of(read).start
        for sender, offset in read.senders.limits.items() if read.senders else ():
            limit[begin + 1 + sender] = offset
    consumed = (rows.offset < known.offset[key]) | (
        (rows.offset == known.offset[key]) & (rows.at < known.done[key])
    )
    new = ~consumed & (rows.offset < limit[key])
    return rows if bool(new.all()) else rows.only(new)


def _rising(moments: Ints, key: Ints, carried: Ints, second: Bools) -> Ints:
    """The running maximum within each channel. The two rows of an update have the same."""
    order = np.argsort(key, kind="stable")
    keys, found = key[order], np.maximum(moments, carried)[order]
    same = keys[1:] == keys[:-1]
    if bool(np.any((found[1:] < found[:-1]) & same)):
        values, ranks = np.unique(found, return_inverse=True)
        group = np.cumsum(np.concatenate([[0], ~same]).astype(np.int64))
        shift = group * (len(values) + 1)
        found = values[np.maximum.accumulate(ranks.reshape(-1) + shift) - shift]
    pairs = np.flatnonzero(second[order])
    found[pairs - 1] = found[pairs]
    result = np.empty_like(found)
    result[order] = found
    return result


@dataclass(frozen=True, slots=True)
class _Limits:
    """Up to which time and rank the rows of each task are accepted: its own, and those of other
    inputs."""

    own_time: Ints
    own_rank: Ints
    others: tuple[tuple[int, int], ...]


def _limits(
    channels: _Channels,
    known: _Known,
    reads: Sequence[Fetched[pa.Table]],
    key: Ints,
    m: Ints,
    rank: int,
) -> _Limits:
    """A channel that may still bring rows holds back what comes after its last one."""
    last = np.repeat(known.carried, channels.each)
    last[key] = m
    top = last.reshape(-1, channels.each).max(axis=1)
    until = np.full(channels.count, END, np.int64)
    other = [(END, ALL_RANKS)] * len(channels.tasks)
    for read in reads:
        own = channels.keys_of(read)
        number = own.start // channels.each
        until[own] = _untils(read, own.stop - own.start)
        if not read.end:
            time = max(read.until, int(top[number]))
            behind = (time, ALL_RANKS if read.until >= time else rank)
            other[number] = min(other[number], behind)
    passed = until >= last
    times = np.where(passed, until, last).reshape(-1, channels.each)
    ranks = np.where(passed.reshape(times.shape), ALL_RANKS, rank + np.arange(channels.each))
    own_time = times.min(axis=1)
    own_rank = np.where(times == own_time[:, None], ranks, ALL_RANKS).min(axis=1)
    mine = zip(own_time.tolist(), own_rank.tolist(), strict=True)
    others = tuple(min(each, found) for each, found in zip(mine, other, strict=True))
    return _Limits(own_time, own_rank, others)


def _untils(read: Fetched[pa.Table], count: int) -> Ints | int:
    """Up to which time everything of each channel of a partition has arrived."""
    ends = read.senders
    if ends is None:
        return END if read.end else read.until
    until = np.full(count, ends.elsewhere, np.int64)
    until[0] = ends.together
    if ends.local:
        until[[1 + sender for sender in ends.local]] = ends.here
    for sender in ends.limits:
        until[1 + sender] = NEVER
    return until
