"""Determines the order in which the rows of a run are processed, and which rows are held back.

The order of a task's rows is (m, rank, offset). m is the running maximum, within a source
partition, of the arrival number of the record. A log without arrival numbers uses event times
instead; the order then equals repeatedly taking the head row with the lowest time, computed as a
plain sort. "Time" below is either of the two. The rank of an input orders rows of equal time:
tables before streams, then as in the query. A partition that may still bring more rows (not at its
`end`) holds back all rows of its task that come after its last one. Where rows may move to other
partitions (`together`), it holds back those of all tasks, so that the tasks that read them next
receive them nearly in the order of time, and few of them late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from millstream.model.event_time import END, NEVER

Ints = np.ndarray[Any, np.dtype[np.int64]]
ALL_RANKS = 1 << 30
"""Above the rank of every input."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one source partition in a run, in offset order. `moment`: arrival number or event
    time of each; `carried`: m before them. `joined[i]`: row i belongs to the same change as row i -
    1 (None: no row does). `until`: all rows up to this time have arrived, even if the partition is
    not at its end. `last`: behind which time and rank rows of other segments are held back, if it
    is not behind the last row."""

    rank: int
    partition: int
    moment: Ints
    end: bool
    carried: int = NEVER
    joined: np.ndarray[Any, np.dtype[np.bool_]] | None = None
    until: int = NEVER
    last: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Ordered:
    """The result of ordering. `accepted[s]` rows of each segment take part; `m[s]` is its running
    maximum behind them. `seq[s]` are the dense numbers of the accepted rows, ascending in
    processing order; `moments[n]` is the running maximum at row number n. Up to `watermark` nothing
    is missing: neither rows held back nor rows still to come."""

    accepted: tuple[int, ...]
    m: tuple[int, ...]
    seq: tuple[Ints, ...]
    moments: Ints
    watermark: int

    def of(self, begin: int, end: int) -> Ordered:
        """The same, of the segments from `begin` to `end` alone. The numbers stay those of all."""
        return replace(
            self, accepted=self.accepted[begin:end], m=self.m[begin:end], seq=self.seq[begin:end]
        )


def order_rows(segments: Sequence[Segment], *, together: bool = False) -> Ordered:
    """Order the rows of all segments, given in any order."""
    if len(segments) == 1 and segments[0].joined is None and segments[0].last is None:
        (only,) = segments
        rising = np.maximum.accumulate(np.maximum(only.moment, only.carried))
        count = len(rising)
        top = int(rising[-1]) if count else only.carried
        watermark = END if only.end else max(top, only.until)
        return Ordered((count,), (top,), (np.arange(count),), rising, watermark)
    running = [
        np.maximum.accumulate(np.maximum(segment.moment, segment.carried)) for segment in segments
    ]
    lasts = [_last(segment, m) for segment, m in zip(segments, running, strict=True)]
    accepted = _accepted(segments, running, lasts, together)
    taken = [m[:count] for m, count in zip(running, accepted, strict=True)]
    tops = tuple(
        int(m[-1]) if len(m) else segment.carried
        for m, segment in zip(taken, segments, strict=True)
    )
    seq = _numbers(segments, taken)
    moments = np.empty(max((int(part[-1]) + 1 for part in seq if len(part)), default=0), np.int64)
    for part, m in zip(seq, taken, strict=True):
        moments[part] = m
    # Of rows of exactly that time, some may have been held back.
    watermark = min((time if rank == ALL_RANKS else time - 1 for time, rank in lasts), default=END)
    return Ordered(accepted, tops, seq, moments, watermark)


def _last(segment: Segment, m: Ints) -> tuple[int, int]:
    """The time and rank behind which rows of other segments are held back for this segment."""
    if segment.last is not None:
        return segment.last
    if segment.end:
        return END, ALL_RANKS
    last = int(m[-1]) if len(m) else segment.carried
    return (segment.until, ALL_RANKS) if segment.until >= last else (last, segment.rank)


def _accepted(
    segments: Sequence[Segment],
    running: Sequence[Ints],
    lasts: Sequence[tuple[int, int]],
    together: bool,
) -> tuple[int, ...]:
    single = len({segment.rank for segment in segments}) == 1
    if single and not together:
        return tuple(len(m) for m in running)
    watermark: dict[int, tuple[int, int]] = {}
    for segment, m, last in zip(segments, running, lasts, strict=True):
        if not segment.end and (len(m) or not single):
            group = 0 if together else segment.partition
            watermark[group] = min(watermark.get(group, last), last)
    result = []
    for segment, m in zip(segments, running, strict=True):
        group = 0 if together else segment.partition
        if group not in watermark:
            result.append(len(m))
            continue
        time, number = watermark[group]
        passed = m <= time if segment.rank <= number else m < time
        count = int(np.count_nonzero(passed))
        while segment.joined is not None and 0 < count < len(m) and segment.joined[count]:
            count -= 1
        result.append(count)
    return tuple(result)


def _numbers(segments: Sequence[Segment], taken: Sequence[Ints]) -> tuple[Ints, ...]:
    """Dense numbers by (m, rank, partition); the rows of a segment stay in their order."""
    ranked = sorted(range(len(segments)), key=lambda s: (segments[s].rank, segments[s].partition))
    every = np.concatenate([taken[s] for s in ranked]) if ranked else np.empty(0, np.int64)
    order = np.argsort(every, kind="stable")
    first = np.ones(len(every), np.bool_)
    if any(segment.joined is not None for segment in segments):
        first = np.concatenate([_begins(segments[s], len(taken[s])) for s in ranked])
    seq = np.empty(len(every), np.int64)
    seq[order] = np.cumsum(first[order]) - 1
    cuts = np.cumsum([len(taken[s]) for s in ranked])[:-1]
    pieces = dict(zip(ranked, np.split(seq, cuts), strict=True))
    return tuple(pieces[s] for s in range(len(segments)))


def _begins(segment: Segment, count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which of the first rows begin a change."""
    return np.ones(count, np.bool_) if segment.joined is None else ~segment.joined[:count]
