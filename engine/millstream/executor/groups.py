"""The groups into which the tasks of a sub-topology are divided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

import duckdb
import pyarrow as pa

from millstream.executor.task_group import GroupSpec, TaskGroup
from millstream.log.log import Fetched
from millstream.runtime.grouping import Grouping
from millstream.topology.topology import SourceInput

Result = TypeVar("Result")
ROW_BYTES = 16
"""About what a row takes in a record of a repartition topic, which holds many."""


class Workers(Protocol):
    """Threads that help the one that runs a query."""

    @property
    def free(self) -> int:
        """How many of them have nothing to do now."""

    def run(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """The results of all calls, which may be made in several threads. Returns when all have
        ended, and raises the error of the first one that failed."""


class OneThread:
    """No other threads: the calls are made one after the other."""

    free = 0

    def run(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """See `Workers`."""
        return [call() for call in calls]


class TaskGroups:
    """All tasks of an executor. They are opened in the first group. `grouping`: which of them run
    together; None if they cannot be divided."""

    def __init__(self, spec: GroupSpec, workers: Workers, grouping: Grouping | None) -> None:
        self.first = TaskGroup(spec)
        self.all = [self.first]
        self.workers = workers
        self._spec = spec
        self._grouping = self._initial = grouping
        self._share = 1.0
        """Of the rows that the last run was offered, the part that was not held back."""
        self._offered = 0
        self._moved = {item.topic for item in spec.sub.inputs if not isinstance(item, SourceInput)}

    def of(self, partition: int) -> TaskGroup:
        """The group of a task."""
        return next((group for group in self.all if partition in group.open), self.first)

    def divided(
        self, inputs: Sequence[Fetched[pa.Table]]
    ) -> list[tuple[TaskGroup, list[Fetched[pa.Table]]]]:
        """The groups for a run, with the input of each."""
        if self._grouping is not None:
            self._regroup(self._grouping, inputs)
        if len(self.all) == 1:
            return [(self.first, list(inputs))]
        shares = (
            (group, [item for item in inputs if self._task(item) in group.open])
            for group in self.all
        )
        return [(group, own) for group, own in shares if own]

    def took(self, rows: int) -> None:
        """Note how many rows a run has taken of what `divided` was called with."""
        if self._offered:
            self._share = min(1.0, rows / self._offered)

    def _task(self, fetched: Fetched[pa.Table]) -> int:
        return fetched.partition % self._spec.sub.partitions

    def _regroup(self, grouping: Grouping, inputs: Sequence[Fetched[pa.Table]]) -> None:
        rows: dict[int, int] = {}
        for item in inputs:
            count = item.bytes // ROW_BYTES if item.topic in self._moved else item.count
            rows[self._task(item)] = rows.get(self._task(item), 0) + count
        self._offered = sum(rows.values())
        rows = {task: int(count * self._share) for task, count in rows.items()}
        wanted = grouping.after(rows, len(self._spec.program.steps), self.workers.free)
        chosen = {task: wanted.groups.get(task, 0) for task in rows}
        moves = {task: group for task, group in chosen.items() if self._number(task) != group}
        # Until the commit, only the session that has changed a task's state can read it.
        if moves and not all(group.settle() for group in self.all):
            return
        self._grouping = wanted
        for task, group in moves.items():
            while group >= len(self.all):
                self.all.append(TaskGroup(self._spec))
            self.of(task).give(task)
            self.all[group].take(task)
        if moves:
            self._close_unused()

    def _number(self, task: int) -> int:
        return self.all.index(self.of(task))

    def _close_unused(self) -> None:
        while len(self.all) > 1 and not self.all[-1].open:
            self.all.pop().close()

    def discard(self) -> None:
        """Have all groups discard what is not committed, and close all but the first."""
        others, self.all = self.all[1:], [self.first]
        self._grouping = self._initial
        for group in others:
            with suppress(duckdb.Error):
                group.close()
        self.first.discard()

    def close(self) -> None:
        """See `runtime.ports.Executor`."""
        for group in self.all:
            group.close()
