"""Worlds in which every host follows changelogs beside what it processes.

A process has two sides that alternate, and each may run in the middle of an operation of the other:
one restores and stands by, one processes the granted part of its assignment. A process that is
fenced or stopped, or loses a task to another host, follows again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.log.log import Fetched
from millstream.log.simulated import SimulatedCrash
from millstream.model.errors import UnavailableError
from millstream.runtime.ports import Executor, Replica, Restorer
from millstream.runtime.restoration import FollowSpec, Restoration
from tests.simulation.faults import FaultyExecutor
from tests.simulation.pure import PureExecutor
from tests.simulation.world import QUERY, Host, Mutant, Verdict, World

SWITCH = 0.1
"""How often the other side of a process runs in the middle of an operation of one."""
OTHER_STANDBYS = 0.02
"""How often a process becomes a standby for other tasks."""
REST_STEPS = 5000


class FollowingMutant(Mutant):
    """A planted bug of restoration."""

    def replica(self, world: World, executor: PureExecutor) -> Replica[Any]:
        return executor

    def restoration(self) -> type[Restoration[Any]]:
        return Restoration


@dataclass(slots=True)
class Follower(Host):
    """A host whose process has a restoration as well."""

    restoration: Restoration[Any] | None = None
    active: bool = False
    """Whether it is to process, not only to stand by."""
    sides: list[str] = field(default_factory=list)
    """What the process is in the middle of."""
    opened: dict[int, set[int]] = field(default_factory=dict)
    """Partitions that are open for processing, by sub-topology."""


class GuardedExecutor(FaultyExecutor):
    """Notes what is open for processing."""

    def __init__(
        self, inner: Executor[Any], world: FollowingWorld, host: Follower, job: int
    ) -> None:
        super().__init__(inner, world)
        self.opened: set[int] = set()
        host.opened[job] = self.opened

    def open(self, partition: int) -> int:
        self.opened.add(partition)
        return super().open(partition)

    def discard(self) -> None:
        super().discard()
        self.opened.clear()

    def close(self) -> None:
        super().close()
        self.opened.clear()


class GuardedReplica:
    """A replica in a process that may die, or be interrupted, around each operation; it reports
    when it touches state that is open for processing."""

    def __init__(
        self, inner: Replica[Any], world: FollowingWorld, host: Follower, job: int
    ) -> None:
        self.inner = inner
        self.world = world
        self.host = host
        self.job = job

    def _at(self, name: str, partition: int) -> None:
        self._alone(partition)
        self.world.effect(f"replica.{name}")
        self._alone(partition)

    def _alone(self, partition: int) -> None:
        if partition in self.host.opened.get(self.job, ()):
            self.world.found.append(f"host {self.host.number}: both hold {self.job}_{partition}")

    def position(self, partition: int) -> int:
        self.world.effect("replica.position")
        return self.inner.position(partition)

    def open(self, partition: int) -> int:
        self._at("open", partition)
        return self.inner.open(partition)

    def clear(self, partition: int, position: int) -> None:
        self._at("clear", partition)
        self.inner.clear(partition, position)

    def restore(self, partition: int, fetched: Fetched[Any]) -> None:
        self._at("restore", partition)
        self.inner.restore(partition, fetched)

    def commit(self, changelog_positions: Mapping[int, int]) -> None:
        for partition in changelog_positions:
            self._at("commit", partition)
        if self.world.hit("disk full"):
            raise UnavailableError("Simulated: the disk is full")
        self.inner.commit(changelog_positions)
        self.world.effect("replica.commit.done")

    def discard(self) -> None:
        self.inner.discard()

    def close(self) -> None:
        self.inner.close()


class FollowingWorld(World):
    """See the module."""

    def __init__(self, seed: int, mutant: FollowingMutant | None = None) -> None:
        self.bug = mutant or FollowingMutant()
        super().__init__(seed, self.bug)
        self.all = frozenset(range(self.partitions))

    def make_host(self, number: int) -> Host:
        plain = super().make_host(number)
        return Follower(number, plain.disks)

    def executor(self, job: int, host: Host) -> Executor[Any]:
        assert isinstance(host, Follower)
        inner = super().executor(job, host)
        assert isinstance(inner, FaultyExecutor)
        return GuardedExecutor(inner.inner, self, host, job)

    def start(self, host: Host) -> None:
        """Start a process: it stands by, and processes when it is scheduled."""
        assert isinstance(host, Follower)
        self.stats["start"] += 1
        host.opened.clear()
        host.active = self.calm or self.rnd.random() < 0.5
        host.restoration = self.bug.restoration()(
            self.broker, self.settings, on_ready=self._handed_over
        )
        followed = tuple(
            FollowSpec(index, self.replica(index, host), job.changelog, self.partitions)
            for index, job in enumerate(self.shape.jobs)
            if job.changelog is not None
        )
        host.restoration.add_query(QUERY, followed)
        host.restoration.standby(QUERY, self.standbys())

    def standbys(self) -> frozenset[int]:
        """The standby tasks of a process."""
        if self.calm or self.rnd.random() < 0.7:
            return self.all
        return frozenset(p for p in self.all if self.rnd.random() < 0.5)

    def replica(self, job: int, host: Follower) -> Replica[Any]:
        """A replica for a process on `host`."""
        pure = PureExecutor(self.shape.jobs[job], self.partitions, host.disks[job], self.rnd, 0.0)
        return GuardedReplica(self.bug.replica(self, pure), self, host, job)

    # ---- turns -------------------------------------------------------------------------------

    def effect(self, name: str) -> None:
        super().effect(name)
        if not self.acting or self.rnd.random() >= SWITCH:
            return
        host = self.acting[-1]
        assert isinstance(host, Follower)
        if len(host.sides) == 1:
            self.stats["switch"] += 1
            self._side(host, "process" if host.sides[0] == "restore" else "restore")

    def turn(self, host: Host) -> None:
        assert isinstance(host, Follower)
        if host.restoration is None:
            self._down(host)
            return
        self.acting.append(host)
        try:
            self._side(host, self.rnd.choice(("process", "restore")))
        except SimulatedCrash:
            self.died(host)
        finally:
            self.acting.pop()
            host.sides.clear()

    def died(self, host: Host) -> None:
        assert isinstance(host, Follower)
        super().died(host)
        host.restoration = None
        host.opened.clear()

    def _side(self, host: Follower, side: str) -> None:
        host.sides.append(side)
        restoration = host.restoration
        if restoration is not None:
            self._check_left(host, restoration)
        if restoration is not None and side == "restore":
            if not self.calm and self.rnd.random() < OTHER_STANDBYS:
                restoration.standby(QUERY, self.standbys())
            restoration.step(self.now)
            if restoration._queries[QUERY].failed:
                self.found.append(f"restoration failed: {restoration.retry_errors()}")
        elif restoration is not None:
            self._process(host, restoration)
        host.sides.pop()

    def _check_left(self, host: Follower, restoration: Restoration[Any]) -> None:
        """State that is not used does not go beyond what is on the disk."""
        for partition, position in restoration.left(QUERY).items():
            saved = sum(disk.saved.get(partition, (0, {}))[0] for disk in host.disks)
            if position > saved:
                self.found.append(f"host {host.number} claims {position} of {partition}: {saved}")

    def _process(self, host: Follower, restoration: Restoration[Any]) -> None:
        if host.instance is not None:
            self._up(host, host.instance)
            if host.instance is None:
                # Fenced or stopped, which is no reason for the process to end.
                host.restoration = restoration
                host.active = self.calm
                restoration.prepare(QUERY, frozenset())
        elif host.active:
            super().start(host)
        else:
            host.active = self.calm or self.hit("twin") or self.rnd.random() < 0.05

    def _handed_over(self, _query_id: str) -> None:
        self.stats["handed over"] += 1

    def restorer(self, host: Host) -> Restorer:
        assert isinstance(host, Follower)
        assert host.restoration is not None
        return host.restoration

    # ---- the end -----------------------------------------------------------------------------

    def _calm_down(self) -> None:
        super()._calm_down()
        for host in self.hosts:
            assert isinstance(host, Follower)
            if not self.found:
                self.died(host)
                self._catch_up(host)

    def _catch_up(self, host: Follower) -> None:
        """In the end every host can stand by at the end of every changelog."""
        self.start(host)
        assert host.restoration is not None
        for _ in range(REST_STEPS):
            self.now += 1
            if not host.restoration.step(self.now).progress:
                break
        behind = [one for one in host.restoration.progress(self.now) if one.lag]
        if behind or host.restoration.retry_errors():
            self.found.append(f"host {host.number} is not up to date: {behind}")


def play_following(seed: int, mutant: FollowingMutant | None = None) -> Verdict:
    """One seed, from nothing to verdict."""
    return FollowingWorld(seed, mutant).run()
