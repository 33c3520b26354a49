"""Which member of a service has which task, as all members know it, and the records that say so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

Task = tuple[str, int]
"""A task of a query: the query's group, and the task's partition."""

NOBODY = ""


def member_name(instance: str, process: str, start: str = "") -> str:
    """The name of a member. `instance`: a name that survives restarts, may be empty, and has no
    line break. `process`: the incarnation of the process, without a dot. `start`: unique to each
    time that the process takes part."""
    return f"{instance}\n{process}.{start}"


def instance_of(member: str) -> str:
    """The name of the instance; empty if it has none."""
    return member.partition("\n")[0]


def process_of(member: str) -> str:
    """The incarnation of a member's process."""
    return member.partition("\n")[2].partition(".")[0]


@dataclass(frozen=True, slots=True)
class TaskOwner:
    """The member that may process a task, and the one that should. While they differ, the owner has
    to release the task. `since`: the number of the assignment that set the target."""

    owner: str = NOBODY
    target: str = NOBODY
    since: int = 0


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """The tasks of all queries. Assignments are numbered without gaps: of two with one number, the
    first one in the topic is valid.

    `read`: before which offset of the topic its author has read everything. `joined`: the members
    that run each query. `seats`: the member with each partition of the topic that the brokers share
    out; a member without one is gone. `warmups`: the members that bring a copy of a task's state up
    to date, because they should have the task.
    """

    number: int = 0
    read: int = 0
    tasks: Mapping[str, tuple[TaskOwner, ...]] = field(default_factory=dict)
    joined: Mapping[str, frozenset[str]] = field(default_factory=dict)
    seats: Mapping[int, str] = field(default_factory=dict)
    warmups: Mapping[Task, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seated:
    """The brokers have given these partitions to a member: no other one has them. Written in a
    transaction that the brokers refuse if the member was removed meanwhile."""

    member: str
    seats: frozenset[int]


@dataclass(frozen=True, slots=True)
class Joined:
    """A member runs these queries, which have so many tasks, and takes part in sharing them."""

    member: str
    queries: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Left:
    """A member does not run these queries any more, and has stopped all their tasks."""

    member: str
    queries: frozenset[str]


@dataclass(frozen=True, slots=True)
class Released:
    """A member no longer processes these tasks, which the assignment of this number, or one before
    it, has taken from it."""

    member: str
    number: int
    tasks: frozenset[Task]


Report = Seated | Joined | Left | Released
"""What a member says of itself."""
Record = GroupAssignment | Report


@dataclass(frozen=True, slots=True)
class Copies:
    """Where the state of tasks is. `stateful`: the queries with state, whose tasks cost time to
    move; None if that is not known. `lags`: by task and member, how many records a copy is behind.
    `empty`: the tasks that have no state yet."""

    stateful: Collection[str] | None = frozenset()
    lags: Mapping[Task, Mapping[str, int]] = field(default_factory=dict)
    empty: Collection[Task] = frozenset()


def no_copies(_members: Collection[str]) -> Copies:
    """No query has state."""
    return Copies()


@dataclass(frozen=True, slots=True)
class Limits:
    """`acceptable_lag`: a copy that is no farther behind counts as up to date. `warmups`: how many
    copies are brought up to date at once so that tasks can move; with 0 tasks move without."""

    acceptable_lag: int = 100
    warmups: int = 2
