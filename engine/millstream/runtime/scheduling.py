"""Chooses the next query and the size of its run, as functions of the present state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

STARVED_MS = 500
"""A query that has waited this long goes first, whatever the others have to do."""
RUN_MS = 500
"""A run several times this long is too long: its query does nothing else meanwhile, not even
commit."""
USERS_RUN_MS = 50
"""The same for the calls of user functions in a run, which may hold the interpreter lock."""
FIRST_BATCH = 64
"""For a query that calls user functions, whose duration is unknown."""
SHARE = 10
"""A query that keeps Python busy gets this fraction of the time that others need."""
REST_MS_MAX = 5_000


BRIEF_RECORDS = 1_000
"""A run over this many records or fewer takes about as long as a commit."""
LINGER_RECORDS = 2_500
"""The most records that may wait for company: a pull query that finds them waits for a run over
them."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A query that no thread works on. `buffered`: records that it could process at once; `due`:
    its commit is due; a higher `priority` is sooner; `slow`: it calls user functions."""

    query_id: str
    buffered: int = 0
    priority: int = 0
    waited_ms: int = 0
    due: bool = False
    slow: bool = False

    @property
    def brief(self) -> bool:
        """Whether its run is short enough for commits to wait for it, and to be made together with
        its commit."""
        return self.buffered <= BRIEF_RECORDS and not self.slow

    @property
    def may_linger(self) -> bool:
        """Whether it may let more records come before its next run."""
        return 0 < self.buffered <= LINGER_RECORDS and not self.slow


def choose(candidates: Iterable[Candidate], full: int) -> Candidate | None:
    """The query to work on next: one that starves, else one whose commit is due, else the one
    with most to do, else the one of the highest priority, else the one that has waited longest.

    Amounts within a factor of two of each other are alike, and so is all that fills a batch of
    `full` records: among queries that catch up, the priority decides.
    """

    def urgency(one: Candidate) -> tuple[int, bool, int, int, int]:
        starved = one.waited_ms if one.waited_ms >= STARVED_MS else 0
        amount = min(one.buffered, full).bit_length()
        return starved, one.due, amount, one.priority, one.waited_ms

    return max(candidates, key=urgency, default=None)


def next_batch(
    size: int, full: int, records: int, took_ms: int, good_ms: int, least: int = 1
) -> int:
    """How many records the next run may have, after one over `records` took this long: fewer while
    a slow function is called for each of them, but not less than `least`; up to `full` again
    afterwards."""
    if took_ms > 4 * good_ms and records:
        return max(least, min(size, records) * good_ms // took_ms)
    if took_ms < good_ms and records > size // 2:
        return min(full, 2 * size)
    return size


def rest_ms(took_ms: int, cpu_ms: int) -> int:
    """For how long a query that calls user functions leaves Python to others, after a run that took
    this long and computed for part of it. A query that mostly waits need not rest."""
    computed = max(0, cpu_ms - took_ms // 4) * 4 // 3
    return min(REST_MS_MAX, (SHARE - 1) * computed)
