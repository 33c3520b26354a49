"""Which member each task should have (KIP-429, KIP-441).

A task stays where it is unless that leaves the members unequal: of each query, and of all queries
together, no member has more than one task more than another. A task without an owner goes where
its state is up to date. A task with state that should move is processed where it is until the
other member's copy is up to date; a few such copies at a time are brought up to date.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from millstream.log.assignment.group_assignment import NOBODY, Copies, Limits, Task

_BEHIND: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Wanted:
    """The member of each task, and the members that should keep a copy because they are to have a
    task once the copy is up to date."""

    targets: Mapping[Task, str]
    warmups: Mapping[Task, str]


def balanced(
    current: Mapping[Task, str],
    joined: Mapping[str, Collection[str]],
    copies: Copies,
    limits: Limits,
) -> Wanted:
    """Assign all tasks in `current`, which says where they are now: with the member, if it has
    joined the query. `joined`: the members to choose from, for each query."""
    spread = _Spread(joined)
    placed: dict[Task, str] = {}
    for task, member in current.items():
        if member in joined.get(task[0], ()):
            placed[task] = member
            spread.add(task, member)
    for task in current:
        if task not in placed:
            placed[task] = member = _fitting(task, spread, copies)
            spread.add(task, member)
    ideal = placed | dict(spread.moves(copies, limits))
    return _affordable(placed, ideal, copies, limits)


def _affordable(
    placed: Mapping[Task, str], ideal: Mapping[Task, str], copies: Copies, limits: Limits
) -> Wanted:
    """Move what costs nothing to move; bring copies of some of the rest up to date."""
    targets: dict[Task, str] = {}
    warmups: dict[Task, str] = {}
    for task, member in ideal.items():
        free = member == placed[task] or limits.warmups == 0
        if free or _cost(task, member, copies, limits) == 0:
            targets[task] = member
            continue
        targets[task] = placed[task]
        if len(warmups) < limits.warmups:
            warmups[task] = member
    return Wanted(targets, warmups)


class _Spread:
    """How many tasks each member has, of each query and in all."""

    def __init__(self, joined: Mapping[str, Collection[str]]) -> None:
        self.members = {group: tuple(sorted(members)) for group, members in joined.items()}
        self.total = Counter({m: 0 for members in self.members.values() for m in members})
        self._tasks: dict[tuple[str, str], set[Task]] = {}

    def count(self, group: str, member: str) -> int:
        """The tasks of a query that a member has."""
        return len(self._tasks.get((group, member), ()))

    def add(self, task: Task, member: str) -> None:
        """Give a task to a member, or to nobody."""
        if member != NOBODY:
            self.total[member] += 1
            self._tasks.setdefault((task[0], member), set()).add(task)

    def moves(self, copies: Copies, limits: Limits) -> Iterator[tuple[Task, str]]:
        """The moves that make the members equal, in each query and then in all."""
        for group in self.members:
            while (pair := self._unequal(group)) is not None:
                yield self._move(group, *pair, copies, limits)
        while (found := self._unequal_in_all()) is not None:
            source, target, groups = found
            group = min(groups, key=lambda g: self._movable(g, source, target, copies, limits))
            yield self._move(group, source, target, copies, limits)

    def _unequal(self, group: str) -> tuple[str, str] | None:
        by_count = [(self.count(group, m), self.total[m], m) for m in self.members[group]]
        if not by_count:
            return None
        most, least = max(by_count), min(by_count)
        return (most[2], least[2]) if most[0] - least[0] > 1 else None

    def _unequal_in_all(self) -> tuple[str, str, list[str]] | None:
        """A member with more tasks, one with fewer, and the queries whose tasks can move without
        making these unequal."""
        ranked = sorted(self.total, key=lambda member: (self.total[member], member))
        for target in ranked:
            for source in reversed(ranked):
                if self.total[source] - self.total[target] < 2:
                    break
                groups = [
                    group
                    for group, members in self.members.items()
                    if target in members and self.count(group, source) > self.count(group, target)
                ]
                if groups:
                    return source, target, groups
        return None

    def _move(
        self, group: str, source: str, target: str, copies: Copies, limits: Limits
    ) -> tuple[Task, str]:
        *_, negative = self._movable(group, source, target, copies, limits)
        task = (group, -negative)
        self._tasks[group, source].remove(task)
        self.total[source] -= 1
        self.add(task, target)
        return task, target

    def _movable(
        self, group: str, source: str, target: str, copies: Copies, limits: Limits
    ) -> tuple[int, int, str, int]:
        """The task of a query that costs least to move: its cost, how far the copy is behind, its
        query, and its negative number."""
        return min(
            (_cost(task, target, copies, limits), _lag(task, target, copies), group, -task[1])
            for task in self._tasks[group, source]
        )


def _fitting(task: Task, spread: _Spread, copies: Copies) -> str:
    """The member for a task without an owner: that with the best copy, because the task is not
    processed before its state is restored."""

    def preference(member: str) -> tuple[int, int, int, str]:
        lag = _lag(task, member, copies)
        return lag, spread.count(task[0], member), spread.total[member], member

    return min(spread.members.get(task[0], ()), key=preference, default=NOBODY)


def _cost(task: Task, member: str, copies: Copies, limits: Limits) -> int:
    """0 if the member can have the task at once, else how far its copy is behind."""
    lag = _lag(task, member, copies)
    return 0 if lag <= limits.acceptable_lag else lag


def _lag(task: Task, member: str, copies: Copies) -> int:
    stateless = copies.stateful is not None and task[0] not in copies.stateful
    if stateless or task in copies.empty:
        return 0
    return copies.lags.get(task, {}).get(member, _BEHIND)
