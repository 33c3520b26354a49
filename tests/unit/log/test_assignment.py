"""The tasks of all queries among the members of a service: which member may process what, in
whatever order messages, stops and deaths come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from millstream.log.assignment import agreement, member_tasks
from millstream.log.assignment.agreement import Known, fold, next_assignment, owners
from millstream.log.assignment.balance import Wanted
from millstream.log.assignment.group_assignment import (
    Copies,
    GroupAssignment,
    Joined,
    Limits,
    Record,
    Released,
    Report,
    Seated,
    Task,
    TaskOwner,
    member_name,
)
from millstream.log.assignment.member_tasks import MemberTasks
from tests.draws import draws
from tests.planted import planted

SEEDS = 400
AT_ONCE = Limits(warmups=0)
TASKS = {"a": 3, "b": 1}
SEATS = 6


@dataclass
class Member:
    """A process of the service. `sent`: reports that have not reached the topic yet. `seats`: those
    that the brokers have given to it, and `claimed` those of which the others know; `seated`:
    whether they count it, as far as it has read."""

    tasks: MemberTasks
    processing: dict[Task, int] = field(default_factory=dict)
    """The tasks that it processes, and by which epoch's assignment."""
    joined: set[str] = field(default_factory=set)
    sent: list[Report] = field(default_factory=list)
    seats: set[int] = field(default_factory=set)
    claimed: set[int] = field(default_factory=set)
    seated: bool = False

    @property
    def name(self) -> str:
        return self.tasks.name

    @property
    def known(self) -> Known:
        return self.tasks.known

    def commits(self) -> list[Task]:
        """The tasks that it would commit."""
        return [
            task
            for task, epoch in self.processing.items()
            if self.tasks.assignment(task[0]).lost <= epoch
        ]


class Service:
    """Members that read and write the assignment topic at their own pace."""

    def __init__(self, seed: int, *, late_claims: bool = False, stays: bool = False) -> None:
        self.rnd = Random(seed)
        self.topic: list[Record] = []
        self.start = 0
        """The records before this offset are deleted."""
        self.names = 0
        self.group: dict[str, Member] = {}
        self.zombies: list[Member] = []
        self.queries = set(TASKS)
        self.late_claims = late_claims
        self.stays = stays
        self.settling = False

    # ---- what happens --------------------------------------------------------------------------

    def step(self) -> None:
        everyone = [*self.group.values(), *self.zombies]
        action = self.rnd.random()
        if not everyone or (action < 0.01 and len(self.group) < 3):
            self.enter()
        elif action < 0.013 and self.zombies:
            self.come_back(self.rnd.choice(self.zombies))
        elif action < 0.017 and self.group:
            self.remove(self.rnd.choice(list(self.group.values())))
        elif action < 0.02:
            self.queries ^= {self.rnd.choice(list(TASKS))}
        elif action < 0.03:
            self.truncate(self.rnd.choice(everyone))
        else:
            self.act(self.rnd.choice(everyone))
        self.check()

    def enter(self) -> None:
        self.names += 1
        member = Member(MemberTasks(self.start))
        member.tasks.rename(f"m{self.names}")
        self.group[member.name] = member
        self.read(member, len(self.topic))
        self.rebalance()

    def remove(self, member: Member) -> None:
        """Its session ends; it may not have noticed."""
        del self.group[member.name]
        self.zombies.append(member)
        self.rebalance()

    def come_back(self, member: Member) -> None:
        """It notices that it was removed, and joins again. Its queries may still be at work."""
        self.zombies.remove(member)
        self.start_over(member)
        self.group[member.name] = member
        self.rebalance()

    def start_over(self, member: Member) -> None:
        member.sent.clear()
        member.seats, member.claimed, member.seated = set(), set(), False
        self.names += 1
        member.tasks.rename(f"m{self.names}")

    def rebalance(self) -> None:
        """The brokers share out the seats: each member has some."""
        members = list(self.group.values())
        over = set()
        for seat in range(SEATS if members else 0):
            holder = next((m for m in members if seat in m.seats), None)
            fair = members[seat % len(members)]
            if holder is fair:
                continue
            if holder is not None:
                holder.seats.remove(seat)
                if seat in holder.claimed:
                    holder.claimed.remove(seat)
                    if not holder.claimed and not self.stays:
                        over.add(holder.name)
            fair.seats.add(seat)
        for name in sorted(over):
            # The others take it for gone before it has claimed another seat.
            self.restart(self.group[name])

    def restart(self, member: Member) -> None:
        del self.group[member.name]
        self.start_over(member)
        self.group[member.name] = member
        self.rebalance()

    def claim(self, member: Member) -> None:
        """Refused by the brokers if it was removed."""
        seats = member.seats - member.claimed
        if seats and (self.late_claims or self.group.get(member.name) is member):
            member.claimed |= seats
            self.topic.append(Seated(member.name, frozenset(seats)))

    def truncate(self, member: Member) -> None:
        """A leader deletes what the assignment that it has read makes superfluous."""
        self.start = max(self.start, member.known.assignment.read)

    def act(self, member: Member) -> None:
        match self.rnd.randrange(6):
            case 0:
                self.read(member, self.rnd.choice([1, 2, len(self.topic)]))
            case 1:
                self.obey(member)
            case 2:
                self.claim(member)
            case 3:
                self.report(member)
            case 4:
                if self.rnd.random() < 0.5:
                    self.read(member, len(self.topic))
                self.lead(member)
            case _:
                self.run_queries(member)

    def read(self, member: Member, count: int) -> None:
        # A member that was too slow for the truncation ends, and begins anew as another one.
        if member.known.read < self.start:
            if self.group.get(member.name) is member:
                self.remove(member)
            return
        for record in self.topic[member.known.read : member.known.read + count]:
            member.tasks.read(member.known.read, record)
        member.tasks.update()
        seated = member.name in member.tasks.owners.members
        if member.seated and not seated and self.group.get(member.name) is member:
            self.restart(member)
        else:
            member.seated = seated

    def obey(self, member: Member) -> None:
        """Each query stops what was taken from it and starts what it was given, or some do."""
        for query in sorted(member.joined):
            if self.settling or self.rnd.random() < 0.7:
                held = member.tasks.assignment(query)
                others = {t: e for t, e in member.processing.items() if t[0] != query}
                own = {(query, p): held.epoch for p in held.partitions}
                member.processing = others | own
                member.tasks.settled(query, held.epoch)

    def report(self, member: Member) -> None:
        for report in member.tasks.reports() if member.seated else ():
            member.sent.append(report)
            member.tasks.reported(report)
        while member.sent and (self.settling or self.rnd.random() < 0.4):
            self.topic.append(member.sent.pop(0))

    def run_queries(self, member: Member) -> None:
        """Start or stop a query, as the catalog says, or at will."""
        query = self.rnd.choice(list(TASKS))
        if query in member.joined and (query not in self.queries or self.rnd.random() < 0.2):
            self.leave(member, query)
        elif query in self.queries and query not in member.joined:
            self.join(member, query)

    def join(self, member: Member, query: str) -> None:
        member.joined.add(query)
        member.tasks.join(query, TASKS[query])

    def leave(self, member: Member, query: str) -> None:
        member.joined.remove(query)
        member.processing = {t: e for t, e in member.processing.items() if t[0] != query}
        member.tasks.leave(query)

    def lead(self, member: Member) -> None:
        """Any member may take itself for the leader."""
        with self.whims():
            found = next_assignment(member.known, Copies(), AT_ONCE)
        if found is not None:
            self.topic.append(found)

    @contextmanager
    def whims(self) -> Iterator[None]:
        """Tasks move to and fro more often than a sensible balance would move them."""
        rnd = self.rnd

        def moved(right: Any, current: Any, joined: Any, *rest: Any) -> Wanted:
            wanted: Wanted = right(current, joined, *rest)
            targets = {
                task: rnd.choice(sorted(joined[task[0]])) if rnd.random() < 0.5 else member
                for task, member in wanted.targets.items()
                if joined.get(task[0])
            }
            return replace(wanted, targets={**wanted.targets, **targets})

        if self.settling:
            yield
            return
        with planted(agreement, "balanced", moved):
            yield

    # ---- what must hold ------------------------------------------------------------------------

    def check(self) -> None:
        """No task is committed by two members; a removed one is refused by the brokers."""
        seen: dict[Task, str] = {}
        for member in self.group.values():
            for task in member.commits():
                assert task not in seen, f"{task} is with {seen[task]} and {member.name}"
                seen[task] = member.name

    def settle(self) -> None:
        """Everyone does everything there is to do."""
        self.settling = True
        for member in list(self.group.values()):
            self.read(member, len(self.topic))
        if not self.group:
            self.enter()
        for member in self.group.values():
            for query in sorted(member.joined - self.queries):
                self.leave(member, query)
            for query in sorted(self.queries - member.joined):
                self.join(member, query)
        for _ in range(25):
            for member in list(self.group.values()):
                self.read(member, len(self.topic))
                self.claim(member)
                self.obey(member)
                self.report(member)
                self.check()
            leader = next(iter(self.group.values()))
            self.read(leader, len(self.topic))
            self.lead(leader)


def play(seed: int, steps: int = 400, **how: bool) -> Service:
    service = Service(seed, **how)
    for _ in range(steps):
        service.step()
    service.settle()
    return service


def verify(service: Service) -> None:
    """Each task is processed, and the members have equal shares."""
    held = [(task, m.name) for m in service.group.values() for task in m.processing]
    tasks = [(query, p) for query in service.queries for p in range(TASKS[query])]
    assert sorted(task for task, _ in held) == sorted(tasks)
    for counted in (held, *([h for h in held if h[0][0] == q] for q in service.queries)):
        counts = [sum(name == m for _, m in counted) for name in service.group]
        assert max(counts) - min(counts) <= 1
    for member in service.group.values():
        state = owners(member.known)
        assert not any(state.owned(query) for query in TASKS.keys() - service.queries)


@pytest.mark.parametrize("first", range(0, draws(SEEDS), 50))
def test_each_task_has_one_member(first: int) -> None:
    for seed in range(first, first + 50):
        verify(play(seed))


def test_what_is_left_over_is_forgotten() -> None:
    service = play(1)
    for member in service.group.values():
        for query in sorted(member.joined):
            service.leave(member, query)
    service.queries = set()
    service.settle()
    leader = next(iter(service.group.values()))
    assert leader.known.assignment.tasks == {} == leader.known.assignment.joined


def test_nothing_is_written_where_nothing_changes() -> None:
    service = play(2)
    before = len(service.topic)
    service.settle()
    assert len(service.topic) == before


def test_a_release_counts_only_for_changes_before_it() -> None:
    """The task was to go from a to b, then to stay, and then to go again: a report of the first
    release says nothing about what was started since."""
    moves = GroupAssignment(7, 1, {"q": (TaskOwner("a", "b", 7),)}, {"q": frozenset("ab")})
    known = fold(Known(), 0, moves)
    late = fold(known, 1, Released("a", 5, frozenset({("q", 0)})))
    assert owners(late).leaving("a") == {("q", 0)}
    right = fold(late, 2, Released("a", 7, frozenset({("q", 0)})))
    assert owners(right).tasks["q"] == (TaskOwner("", "b", 7),)
    elsewhere = fold(known, 1, Released("c", 7, frozenset({("q", 0)})))
    assert owners(elsewhere).tasks == moves.tasks


def test_an_instance_that_is_restarted_keeps_its_tasks() -> None:
    first, second, other = (member_name(*who) for who in [("a", "1"), ("a", "2"), ("", "7")])
    entry, rest = TaskOwner(first, first, 3), TaskOwner(other, other, 3)
    here = {"q": frozenset({first, other})}
    before = GroupAssignment(3, 0, {"q": (entry, rest)}, here, {0: first, 1: other})
    known = fold(fold(Known(), 0, before), 1, Seated(second, frozenset({0})))

    def after(known: Known, starting: set[str]) -> GroupAssignment:
        made = next_assignment(known, Copies(), AT_ONCE, starting)
        assert made is not None
        return made

    waits = after(known, {"a"})
    assert waits.tasks == before.tasks
    assert waits.joined == {"q": {other}}
    known = fold(known, 2, waits)
    assert next_assignment(known, Copies(), AT_ONCE, {"a"}) is None
    back = fold(known, 3, Joined(second, {"q": 2}))
    heir = after(back, {"a"})
    assert heir.tasks == {"q": (TaskOwner(second, second, 5), rest)}
    gives_up = after(known, set())
    assert gives_up.tasks == {"q": (TaskOwner(other, other, 5), rest)}
    alone = after(fold(known, 3, Seated(second, frozenset({1}))), {"a"})
    assert alone.tasks["q"][0] == entry


# ---- planted bugs ------------------------------------------------------------------------------


def fails(**how: bool) -> bool:
    for seed in range(SEEDS):
        try:
            verify(play(seed, **how))
        except AssertionError:
            return True
    return False


def test_claims_that_come_late_are_caught() -> None:
    assert fails(late_claims=True)


def test_a_member_that_stays_without_a_claimed_seat_is_caught() -> None:
    assert fails(stays=True)


def _one_step(right: Any, *given: Any) -> TaskOwner:
    """The target is the owner at once."""
    task: TaskOwner = right(*given)
    return replace(task, owner=task.target)


def _dropped_reports(_right: Any, known: Known, offset: int, record: Record) -> Known:
    """Reports that the author of the assignment had not read are forgotten."""
    found: Known = _right(known, offset, record)
    return replace(found, reports=()) if isinstance(record, GroupAssignment) else found


def _any_number(right: Any, known: Known, offset: int, record: Record) -> Known:
    """An assignment counts whatever it has followed."""
    if isinstance(record, GroupAssignment):
        record = replace(record, number=known.assignment.number + 1)
    found: Known = right(known, offset, record)
    return found


def _early_start(_right: Any, tasks: MemberTasks, report: Report) -> None:
    """A query starts though a `Joined` of it has not been read yet."""
    _right(tasks, report)
    tasks._unread.clear()


def _early_release(_right: Any, _tasks: MemberTasks) -> frozenset[str]:
    """Tasks are released though the query has not stopped them."""
    return frozenset()


def _quiet_loss(right: Any, *given: Any, lost: bool = False) -> None:
    """What was lost counts as released in time."""
    right(*given)


@pytest.mark.parametrize(
    ("where", "name", "bug"),
    [
        (agreement, "_towards", _one_step),
        (member_tasks, "fold", _any_number),
        (member_tasks, "fold", _dropped_reports),
        (MemberTasks, "reported", _early_start),
        (MemberTasks, "unsettled", _early_release),
        (member_tasks._Query, "move", _quiet_loss),
    ],
)
def test_planted_bugs_are_caught(where: Any, name: str, bug: Callable[..., Any]) -> None:
    with planted(where, name, bug):
        assert fails()
