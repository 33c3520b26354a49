"""Chooses which tasks of a sub-topology are run together, as a function of the present state
(ADR 39)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

STATEMENT_ROWS = 5_000
"""A group needs so many rows for each statement of its program: below, what a statement costs
whatever its size outweighs what another thread saves."""
SMALL_RUNS = 4
"""After this many runs in succession that are too small for it, there are fewer groups."""
SKEW = 1.5
"""How many times its share the largest group may have before tasks change their group."""

Groups = Mapping[int, int]
"""The number of the group of each task, from 0 on."""


class Grouping(Protocol):
    """Which tasks are run together; `groups` has those that are not in the group 0."""

    @property
    def groups(self) -> Groups:
        """The groups that it has chosen."""

    def after(self, rows: Mapping[int, int], statements: int, free: int) -> Grouping:
        """The grouping for a run of so many statements over so many rows of each task. `free`: the
        threads that have nothing else to do."""


@dataclass(frozen=True, slots=True)
class ByBacklog:
    """The grouping of production. It divides tasks at once, for a backlog is there to be worked
    off, and puts them together after several small runs, for what follows is likely to be like what
    was before."""

    groups: Groups = field(default_factory=dict)
    small: int = 0
    """How many runs in succession were too small for the present groups."""

    def after(self, rows: Mapping[int, int], statements: int, free: int) -> ByBacklog:
        """See `Grouping`."""
        present = max(self.groups.values(), default=0) + 1
        busy = sum(1 for count in rows.values() if count)
        enough = sum(rows.values()) // (STATEMENT_ROWS * max(1, statements))
        wanted = max(1, min(enough, busy, free + 1))
        if wanted < present and self.small + 1 < SMALL_RUNS:
            return ByBacklog(self.groups, self.small + 1)
        return ByBacklog(divided(rows, wanted, self.groups))


def divided(rows: Mapping[int, int], count: int, present: Groups) -> Groups:
    """So many groups. Tasks stay in their `present` ones if that is not too uneven; otherwise the
    rows are divided evenly."""
    if count == 1:
        return {}
    kept = {task: present.get(task, 0) for task in rows}
    even = _evenly(rows, count)
    fits = max(kept.values()) < count
    return kept if fits and _largest(rows, kept) <= SKEW * _largest(rows, even) else even


def _evenly(rows: Mapping[int, int], count: int) -> Groups:
    """The tasks with most rows first, each to the group that has least."""
    groups = [(0, 0, group) for group in range(count)]
    found = {}
    for task in sorted(rows, key=lambda task: (-rows[task], task)):
        size, tasks, group = min(groups)
        groups[group] = (size + rows[task], tasks + 1, group)
        found[task] = group
    return found


def _largest(rows: Mapping[int, int], groups: Groups) -> int:
    sizes = dict.fromkeys(groups.values(), 0)
    for task, group in groups.items():
        sizes[group] += rows[task]
    return max(sizes.values())
