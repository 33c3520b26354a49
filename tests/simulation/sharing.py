"""One seed: processes that share the tasks of several queries, each process with one membership for
all of them.

Every query has its own tasks, and its positions are its own. What a process may commit is decided
for the whole process: the brokers accept the credential of its membership or not. Queries are
committed in rounds. A host suspended in the middle of a call is simulated by running the others
inside that call; its client may learn of changes meanwhile, or be suspended as well.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from millstream.log.faults import SimulatedCrash
from millstream.log.log import Appended, Topic
from millstream.log.simulated import SimulatedLog
from millstream.log.simulated_group import Coordinator, Instances, SimulatedMember
from millstream.runtime.runtime import Runtime
from millstream.runtime.spec import ExecutorSpec, Guarantee, QuerySpec, QueryState, RuntimeSettings
from tests.simulation.checker import History, complaints
from tests.simulation.faults import Chance, FaultyExecutor
from tests.simulation.pure import Disk, Job, PureExecutor
from tests.simulation.world import ROWS

RATES = {
    "crash": 0.01,
    "suspend": 0.02,
    "suspend in commit": 0.15,
    "lost": 0.02,
    "unknown": 0.2,
    "rebalance": 0.1,
    "throw out": 0.02,
    "give up": 0.05,
    "leave": 0.01,
    "disk full": 0.05,
}
"""The highest probability of each fault, per point where it can occur."""
CALM_TURNS = 6000
Log = SimulatedLog[Any]


class SharingMutant:
    """A planted bug: how the log differs. The plain one has none."""

    def log(self, world: SharingWorld) -> Log:
        return SimulatedLog(
            ROWS, effect=world.effect, fault=world.fault, markers=world.markers, coordinator=world
        )  # type: ignore[arg-type]


@dataclass(eq=False, slots=True)
class Process:
    """A process, with the queries that are due."""

    runtime: Runtime[Any]
    due: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Machine:
    """A host, with a disk for each query, and perhaps a process on it."""

    number: int
    disks: list[Disk]
    process: Process | None = None


class SharingWorld(Chance):
    """The state of one seed. It is the coordinator of its log, one for each group."""

    def __init__(self, seed: int, mutant: SharingMutant | None = None) -> None:
        self.rnd = rnd = Random(seed)
        self.now = 0
        self.calm = False
        self.stats: Counter[str] = Counter()
        self.found: list[str] = []
        self.acting: list[Machine] = []
        self.rates = {name: rnd.choice((0, 0, high / 10, high)) for name, high in RATES.items()}
        self.markers = rnd.random() < 0.5
        self.partitions = rnd.randint(1, 3)
        self.counting = [rnd.random() < 0.5 for _ in range(rnd.randint(2, 4))]
        """Of each query, whether it counts."""
        self.keys = rnd.choice((1, 3, 8))
        self.hold = rnd.choice((0.0, 0.0, 0.3))
        self.wanted = rnd.randint(10, 60)
        self.sent = 0
        self.settings = RuntimeSettings(
            commit_interval_ms=rnd.choice((1, 20)),
            max_batch_records=rnd.choice((1, 5)),
            state_kept_ms=rnd.choice((5, 600_000)),
            backoff_ms=2,
            max_backoff_ms=20,
        )
        self.instances: Instances[Any] = Instances()
        self.by_group: dict[str, Coordinator[Any]] = {}
        self.gone: list[Process] = []
        """Processes that have died, and whose sessions have not ended."""
        self.broker = (mutant or SharingMutant()).log(self)
        for name in ("in", *self.topics("out"), *self.topics("changes")):
            self.broker.create_topic(Topic(name, self.partitions))
        self.producer = self.broker.writer("producer")
        self.machines = [
            Machine(number, [Disk() for _ in self.counting]) for number in range(rnd.randint(2, 3))
        ]

    def topics(self, kind: str) -> list[str]:
        """The topics of this kind, one for each query."""
        return [f"{kind}{number}" for number in range(len(self.counting))]

    # ---- what the log and the executors ask -----------------------------------------------------

    def effect(self, name: str) -> None:
        """A process may die here, or be suspended while the others run."""
        if not self.acting:
            return
        if self.hit("crash"):
            raise SimulatedCrash(name)
        committing = name.startswith(("transact", "ask", "executor.commit"))
        suspend = "suspend in commit" if committing else "suspend"
        if len(self.acting) == 1 and self.hit(suspend):
            for _ in range(self.rnd.randint(1, 60)):
                self.tick()

    # ---- the group -----------------------------------------------------------------------------

    def join(self, log: Any, group: str, partitions: int) -> SimulatedMember[Any]:
        """The process that is acting joins the group of a query."""
        process = self.acting[-1].process
        made = Coordinator[Any](self.rnd, lambda _: None, self.instances, lambda: None)
        coordinator = self.by_group.setdefault(group, made)
        coordinator.process = lambda: process
        return coordinator.join(log, group, partitions)

    @property
    def members(self) -> list[SimulatedMember[Any]]:
        """All of all groups."""
        return [member for group in self.by_group.values() for member in group.members]

    def coordinate(self) -> None:
        """Tasks change hands, and sessions end."""
        suspended, self.acting = self.acting, self.acting or [self.machines[0]]
        if self.gone and (self.calm or self.rnd.random() < 0.2):
            self.end(self.gone.pop())
        if self.calm:
            # A query that has left may have an open transaction, whose outcome it did not learn.
            living = {view.identity for views in self.instances.views.values() for view in views}
            for identity in {opened.identity for opened in self.broker._open} - living:
                self.broker.expire(identity)
        members = self.members
        if members and self.hit("throw out"):
            self.instances.throw_out(self.rnd.choice(members).process)
        if members and self.hit("give up"):
            self.rnd.choice(members).give_up()
        if self.calm or self.hit("rebalance") or self.rnd.random() < 0.05:
            for coordinator in self.by_group.values():
                coordinator.rebalance()
        self.acting = suspended
        for machine in self.machines:
            if machine.process is not None and (self.calm or self.rnd.random() < 0.2):
                self.instances.hear(machine.process)

    def end(self, process: Process) -> None:
        """End the session and the transactions of a process."""
        views = self.instances.views.pop(process, [])
        for view in views:
            view.coordinator.throw_out(view)
            self.broker.expire(view.identity)

    # ---- processes -------------------------------------------------------------------------------

    def start(self, machine: Machine) -> None:
        """Start a process with all queries."""
        self.stats["start"] += 1
        machine.process = Process(Runtime(self.broker, self.settings))
        for number in range(len(self.counting)):
            self.add(machine, machine.process, number)

    def add(self, machine: Machine, process: Process, number: int) -> None:
        """Start a query in a process."""
        counting = self.counting[number]
        changelog = f"changes{number}" if counting else None
        job = Job(("in",), f"out{number}", count=counting, changelog=changelog)
        pure = PureExecutor(job, self.partitions, machine.disks[number], self.rnd, self.hold)
        executor = FaultyExecutor(pure, self)
        sub_topology = ExecutorSpec(executor, ("in",), self.partitions, changelog, (job.target,))
        name = f"Q{number}"
        process.runtime.add_query(
            QuerySpec(name, name, (sub_topology,), guarantee=Guarantee.EXACTLY_ONCE)
        )

    def turn(self, machine: Machine) -> None:
        """Let one host do something."""
        if machine.process is None:
            if self.calm or self.rnd.random() < 0.2:
                self.start(machine)
            return
        self.acting.append(machine)
        try:
            self.work(machine, machine.process)
        except SimulatedCrash:
            self.died(machine)
        finally:
            self.acting.pop()

    def work(self, machine: Machine, process: Process) -> None:
        """A step of a query, or a commit round."""
        query_ids = [*process.runtime.query_ids()]
        query_id = self.rnd.choice(query_ids)
        if self.hit("leave"):
            # It is dropped here and created again: its tasks go to others, those of the rest stay.
            process.runtime.remove_query(query_id, self.now, commit=self.rnd.random() < 0.5)
            process.due.discard(query_id)
            self.add(machine, process, int(query_id[1:]))
        elif process.due and self.rnd.random() < 0.4:
            due, process.due = sorted(process.due), set()
            process.runtime.commit_round(due, self.now)
        elif process.runtime.advance(query_id, self.now, commits=False).due:
            process.due.add(query_id)
        for name in process.runtime.query_ids():
            status = process.runtime.query_status(name)
            if status.state is QueryState.ERROR:
                self.found.append(f"{name} failed: {status.code} {status.error}")

    def died(self, machine: Machine) -> None:
        """The process of a host is gone, with everything it had not made durable."""
        if machine.process is not None:
            self.gone.append(machine.process)
        machine.process = None

    # ---- the seed --------------------------------------------------------------------------------

    def tick(self) -> None:
        """Time passes, a record may arrive, one host that is not suspended runs."""
        self.now += self.rnd.randint(1, 3)
        if self.sent < self.wanted and self.rnd.random() < 0.1:
            self.send()
        self.coordinate()
        free = [machine for machine in self.machines if machine not in self.acting]
        if free:
            self.turn(self.rnd.choice(free))

    def send(self) -> None:
        """A client appends a record."""
        suspended, self.acting = self.acting, []
        key = self.rnd.randrange(self.keys)
        row = ((key, self.sent),)
        self.producer.append([Appended("in", key % self.partitions, row, 1)])
        self.sent += 1
        self.acting = suspended

    def run(self) -> list[str]:
        """Play the seed; returns what was wrong."""
        while self.sent < self.wanted and not self.found:
            self.tick()
        self.calm = True
        survivor = self.rnd.choice(self.machines)
        for machine in self.machines:
            if machine is not survivor:
                self.died(machine)
        for turn in range(CALM_TURNS):
            self.now += 3
            self.coordinate()
            self.turn(survivor)
            if self.found or (turn % 20 == 19 and self.done(survivor)):
                break
        else:
            self.found.append("liveness: the work was not finished in the calm phase")
        for number in range(len(self.counting)):
            if not self.found:
                self.found += complaints(self.history(number))
        return self.found

    def done(self, machine: Machine) -> bool:
        """Whether everything is processed and committed."""
        if machine.process is None:
            return False
        for query_id, query in machine.process.runtime._queries.items():
            status = machine.process.runtime.query_status(query_id)
            if status.state is not QueryState.RUNNING or query.dirty or any(status.lag.values()):
                return False
            if len(query.holding.open) < self.partitions:
                return False
        return True

    def history(self, number: int) -> History:
        """What one query has left."""
        counting, changes = self.counting[number], f"changes{number}"
        starts = [self.broker.start_offset(changes, number) for number in range(self.partitions)]
        return History(
            exactly_once=True,
            counting=counting,
            coalesced=False,
            inputs={"in": self.rows("in")},
            output=self.rows(f"out{number}"),
            changelog=self.offsets(changes) if counting else (),
            starts=starts if counting else (),
            disks=[machine.disks[number].saved for machine in self.machines] if counting else (),
        )

    def rows(self, topic: str) -> list[list[tuple[Any, Any]]]:
        """The (key, value) pairs of a topic by partition."""
        return [[row for row in rows if row is not None] for rows in self.offsets(topic)]

    def offsets(self, topic: str) -> list[list[tuple[Any, Any] | None]]:
        """The same, with a None where an offset holds no record."""
        found: list[list[tuple[Any, Any] | None]] = []
        for partition in range(self.partitions):
            rows: list[tuple[Any, Any] | None] = [None] * self.broker.end_offset(topic, partition)
            start = self.broker.start_offset(topic, partition)
            for offset, key, value in self.broker.read(topic, partition, start, 1 << 30).batch:
                rows[offset] = (key, value)
            found.append(rows)
        return found


def play_sharing(seed: int, mutant: SharingMutant | None = None) -> list[str]:
    """One seed, from nothing to what was wrong."""
    return SharingWorld(seed, mutant).run()
