"""One seed: hosts that run the same query over one log, and everything that befalls them.

First a faulty phase, in which every fault class is on or off by the seed (swarm testing), then a
calm one, in which a single host has to finish the work. A host suspended in the middle of a call is
simulated by running the others inside that call.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from millstream.log.batches import Batches
from millstream.log.log import Appended, Log, Topic
from millstream.log.simulated import SimulatedCrash, SimulatedLog
from millstream.log.simulated_group import Coordinator, SimulatedMember
from millstream.model.errors import MillstreamError
from millstream.runtime.ports import Executor, NoRestorer, Restorer
from millstream.runtime.query_runner import QueryRunner
from millstream.runtime.runtime import (
    ExecutorSpec,
    Guarantee,
    QuerySpec,
    QueryState,
    Runtime,
    RuntimeSettings,
)
from tests.simulation.checker import History, complaints
from tests.simulation.faults import Chance, FaultyExecutor
from tests.simulation.pure import PURE_LABELS, SHAPES, Disk, Job, PureExecutor, Rows, Shape

QUERY = "CSAS_1"
ROWS: Batches[Rows] = Batches(
    cut=lambda rows, start, count: rows[start : start + count],
    join=lambda parts: tuple(row for part in parts for row in part),
    topic_partition=lambda rows, first: tuple((first + i, *row) for i, row in enumerate(rows)),
    size=lambda rows: 10 * len(rows),
)
RATES = {
    "crash": 0.02,
    "suspend": 0.02,
    "suspend in commit": 0.1,
    "lost": 0.03,
    "unknown": 0.3,
    "disk full": 0.1,
    "stop": 0.01,
    "pause": 0.01,
    "wipe": 0.1,
    "back up": 0.01,
    "old disk": 0.1,
    "twin": 0.02,
    "jump": 0.01,
    "rebalance": 0.05,
    "throw out": 0.02,
}
"""The highest probability of each fault, per point where it can occur."""
CALM_TURNS = 4000
TIMEOUT_TURNS = 1000
"""When the broker aborts what a dead process has left open (`transaction.timeout.ms`)."""


class Mutant:
    """A planted bug: how a world that has it differs. The plain one has none."""

    def executor(self, world: World, executor: PureExecutor) -> Executor[Any]:
        return executor

    def log(self, world: World, log: Log[Any]) -> Log[Any]:
        return log

    def execution(self) -> type[QueryRunner[Any]]:
        return QueryRunner

    def streams(self, shape: Shape) -> frozenset[str]:
        return shape.streams


@dataclass(slots=True)
class Host:
    """A machine with a disk for each sub-topology, and perhaps a process on it."""

    number: int
    disks: list[Disk]
    instance: Runtime[Any] | None = None
    member: SimulatedMember[Any] | None = None
    backup: list[Disk] | None = None


@dataclass(slots=True)
class Verdict:
    """How a seed ended: no complaints is good."""

    seed: int
    shape: str
    complaints: list[str]
    faults: int
    digest: int
    stats: Counter[str] = field(default_factory=Counter)


class Late:
    """A call that is made when its caller waits for it, at the latest."""

    def __init__(self, world: World, call: Callable[[], None]) -> None:
        self.world = world
        self.call = call

    def wait(self) -> None:
        self.call()

    def give_up(self) -> None:
        if self.world.rnd.random() < 0.5:
            with suppress(MillstreamError):
                self.call()


class Beside:
    """The `Background` of a process; what it has not made when the process dies is never made."""

    def __init__(self, world: World) -> None:
        self.world = world

    def start(self, call: Callable[[], None], size: int) -> Late | None:
        if self.world.rnd.random() < 0.5:
            call()
            return None
        return Late(self.world, call)


class World(Chance):
    """The state of one seed."""

    batches: ClassVar[Batches[Any]] = ROWS

    def __init__(self, seed: int, mutant: Mutant | None = None) -> None:
        self.seed = seed
        self.mutant = mutant or Mutant()
        self.rnd = rnd = Random(seed)
        self.now = 0
        self.digest = 0
        self.stats: Counter[str] = Counter()
        self.found: list[str] = []
        self.calm = False
        self.acting: list[Host] = []
        self.rates = {name: rnd.choice((0, 0, high / 10, high)) for name, high in RATES.items()}
        self.partitions = rnd.randint(1, 3)
        self.shape = self.choose_shape()
        self.exactly_once = rnd.random() < 0.75
        self.hands_over = rnd.random() < 0.7
        self.hold = rnd.choice((0.0, 0.0, 0.3, 0.9))
        self.keys = rnd.choice((1, 3, 8))
        self.wanted = rnd.randint(10, 100)
        self.sent = 0
        self.settings = RuntimeSettings(
            commit_interval_ms=rnd.choice((1, 20, 60)),
            max_batch_records=rnd.choice((1, 5, 30)),
            max_held_bytes=rnd.choice((1, 40, 1 << 20)),
            max_gathered_bytes=rnd.choice((0, 40, 1 << 20)),
            restore_records=rnd.choice((1, 5, 100)),
            state_kept_ms=rnd.choice((5, 600_000)),
            idle_poll_ms=5,
            backoff_ms=2,
            max_backoff_ms=20,
        )
        self.idle_window_close_ms = 0
        self.max_task_idle_ms = rnd.choice((0, 0, 3, 40))
        self.coordinator = Coordinator[Any](rnd, self.joined) if rnd.random() < 0.5 else None
        self.broker = self.make_broker(markers=rnd.random() < 0.5)
        for name, partitions in self.shape.topics(self.partitions).items():
            self.broker.create_topic(Topic(name, partitions))
        self.producer = self.broker.writer("producer")
        self.transacting: Runtime[Any] | None = None
        """The process that has begun the last transaction."""
        self.gone: list[SimulatedMember[Any]] = []
        """Members whose process has died."""
        self.hosts = [self.make_host(number) for number in range(rnd.randint(1, 3))]

    def choose_shape(self) -> Shape:
        """What the query does."""
        return self.rnd.choice(SHAPES)

    def holds_results(self, job: Job) -> bool:
        """Whether a sub-topology holds rows back until its windows close."""
        return False

    def make_broker(self, *, markers: bool) -> SimulatedLog[Any]:
        """The log that all hosts share."""
        return SimulatedLog(
            self.batches,
            effect=self.effect,
            fault=self.fault,
            markers=markers,
            coordinator=self.coordinator,
        )

    def joined(self, member: SimulatedMember[Any]) -> None:
        """The host that is acting has joined the group."""
        self.acting[-1].member = member

    def batch(self, key: int, payload: int) -> Any:
        """One record as it lies on the log."""
        return ((key, payload),)

    # ---- what the log and the executors ask -----------------------------------------------------

    def effect(self, name: str) -> None:
        """A process may die here, or be suspended while the others run."""
        if not self.acting:
            return
        if name == "transact.write":
            self.transacting = self.acting[-1].instance
        host = self.acting[-1].number
        self.digest = zlib.crc32(f"{name} {host} {self.now}".encode(), self.digest)
        self.stats[f"at {name}"] += 1
        if self.hit("crash"):
            raise SimulatedCrash(name)
        committing = name.startswith(("transact", "executor.commit"))
        suspend = "suspend in commit" if committing else "suspend"
        if len(self.acting) == 1 and len(self.hosts) > 1 and self.hit(suspend):
            for _ in range(self.rnd.randint(1, 60)):
                self.tick()

    # ---- hosts -------------------------------------------------------------------------------

    def make_host(self, number: int) -> Host:
        """A machine with empty disks."""
        return Host(number, [Disk() for _ in self.shape.jobs])

    def executor(self, job: int, host: Host) -> Executor[Any]:
        """An executor for a process on `host`."""
        pure = PureExecutor(
            self.shape.jobs[job], self.partitions, host.disks[job], self.rnd, self.hold
        )
        return FaultyExecutor(self.mutant.executor(self, pure), self)

    def restorer(self, host: Host) -> Restorer:
        """The restorer of a process on `host`."""
        return NoRestorer()

    def start(self, host: Host) -> None:
        """Start a process; as the newest, it takes over the identity."""
        self.stats["start"] += 1
        log = self.mutant.log(self, self.broker)
        host.instance = Runtime(log, self.settings, restorer=self.restorer(host))
        executors = tuple(
            ExecutorSpec(
                self.executor(index, host),
                job.inputs,
                self.partitions,
                job.changelog,
                (job.target,),
                self.shape.channels(job, self.partitions),
                self.holds_results(job),
                self.shape.senders(job, self.partitions),
                PURE_LABELS,
            )
            for index, job in enumerate(self.shape.jobs)
        )
        guarantee = Guarantee.EXACTLY_ONCE if self.exactly_once else Guarantee.AT_LEAST_ONCE
        spec = QuerySpec(
            QUERY,
            QUERY,
            executors,
            guarantee,
            repartitions=self.shape.repartitions,
            streams=self.mutant.streams(self.shape),
            max_task_idle_ms=self.max_task_idle_ms,
            idle_window_close_ms=self.idle_window_close_ms,
            batches=self.batches if self.hands_over else None,
        )
        host.instance.background = Beside(self)
        host.instance.add_query(spec)
        for execution in host.instance._queries.values():
            execution.__class__ = self.mutant.execution()

    def turn(self, host: Host) -> None:
        """Let one host do something."""
        if host.instance is None:
            self._down(host)
            return
        self.acting.append(host)
        try:
            self._up(host, host.instance)
        except SimulatedCrash:
            self.died(host)
        finally:
            self.acting.pop()

    def died(self, host: Host) -> None:
        """The process of a host is gone, with everything it had not made durable."""
        host.instance = None
        if host.member is not None:
            self.gone.append(host.member)
            host.member = None

    def wiped(self, host: Host) -> None:
        """The disks of a host are empty again."""
        host.disks = [Disk() for _ in host.disks]

    def _down(self, host: Host) -> None:
        self.acting.append(host)
        if self.hit("wipe"):
            self.wiped(host)
        elif host.backup is not None and self.hit("old disk"):
            host.disks = [disk.copy() for disk in host.backup]
        others_up = any(
            other.instance is not None for other in self.hosts if other not in self.acting
        )
        alone = self.coordinator is None
        many = not alone and self.rnd.random() < 0.1
        if self.calm or self.hit("twin") or many or (not others_up and self.rnd.random() < 0.3):
            self.start(host)
        self.acting.pop()

    def _up(self, host: Host, instance: Runtime[Any]) -> None:
        if self.hit("stop"):
            instance.close(self.now)
            # It may leave a transaction of unknown outcome open.
            self.died(host)
            return
        if self.hit("pause"):
            instance.pause(QUERY)
        elif self.rnd.random() < 0.1 or self.calm:
            self._resume(instance)
        if self.hit("back up"):
            host.backup = [disk.copy() for disk in host.disks]
        if host.member is not None and (self.calm or self.rnd.random() < 0.5):
            host.member.hear()
        instance.step(self.now)
        status = instance.query_status(QUERY)
        if status.state is QueryState.FENCED:
            self.stats["fenced"] += 1
            self.died(host)
        elif status.state is QueryState.ERROR:
            self.died(host)
            # A zombie may find repartition records gone that a newer owner has consumed.
            if status.code != "E-GAP" or len(self.hosts) == 1:
                self.found.append(f"query failed: {status.code} {status.error}")

    def _resume(self, instance: Runtime[Any]) -> None:
        if instance.query_status(QUERY).state in (QueryState.PAUSED, QueryState.RUNNING):
            instance.resume(QUERY)

    # ---- time --------------------------------------------------------------------------------

    def tick(self) -> None:
        """Time passes, a record may arrive, one host that is not suspended runs."""
        self.now += self.rnd.randint(1, 3) if self.rnd.random() > self.rates["jump"] else 500
        if self.sent < self.wanted and self.rnd.random() < 0.3:
            self._send()
        self._coordinate()
        free = [host for host in self.hosts if host not in self.acting]
        if free:
            self.turn(self.rnd.choice(free))

    def _coordinate(self) -> None:
        """Tasks change hands; sessions and transactions of the dead end at last, of the living
        now and then."""
        if self.coordinator is None:
            return
        suspended, self.acting = self.acting, self.acting or [self.hosts[0]]
        if self.gone and (self.calm or self.rnd.random() < 0.2):
            member = self.gone.pop()
            self.coordinator.throw_out(member)
            self.broker.expire(member.identity)
        if self.coordinator.members and self.hit("throw out"):
            member = self.rnd.choice(self.coordinator.members)
            self.coordinator.throw_out(member)
            if self.rnd.random() < 0.5:
                self.broker.expire(member.identity)
        if self.calm or self.hit("rebalance") or self.rnd.random() < 0.05:
            self.coordinator.rebalance()
        self.acting = suspended

    def _send(self) -> None:
        suspended, self.acting = self.acting, []
        key = self.rnd.randrange(self.keys)
        partition = (key if self.shape.by_key else self.rnd.randrange(8)) % self.partitions
        topic = self.rnd.choice(self.shape.sources)
        self.producer.append([Appended(topic, partition, self.batch(key, self.sent), 1)])
        self.sent += 1
        self.acting = suspended

    def run(self) -> Verdict:
        """Play the seed to its end and judge it."""
        while self.sent < self.wanted and not self.found:
            self.tick()
        for _ in range(self.rnd.randint(0, 100)):
            self.tick()
        self._calm_down()
        if not self.found:
            self.found.extend(self.judged())
        faults = sum(self.stats[name] for name in RATES)
        return Verdict(self.seed, self.shape.name, self.found, faults, self.digest, self.stats)

    def judged(self) -> Iterable[str]:
        """Everything that is wrong with what is left."""
        return complaints(self.history())

    def _calm_down(self) -> None:
        self.calm = True
        survivor = self.rnd.choice(self.hosts)
        for host in self.hosts:
            if host is not survivor:
                self.died(host)
        for turn in range(CALM_TURNS):
            if self.found:
                return
            self.now += 3
            self._coordinate()
            dead = self.transacting is not survivor.instance
            if turn == TIMEOUT_TURNS and self.coordinator is None and dead:
                # A survivor that was fenced while it opened learns of it only when it commits, and
                # restores until then: it waits for records of the one that fenced it. For what it
                # has left open itself it must not need the timeout.
                self.broker.expire(QUERY)
            self.turn(survivor)
            if turn % 10 == 9 and self._done(survivor):
                return
        self.found.append("liveness: the work was not finished in the calm phase")

    def _done(self, host: Host) -> bool:
        if host.instance is None:
            return False
        status = host.instance.query_status(QUERY)
        execution = host.instance._queries[QUERY]
        idle = status.state is QueryState.RUNNING and not execution.dirty
        idle = idle and len(execution.holding.open) == self.partitions
        return idle and not any(status.lag.values())

    # ---- what is left ------------------------------------------------------------------------

    def history(self) -> History:
        """What lies on the log and on the disks."""
        counting = [index for index, job in enumerate(self.shape.jobs) if job.changelog]
        return History(
            exactly_once=self.exactly_once,
            counting=bool(counting),
            coalesced=any(job.coalesce for job in self.shape.jobs),
            inputs={name: self.rows(name) for name in self.shape.sources},
            output=self.rows("out"),
            changelog=self.topic_partitions("changelog") if counting else (),
            starts=self.starts("changelog") if counting else (),
            disks=[host.disks[index].saved for host in self.hosts for index in counting],
        )

    def starts(self, topic: str) -> list[int]:
        """The first offset of each partition that is still there."""
        return [self.broker.start_offset(topic, number) for number in range(self.partitions)]

    def rows(self, topic: str) -> list[list[tuple[Any, Any]]]:
        """The (key, value) pairs of a topic by partition."""
        topic_partitions: Sequence[Sequence[tuple[Any, Any] | None]] = self.topic_partitions(topic)
        return [[row for row in rows if row is not None] for rows in topic_partitions]

    def topic_partitions(self, topic: str) -> list[list[tuple[Any, Any] | None]]:
        """The same, with a None where an offset holds no record."""
        found: list[list[tuple[Any, Any] | None]] = []
        for partition in range(self.partitions):
            rows: list[tuple[Any, Any] | None]
            rows = [None] * self.broker.end_offset(topic, partition)
            start = self.broker.start_offset(topic, partition)
            for offset, key, value in self.broker.read(topic, partition, start, 1 << 30).batch:
                rows[offset] = (key, value)
            found.append(rows)
        return found


def play(seed: int, mutant: Mutant | None = None) -> Verdict:
    """One seed, from nothing to verdict."""
    return World(seed, mutant).run()
