"""One seed: members of a service that keep copies of the state of tasks, and say of them what they
know.

A leader assigns the tasks by what the heartbeats say, which is up to some seconds old. Members come
and are killed. A task may leave a living member only for one whose copy is up to date; that of a
killed one goes to a copy; and when nothing happens any more, the members come to have equal shares,
and then nothing moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from millstream.cluster.copies import copies
from millstream.cluster.metadata import HostedPartitions, InstanceMetadata, PeerView, updated_view
from millstream.cluster.standby_tasks import StandbyTasks
from millstream.log.assignment.agreement import Known, fold, owners
from millstream.log.assignment.group_assignment import (
    NOBODY,
    Copies,
    GroupAssignment,
    Limits,
    Record,
    Seated,
    Task,
    member_name,
)
from millstream.log.assignment.leader import Leader
from millstream.log.assignment.member_tasks import MemberTasks

TASKS = {"q": 4, "r": 2, "s": 3}
STATEFUL = ("q", "r")
SEATS = 6
MEMBERS = 4
TICK = 0.1
BEAT = 1.0
STALE = 3.0
"""What a leader knows of a changelog and of a copy is at most so old, in seconds."""
UNREST = 300
CALM = 900
QUIET = 300
"""Ticks: in which members come and go; until all must have come to rest; at rest."""


@dataclass(eq=False)
class Member:
    """A process: what it processes, and the copies on its disk. It is also what `StandbyTasks` asks
    of an instance."""

    world: WarmingWorld
    process: str
    tasks: MemberTasks
    processing: set[Task] = field(default_factory=set)
    starting: set[Task] = field(default_factory=set)
    standbys: dict[str, frozenset[int]] = field(default_factory=dict)
    disk: dict[Task, int] = field(default_factory=dict)
    asked: dict[Task, int] = field(default_factory=dict)
    """The ends of changelogs, as of when it has asked."""
    since: dict[Task, float] = field(default_factory=dict)
    """Since when a standby task has been at the end of its changelog."""
    views: dict[str, PeerView] = field(default_factory=dict)
    beat: float = 0.0
    rack: str = ""

    def __post_init__(self) -> None:
        self.copies = self.world.standby_tasks(self)
        self.leader = self.world.leader(self)

    # ---- what an instance says, and what StandbyTasks asks --------------------------------------

    @property
    def live(self) -> tuple[PeerView, ...]:
        return tuple(self.views[p] for p in self.views if p in self.world.members)

    def instances(self) -> frozenset[str]:
        return frozenset({self.process, *(view.metadata.instance for view in self.live)})

    def partitions(self, query_id: str) -> int:
        return TASKS[query_id] if query_id in STATEFUL else 0

    def standby(self, query_id: str, partitions: frozenset[int]) -> None:
        self.standbys[query_id] = partitions

    def metadata(self) -> InstanceMetadata:
        hosted = {query_id: self.hosted(query_id) for query_id in TASKS}
        return InstanceMetadata(self.process, self.process, queries=hosted)

    def hosted(self, query_id: str) -> HostedPartitions:
        active = frozenset(p for group, p in self.processing if group == query_id)
        followed = {p for group, p in self.followed if group == query_id}
        standby = {p: self.lag((query_id, p)) for p in followed - active}
        restoring = {p: 0 for group, p in self.starting if group == query_id}
        positions = {p: at for (group, p), at in self.disk.items() if group == query_id}
        return HostedPartitions(active, standby, restoring, positions)

    def lag(self, task: Task) -> int:
        return max(0, self.asked.get(task, 0) - self.disk.get(task, 0))

    @property
    def followed(self) -> set[Task]:
        """The tasks whose changelogs it replays."""
        standbys = {(group, p) for group, found in self.standbys.items() for p in found}
        return (standbys | {t for t in self.starting if t[0] in STATEFUL}) - self.processing

    # ---- what it does --------------------------------------------------------------------------

    def act(self) -> None:
        world = self.world
        if world.rnd.random() < 0.7:
            self.read()
        self.obey()
        self.replay()
        self.work()
        if world.now >= self.beat:
            self.beat = world.now + BEAT * world.rnd.uniform(0.5, 1.0)
            self.heartbeat()
        for report in self.tasks.reports():
            world.append(report)
            self.tasks.reported(report)
        if self.tasks.owners.seats.get(0) == self.tasks.name:
            made = self.leader.next(self.tasks, world.now)
            if made is not None:
                world.append(made)

    def read(self) -> None:
        new = self.world.topic[self.tasks.known.read :]
        for record in new:
            self.tasks.read(self.tasks.known.read, record)
        if new:
            self.tasks.update()

    def obey(self) -> None:
        for group in TASKS:
            held = self.tasks.assignment(group)
            assigned = {(group, p) for p in held.partitions}
            others = {t for t in self.processing if t[0] != group}
            self.processing = others | (self.processing & assigned)
            self.starting = {t for t in self.starting if t[0] != group}
            self.starting |= assigned - self.processing
            self.tasks.settled(group, held.epoch)

    def replay(self) -> None:
        """A task starts when its state is restored."""
        world = self.world
        for task in self.followed:
            end = world.ends[task]
            self.disk[task] = min(end, self.disk.get(task, 0) + world.replayed)
            if self.disk[task] == end:
                self.since.setdefault(task, world.now)
        if world.rnd.random() < 0.01:
            # What was not used for long is removed.
            for task in self.disk.keys() - self.followed - self.processing:
                del self.disk[task]
        self.since = {t: at for t, at in self.since.items() if t in self.followed}
        ready = {t for t in self.starting if self.disk.get(t, 0) == world.ends[t]}
        self.processing |= ready
        self.starting -= ready

    def work(self) -> None:
        world = self.world
        for task in sorted(self.processing):
            if task[0] in STATEFUL:
                world.ends[task] += world.rnd.randint(0, 2 * world.written)
                self.disk[task] = world.ends[task]

    def heartbeat(self) -> None:
        world = self.world
        world.published[self.process] = self.metadata()
        for process, metadata in world.published.items():
            if process != self.process:
                offset = int(world.now / TICK)
                before = self.views.get(process)
                self.views[process] = updated_view(before, metadata, offset, offset)
        self.copies.update()
        self.asked = {task: world.ends[task] for task in self.followed}


class WarmingWorld:
    """The state of one seed."""

    def __init__(self, seed: int) -> None:
        self.rnd = Random(seed)
        self.now = 0.0
        self.topic: list[Record] = []
        self.known = Known()
        self.members: dict[str, Member] = {}
        self.started = 0
        self.published: dict[str, InstanceMetadata] = {}
        self.ends = {(group, p): 0 for group, count in TASKS.items() for p in range(count)}
        self.before: list[dict[Task, int]] = []
        """The ends of the changelogs at each tick."""
        self.replicas = self.rnd.choice((0, 0, 1, 2))
        self.limits = Limits(self.rnd.choice((0, 30)), self.rnd.choice((1, 2)))
        self.written = self.rnd.choice((0, 1, 3))
        self.replayed = self.rnd.choice((20, 60))
        self.found: list[str] = []
        self.moves: Counter[Task] = Counter()
        self.stats: Counter[str] = Counter()

    # ---- the parts in which bugs are planted ----------------------------------------------------

    def leader(self, member: Member) -> Leader:
        def reported(members: frozenset[str]) -> Copies:
            peers = [view.metadata for view in member.views.values()]
            return copies([member.metadata(), *peers], STATEFUL, members)

        return Leader(reported, self.limits, restart_seconds=0, probing_seconds=2.0)  # type: ignore[arg-type]

    def warmups(self, member: Member) -> Mapping[str, frozenset[int]]:
        return member.tasks.warmups

    def standby_tasks(self, member: Member) -> StandbyTasks:
        return StandbyTasks(
            member,  # type: ignore[arg-type]
            member,  # type: ignore[arg-type]
            member.process,
            self.replicas,
            lambda: self.warmups(member),
        )

    # ---- members --------------------------------------------------------------------------------

    def enter(self) -> None:
        self.started += 1
        process = f"p{self.started}"
        member = Member(self, process, MemberTasks(0))
        member.tasks.rename(member_name("", process))
        for group, count in TASKS.items():
            member.tasks.join(group, count)
        self.members[process] = member
        self.share_seats()

    def kill(self, process: str) -> None:
        del self.members[process]
        self.share_seats()

    def share_seats(self) -> None:
        names = [member.tasks.name for member in self.members.values()]
        for number, name in enumerate(names):
            self.append(Seated(name, frozenset(range(number, SEATS, len(names)))))

    # ---- what must hold --------------------------------------------------------------------------

    def append(self, record: Record) -> None:
        before = owners(self.known)
        number = self.known.assignment.number
        self.known = fold(self.known, len(self.topic), record)
        self.topic.append(record)
        if isinstance(record, GroupAssignment) and record.number > number:
            self.stats["warmups"] += len(record.warmups)
            if len(record.warmups) > self.limits.warmups:
                self.found.append(f"{len(record.warmups)} copies are warmed up at once")
            for group, entries in record.tasks.items():
                for partition, after in enumerate(entries):
                    owned = before.tasks.get(group, ())
                    old = owned[partition].target if partition < len(owned) else NOBODY
                    if after.target != old and after.target != NOBODY:
                        self.moved((group, partition), old, after.target)

    def moved(self, task: Task, old: str, new: str) -> None:
        """A task was given to another member."""
        self.moves[task] += 1
        by_name = {member.tasks.name: member for member in self.members.values()}
        if task[0] not in STATEFUL or new not in by_name:
            return
        then = self.before[max(0, len(self.before) - int(STALE / TICK))][task]
        near = then - by_name[new].disk.get(task, 0) <= self.limits.acceptable_lag
        if old in by_name:
            self.stats["moved"] += 1
            if not near:
                self.found.append(f"{task} moves to {new}, whose copy is not up to date")
            return
        ready = [m for m in by_name.values() if m.since.get(task, self.now) < self.now - STALE]
        if old != NOBODY and ready:
            self.stats["taken over"] += 1
            if not near:
                self.found.append(f"{task} of a killed member goes to {new}, which has no copy")

    def alone(self) -> None:
        """Each task is processed by one member at most."""
        held = Counter(task for member in self.members.values() for task in member.processing)
        self.found += [f"{task} is processed twice" for task, count in held.items() if count > 1]

    def equal(self) -> bool:
        """Whether all have their share, and none waits."""
        shares = [len(member.processing) for member in self.members.values()]
        return sum(shares) == len(self.ends) and max(shares) - min(shares) <= 1

    # ---- the seed --------------------------------------------------------------------------------

    def tick(self) -> None:
        self.now += TICK
        self.before.append(dict(self.ends))
        for member in list(self.members.values()):
            member.act()
        self.alone()

    def run(self) -> list[str]:
        """Play the seed; returns what was wrong."""
        self.enter()
        for _ in range(UNREST):
            if len(self.members) < MEMBERS and self.rnd.random() < 0.03:
                self.enter()
            if len(self.members) > 1 and self.rnd.random() < 0.015:
                self.kill(self.rnd.choice(sorted(self.members)))
            self.tick()
        for _ in range(CALM):
            self.tick()
        if not self.equal() or self.known.assignment.warmups:
            self.found.append(f"the tasks do not come to be shared: {self.known.assignment}")
        self.moves.clear()
        number = self.known.assignment.number
        for _ in range(QUIET):
            self.tick()
        if self.moves or self.known.assignment.number != number:
            self.found.append(f"tasks move although nothing has changed: {dict(self.moves)}")
        return self.found
