"""Two instances of a service that share the tasks of all queries, without threads: the test drives
them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa

from millstream import Database
from millstream.cluster.joining import hosted_partitions
from millstream.cluster.metadata import InstanceMetadata, PeerView, updated_view
from millstream.cluster.participant import Participations
from millstream.cluster.partition_read import PartitionRead
from millstream.cluster.routing import Router
from millstream.cluster.scatter_gather import serve_read
from millstream.cluster.steps import ProgressByQuery, SnapshotStep
from millstream.command_topic import following
from millstream.log.simulated import SimulatedLog
from millstream.log.simulated_group import Coordinator, SimulatedMember
from millstream.query.session import Session
from millstream.service.engine import Engine
from tests.unit.command_topic.converging import Cluster

ROUNDS = 200


class Groups:
    """A coordinator for each group; tests decide when it assigns tasks."""

    def __init__(self) -> None:
        self.by_group: dict[str, Coordinator[Any]] = {}

    def join(self, log: SimulatedLog[Any], group: str, partitions: int) -> SimulatedMember[Any]:
        made = Coordinator[Any](Random(0), lambda member: None)
        return self.by_group.setdefault(group, made).join(log, group, partitions)

    @property
    def members(self) -> list[SimulatedMember[Any]]:
        return [member for group in self.by_group.values() for member in group.members]

    def assign(self, group: str, owners: Collection[int]) -> None:
        """Assign task p of a group to the member with the number `owners[p]`."""
        found = self.by_group[group]
        members = sorted(found.members, key=lambda member: int(member.identity.rpartition(".")[2]))
        for partition, number in enumerate(owners):
            owner = found.owners.get(partition)
            if owner is None:
                found.owners[partition] = members[number]
            elif owner is not members[number]:
                found.leaving[partition] = members[number]

    def hear(self) -> None:
        """Every member learns what it is to hold."""
        for member in self.members:
            member.hear()


@dataclass
class Sharing:
    """The two instances, and their requests."""

    cluster: Cluster
    groups: Groups
    engines: list[Engine] = field(default_factory=list)
    participations: list[Participations] = field(default_factory=list)
    steps: list[tuple[int, SnapshotStep]] = field(default_factory=list)
    """The instance of each step, and the step."""

    def start(self) -> Engine:
        engine = self.cluster.start()
        number = len(self.engines)
        self.engines.append(engine)
        self.participations.append(Participations(engine.cluster))
        engine.cluster.routing = Router(
            lambda query_id: hosted_partitions(engine.cluster, query_id),
            lambda: [self.seen(n) for n in range(len(self.engines)) if n != number],
            self.fetch,
            self.send,
            f"i{number}",
        )
        return engine

    def seen(self, number: int) -> PeerView:
        engine = self.engines[number]
        queries = {
            query_id: hosted_partitions(engine.cluster, query_id)
            for query_id in engine.catalog.queries
        }
        return updated_view(
            None, InstanceMetadata(f"i{number}", f"i{number}", str(number), queries), 0, 0
        )

    def send(
        self, address: str, snapshot_id: str, step: SnapshotStep, seconds: float
    ) -> ProgressByQuery:
        self.steps.append((int(address), step))
        return self.participations[int(address)].execute(snapshot_id, step)

    def fetch(self, address: str, request: PartitionRead, timeout_ms: int) -> pa.Table:
        number = int(address)
        schema, batches = serve_read(
            self.engines[number].cluster, request, self.participations[number]
        )
        return pa.Table.from_batches(batches, schema)

    def settle(self) -> None:
        """All instances follow, and do and commit all there is."""
        for _ in range(ROUNDS):
            for engine in self.engines:
                following.follow(engine.command_topic)
            self.groups.hear()
            # Both, always: what one has done may be for the other one to read.
            if not [engine for engine in self.engines if self.work(engine)]:
                return
        raise AssertionError("the instances do not come to rest")

    def work(self, engine: Engine) -> bool:
        """Do and commit what an instance can without the other; whether there was anything."""
        assert engine.restoring is not None
        done = engine.restoring.run_until_idle()
        while engine.runtime.step(engine.clock()).progress:
            done = True
        engine.runtime.commit(engine.clock())
        return done

    def deal(self, owners: Collection[int]) -> None:
        """Assign the tasks of all queries evenly, and let all instances take theirs."""
        self.settle()
        for group in self.groups.by_group:
            self.groups.assign(group, owners)
        wanted = [
            frozenset(task for task, owner in enumerate(owners) if owner == number)
            for number in range(len(self.engines))
        ]
        for _ in range(ROUNDS):
            self.settle()
            if self.held() == wanted:
                return
        raise AssertionError(f"the instances have {self.held()} instead of {wanted}")

    def held(self) -> list[frozenset[int]]:
        """The tasks that each instance has of every query; empty where these differ."""
        found = []
        for engine in self.engines:
            tasks = {
                frozenset(hosted_partitions(engine.cluster, name).active)
                for name in engine.catalog.queries
            }
            found.append(tasks.pop() if len(tasks) == 1 else frozenset())
        return found

    def database(self, number: int, properties: dict[str, str]) -> Database:
        return Database(self.engines[number], Session(dict(properties)))

    def close(self) -> None:
        for participation in self.participations:
            participation.close()
        self.cluster.close()


def sharing(instances: int) -> Sharing:
    """Instances that have no query yet."""
    ticks = count(0, 500)
    made = Sharing(Cluster(clock=lambda: next(ticks)), Groups())
    made.cluster.log._coordinator = made.groups  # type: ignore[assignment]
    for _ in range(instances):
        made.start()
    return made
