"""Durations of a recurring operation."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from math import ceil

MS = 1_000_000
BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
"""The upper bounds of the buckets; one more bucket counts longer durations."""
RECENT = 128


@dataclass(frozen=True, slots=True)
class Durations:
    """Counts and sums of durations, in nanoseconds.

    Frozen, so that another thread always reads a consistent set of figures.
    """

    count: int = 0
    total: int = 0
    last: int = 0
    longest: int = 0
    buckets: tuple[int, ...] = (0,) * (len(BOUNDS_MS) + 1)
    """The number of durations between the previous bound (exclusive) and each of `BOUNDS_MS`
    (inclusive)."""
    recent: tuple[int, ...] = ()
    """The latest `RECENT`, oldest first."""

    def plus(self, took: int) -> Durations:
        """These durations and one more."""
        topic_partition = bisect_left(BOUNDS_MS, took / MS)
        return replace(
            self,
            count=self.count + 1,
            total=self.total + took,
            last=took,
            longest=max(self.longest, took),
            buckets=(
                *self.buckets[:topic_partition],
                self.buckets[topic_partition] + 1,
                *self.buckets[topic_partition + 1 :],
            ),
            recent=(*self.recent, took)[-RECENT:],
        )

    def quantile(self, share: float) -> int:
        """The quantile of the recent durations (nearest rank); 0 without any."""
        ordered = sorted(self.recent)
        return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0
