"""Folds the records of the assignment topic, and makes the next assignment.

Every member folds all records, in the order of the topic, and so all of them know the same. One of
them, the leader, writes assignments. Two leaders at once do no harm: an assignment counts only if
its number follows the one before it, so the first of two is valid, and the other's author has
missed something that it now reads. An assignment says everything up to the offset that its author
had read; the reports after that offset are applied to it.

A task changes its owner in two steps. The first sets another target: the owner stops, commits, and
reports the release. Then the target becomes the owner. An owner that is no longer a member of the
service loses its tasks at once: the brokers refuse what it commits. They share out the partitions
of a topic, its *seats*, to the members. One of which all seats have gone to others was removed; a
member that has to give up all that it has claimed goes on as another one. The names of members are
never used twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from millstream.log.assignment.balance import balanced
from millstream.log.assignment.group_assignment import (
    NOBODY,
    Copies,
    GroupAssignment,
    Joined,
    Left,
    Limits,
    Record,
    Released,
    Report,
    Seated,
    Task,
    TaskOwner,
    instance_of,
)


@dataclass(frozen=True, slots=True)
class Known:
    """What the records before offset `read` say: the valid assignment, and the reports that its
    author had not read."""

    assignment: GroupAssignment = field(default_factory=GroupAssignment)
    reports: tuple[tuple[int, Report], ...] = ()
    read: int = 0


@dataclass(frozen=True, slots=True)
class TaskOwners:
    """The tasks of each query, the members that run it, and the seats, reports included."""

    tasks: Mapping[str, tuple[TaskOwner, ...]]
    joined: Mapping[str, frozenset[str]]
    seats: Mapping[int, str]

    def held(self, group: str, member: str) -> frozenset[int]:
        """The tasks of a query that a member may process."""
        entries = enumerate(self.tasks.get(group, ()))
        return frozenset(p for p, task in entries if task.owner == task.target == member)

    def leaving(self, member: str) -> frozenset[Task]:
        """The tasks that a member has to release."""
        return frozenset(
            (group, partition)
            for group, entries in self.tasks.items()
            for partition, task in enumerate(entries)
            if task.owner == member != task.target
        )

    @property
    def members(self) -> frozenset[str]:
        """The members of the service."""
        return frozenset(self.seats.values())

    def owned(self, group: str) -> bool:
        """Whether a member may process a task of the query."""
        return any(task.owner != NOBODY for task in self.tasks.get(group, ()))


def fold(known: Known, offset: int, record: Record) -> Known:
    """What is known after one more record."""
    match record:
        case GroupAssignment(number):
            # The next number; or a later one, for a reader that began behind deleted records and
            # has met an assignment that was too late.
            if number <= known.assignment.number:
                return replace(known, read=offset + 1)
            later = tuple(each for each in known.reports if each[0] >= record.read)
            return Known(record, later, offset + 1)
        case Seated() | Joined() | Left() | Released():
            return Known(known.assignment, (*known.reports, (offset, record)), offset + 1)
        case _:
            assert_never(record)


def owners(known: Known) -> TaskOwners:
    """The assignment with all later reports. The first member that runs a query determines how many
    tasks it has; one with another number does not take part."""
    tasks, joined = dict(known.assignment.tasks), dict(known.assignment.joined)
    seats = dict(known.assignment.seats)
    for _, report in known.reports:
        match report:
            case Seated(member, given):
                seats |= dict.fromkeys(given, member)
            case Joined(member, queries):
                for group, count in queries.items():
                    before, here = tasks.get(group, ()), joined.get(group, frozenset())
                    if not here:
                        tasks[group] = (*before[:count], *(TaskOwner(),) * (count - len(before)))
                    if len(tasks[group]) == count:
                        joined[group] = here | {member}
            case Left(member, groups):
                for group in groups & joined.keys():
                    joined[group] -= {member}
                    tasks[group] = tuple(_left(task, member) for task in tasks[group])
            case Released(member, number, released):
                for group, partition in released:
                    tasks[group] = _released(tasks.get(group, ()), partition, member, number)
            case _:
                assert_never(report)
    return TaskOwners(tasks, joined, seats)


def _left(task: TaskOwner, member: str) -> TaskOwner:
    return replace(task, owner=NOBODY) if task.owner == member else task


def _released(
    entries: tuple[TaskOwner, ...], partition: int, member: str, number: int
) -> tuple[TaskOwner, ...]:
    """The tasks of a query after a release; one of an earlier change of the target is ignored."""
    return tuple(
        _left(task, member)
        if at == partition and task.target != member and task.since <= number
        else task
        for at, task in enumerate(entries)
    )


def next_assignment(
    known: Known, copies: Copies, limits: Limits, starting: Collection[str] = ()
) -> GroupAssignment | None:
    """The assignment to write; None if the current one is right. `starting`: the instances that may
    have been restarted and not have joined their queries yet; they keep their tasks."""
    state, number = owners(known), known.assignment.number + 1
    members = state.members
    joined = {group: found & members for group, found in state.joined.items()}
    tasks: dict[Task, TaskOwner] = {}
    current: dict[Task, str] = {}
    for group, entries in state.tasks.items():
        for partition, entry in enumerate(entries):
            task = (group, partition)
            here = joined.get(group, frozenset())
            tasks[task], member = _without_gone(entry, here, members, starting)
            if member is not None:
                current[task] = member
    wanted = balanced(current, joined, copies, limits)
    alive = {group for group, found in joined.items() if found}
    alive |= {group for group, _ in tasks.keys() - current.keys()}
    after = {
        group: tuple(
            _towards(tasks[group, p], wanted.targets.get((group, p)), number)
            for p in range(len(entries))
        )
        for group, entries in state.tasks.items()
        if group in alive
    }
    running = {group: found for group, found in joined.items() if group in alive}
    same = TaskOwners(after, running, state.seats) == state
    if same and wanted.warmups == known.assignment.warmups:
        return None
    return GroupAssignment(number, known.read, after, running, state.seats, wanted.warmups)


def _without_gone(
    task: TaskOwner, here: Collection[str], members: Collection[str], starting: Collection[str]
) -> tuple[TaskOwner, str | None]:
    """A task without an owner that is no member any more, and the member that should keep it: None
    if that may come back. `here`: the members that run the query."""
    target = task.target if task.target in here else NOBODY
    if task.owner == NOBODY or task.owner in members:
        return task, target or task.owner
    instance = instance_of(task.owner)
    heirs = [member for member in sorted(here) if instance and instance_of(member) == instance]
    if not heirs and instance in starting:
        return task, None
    return replace(task, owner=NOBODY), heirs[0] if heirs else target


def _towards(task: TaskOwner, target: str | None, number: int) -> TaskOwner:
    """A task with another target, or the same where none is given."""
    if target is None:
        return task
    since = task.since if target == task.target else number
    return TaskOwner(task.owner or target, target, since)
