"""Which query is worked on next, and how much of it at a time: functions of what is known now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

STARVED_MS = 500
"""Who has waited so long goes first, whatever others have to do."""
LONG_RUN_MS = 2_000
"""One run should not take longer: nothing else happens to its query meanwhile, no commit either."""
GOOD_RUN_MS = 500
BATCH_MIN = 64


@dataclass(frozen=True, slots=True)
class Candidate:
    """A query that nobody works on. `buffered`: records that it could process at once;
    `due`: it should commit by now; a higher `priority` is sooner."""

    query_id: str
    buffered: int = 0
    priority: int = 0
    waited_ms: int = 0
    due: bool = False


def choose(candidates: Iterable[Candidate], full: int) -> str | None:
    """The query to work on next: one that starves, else one whose commit is due, else the one
    with most to do, else the one of the highest priority, else the one that has waited longest.

    Amounts within a factor of two of each other are alike, and so is all that fills a batch of
    `full` records: among queries that catch up, the priority decides.
    """

    def urgency(one: Candidate) -> tuple[int, bool, int, int, int]:
        starved = one.waited_ms if one.waited_ms >= STARVED_MS else 0
        amount = min(one.buffered, full).bit_length()
        return starved, one.due, amount, one.priority, one.waited_ms

    best = max(candidates, key=urgency, default=None)
    return None if best is None else best.query_id


def next_batch(size: int, full: int, records: int, took_ms: int) -> int:
    """How many records the next run may have, after one that took so long for `records`: fewer
    where a slow function is called for each of them, up to `full` again when that is over."""
    if took_ms > LONG_RUN_MS and records:
        return max(BATCH_MIN, min(size, records) * GOOD_RUN_MS // took_ms)
    if took_ms < GOOD_RUN_MS and records > size // 2:
        return min(full, 2 * size)
    return size
