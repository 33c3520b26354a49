"""What one member of a service knows of its tasks, and what it has to report.

Its input is the records of the assignment topic, which queries run here, and what these have
stopped. It makes of them the assignment of each query, and the reports for the other members.
Callers synchronise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from millstream.log.assignment.agreement import Known, fold, owners
from millstream.log.assignment.group_assignment import (
    NOBODY,
    Joined,
    Left,
    Record,
    Released,
    Report,
    Seated,
    Task,
)
from millstream.log.log import Assignment
from millstream.model.errors import CorruptionError


@dataclass(slots=True)
class _Query:
    """A query that runs here. `reported`: whether its `Joined` was written. `shrunk`: the epoch
    that took tasks from it last. `settled`: the last epoch that the query has acknowledged."""

    tasks: int
    assignment: Assignment = field(default_factory=lambda: Assignment(0, frozenset()))
    reported: bool = False
    shrunk: int = 0
    settled: int = 0

    def move(self, partitions: frozenset[int], *, lost: bool = False) -> None:
        """Hold these tasks from now on. `lost`: those that it does not hold any more may have
        another owner already."""
        epoch = self.assignment.epoch + 1
        if self.assignment.partitions - partitions:
            self.shrunk = epoch
        self.assignment = Assignment(epoch, partitions, epoch if lost else self.assignment.lost)


_NOTHING = Assignment(0, frozenset())


class MemberTasks:
    """The queries of one process, and its part of the agreement."""

    def __init__(self, read: int) -> None:
        """`read`: the offset to begin at."""
        self.known = Known(read=read)
        self.owners = owners(self.known)
        """The tasks as of the last `update`."""
        self.warmups: Mapping[str, frozenset[int]] = {}
        """Of each query, the tasks whose state this member is to bring up to date, because it is to
        have them; those of queries that do not run here, too."""
        self.name = NOBODY
        """The id of this member; nobody while it is none."""
        self._queries: dict[str, _Query] = {}
        self._left: set[str] = set()
        self._released: tuple[int, frozenset[Task]] = (0, frozenset())
        self._unread: Counter[str] = Counter()
        """The `Joined` of each query that were written and not read yet. Before the last one is
        read, what the topic says of this member is about an earlier life of the query."""

    # ---- the queries -------------------------------------------------------------------------

    def join(self, group: str, tasks: int) -> None:
        """A query begins to run here."""
        self._queries[group] = _Query(tasks)

    def leave(self, group: str) -> None:
        """A query has stopped everything, and does not run here any more. No error if absent."""
        query = self._queries.pop(group, None)
        if query is not None and query.reported:
            self._left.add(group)

    def assignment(self, group: str) -> Assignment:
        """What a query may process; nothing if it does not run here."""
        query = self._queries.get(group)
        return _NOTHING if query is None else query.assignment

    def check(self, group: str) -> None:
        """Raises CorruptionError (code E-PARTITIONS) when others run the query with another number
        of tasks."""
        query, shared = self._queries.get(group), self.owners.tasks.get(group, ())
        if query is not None and shared and len(shared) != query.tasks:
            raise CorruptionError(
                f"the instances share {len(shared)} tasks of '{group}', but here the query has"
                f" {query.tasks}",
                hint="Drop the query and create it again.",
                code="E-PARTITIONS",
            )

    def settled(self, group: str, epoch: int) -> None:
        """A query has taken over the assignment of `epoch`: it holds nothing else."""
        query = self._queries.get(group)
        if query is not None:
            query.settled = max(query.settled, epoch)

    def unsettled(self) -> frozenset[str]:
        """The queries that have not yet stopped what was taken from them."""
        return frozenset(
            group for group, query in self._queries.items() if query.settled < query.shrunk
        )

    def give_up(self, group: str) -> None:
        """Count what was taken from a query as lost: it may not commit it any more."""
        query = self._queries.get(group)
        if query is not None and query.settled < query.shrunk:
            query.move(query.assignment.partitions, lost=True)
            query.settled = query.assignment.epoch

    def peers(self, group: str) -> bool:
        """Whether other members run a query."""
        return bool(self.owners.joined.get(group, frozenset()) - {self.name})

    def groups(self) -> frozenset[str]:
        """The queries that run here."""
        return frozenset(self._queries)

    def runs(self, group: str) -> bool:
        """Whether a query runs here."""
        return group in self._queries

    # ---- the others --------------------------------------------------------------------------

    def rename(self, name: str) -> frozenset[str]:
        """This process is another member now, or none: it has lost everything. Returns the queries
        whose assignment has changed."""
        if name == self.name:
            return frozenset()
        self.name = name
        self.warmups = {}
        self._left.clear()
        self._unread.clear()
        changed = set()
        for group, query in self._queries.items():
            query.reported = False
            if query.assignment.partitions:
                query.move(frozenset(), lost=True)
                changed.add(group)
        return frozenset(changed)

    def restart(self, read: int) -> None:
        """Begin to read anew at this offset; everything was lost before."""
        assert self.name == NOBODY
        self.known = Known(read=read)
        self.owners = owners(self.known)

    def read(self, offset: int, record: Record | None) -> None:
        """Take the next record of the topic, None for one of an unknown kind; `update` then applies
        one or several."""
        if record is None:
            self.known = replace(self.known, read=offset + 1)
            return
        self.known = fold(self.known, offset, record)
        if isinstance(record, Joined) and record.member == self.name:
            self._unread -= Counter(record.queries.keys())

    def update(self) -> frozenset[str]:
        """Adopt what is known; returns the queries whose assignment has changed."""
        self.owners = owners(self.known)
        self.warmups = self._warmups()
        changed, leaving = set(), self.owners.leaving(self.name)
        for group, query in self._queries.items():
            counted = query.reported and not self._unread[group]
            held = self.owners.held(group, self.name) if counted else frozenset()
            assigned = self.name in self.known.assignment.joined.get(group, ())
            first = query.assignment.epoch == 0 and counted and assigned
            taken = query.assignment.partitions - held
            if taken or held != query.assignment.partitions or first:
                # What another member has already was taken without waiting: this one had been
                # removed.
                lost = any((group, partition) not in leaving for partition in taken)
                query.move(held, lost=lost)
                changed.add(group)
        return frozenset(changed)

    def _warmups(self) -> Mapping[str, frozenset[int]]:
        """Until it has the task, for the copy must not grow old between."""
        warming = self.known.assignment.warmups.items()
        found = [task for task, member in warming if member == self.name != NOBODY]
        for group, entries in self.owners.tasks.items():
            coming = (p for p, task in enumerate(entries) if task.target == self.name != task.owner)
            found += [(group, p) for p in coming if self.name != NOBODY]
        groups = {group for group, _ in found}
        return {group: frozenset(p for g, p in found if g == group) for group in groups}

    def reports(self) -> list[Report]:
        """What has to be written to the topic now, in this order; `reported` says that it was."""
        if self.name == NOBODY:
            return []
        made: list[Report] = []
        if self._left:
            made.append(Left(self.name, frozenset(self._left)))
        joining = {g: query.tasks for g, query in self._queries.items() if not query.reported}
        if joining:
            made.append(Joined(self.name, joining))
        number, released = self._releasable()
        if released and (number, released) != self._released:
            made.append(Released(self.name, number, released))
        return made

    def reported(self, report: Report) -> None:
        """A report is on its way to the topic."""
        match report:
            case Left(_, queries):
                self._left -= queries
            case Joined(_, queries):
                self._unread += Counter(queries.keys())
                for group in queries.keys() & self._queries.keys():
                    self._queries[group].reported = True
            case Released(_, number, tasks):
                self._released = number, tasks
            case Seated():
                """Written where the brokers share out the seats."""
            case _:
                assert_never(report)

    def _releasable(self) -> tuple[int, frozenset[Task]]:
        """The tasks to be released that nothing here processes any more."""
        leaving = self.owners.leaving(self.name)
        unsettled = self.unsettled()
        free = frozenset(task for task in leaving if task[0] not in unsettled)
        return self.known.assignment.number, free
