"""Several instances of one query over a log in memory, each with some of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from millstream.log.batches import TABLES
from millstream.log.log import Topic
from millstream.log.simulated import SimulatedLog
from millstream.log.simulated_group import Coordinator
from millstream.runtime.runtime import Guarantee, QuerySpec, QueryState, Runtime, RuntimeSettings
from millstream.state.store import Store
from millstream.topology.split import LayoutOf, labelled
from tests.properties.pipeline import executor_specs, topology_of

IDLE_STEPS = 30
"""A step takes a millisecond. An instance without progress in as many has none in further ones
either, until another one works."""


class Sharing:
    """Instances whose query writes to the topic `o`; task t is at instance t % count."""

    def __init__(
        self,
        sources: str,
        sql: str,
        partitions: Mapping[str, int],
        count: int,
        settings: RuntimeSettings,
        guarantee: Guarantee = Guarantee.EXACTLY_ONCE,
        layout: LayoutOf = labelled,
    ) -> None:
        """`partitions`: of the topics that it reads and of `o`."""
        self.now = 0
        self.problems = 0
        self.settings, self.guarantee = settings, guarantee
        self.coordinator: Coordinator[Any] = Coordinator(Random(0), lambda _member: None)
        self.log: SimulatedLog[Any] = SimulatedLog(
            TABLES, markers=True, coordinator=self.coordinator
        )
        self.topology = topology_of(sources, sql, partitions, layout)
        inner = self.topology.internal_topics
        for topic, number in {**partitions, **{one.name: one.partitions for one in inner}}.items():
            self.log.create_topic(Topic(topic, number))
        self.partitions = {**partitions, **{one.name: one.tasks for one in inner}}
        self.moved = frozenset(one.name for one in inner if one.kind == "repartition")
        self.stores: list[Store] = []
        self.instances: list[Runtime[Any]] = []
        tasks = max(sub.partitions for sub in self.topology.subtopologies)
        for number in range(count):
            self._start(range(number, tasks, count))

    def _start(self, tasks: Sequence[int]) -> None:
        store = Store.open(":memory:")
        specs = executor_specs(store, self.topology, self.partitions, self.guarantee)
        instance: Runtime[Any] = Runtime(self.log, self.settings, self._report)
        instance.add_query(
            QuerySpec("Q", "Q", specs, self.guarantee, repartitions=self.moved, batches=TABLES)
        )
        instance.step(self.now)
        member = self.coordinator.members[-1]
        self.coordinator.owners |= dict.fromkeys(tasks, member)
        member.hear()
        self.stores.append(store)
        self.instances.append(instance)

    def _report(self, _query: str, found: Sequence[Any]) -> None:
        self.problems += sum(problem.count for problem in found)

    def work(self, number: int, steps: int) -> bool:
        """Whether an instance had anything to do. An idle one takes no more than `IDLE_STEPS`."""
        progress, idle = False, 0
        instance = self.instances[number]
        while steps and idle < IDLE_STEPS:
            steps, self.now = steps - 1, self.now + 1
            moved = instance.step(self.now).progress
            progress, idle = progress or moved, 0 if moved else idle + 1
        return progress

    def open(self) -> None:
        """Have all instances open their tasks."""
        for number in range(len(self.instances)):
            while self.state(number) is not QueryState.RUNNING:
                self.work(number, 1)

    def state(self, number: int) -> QueryState:
        """The state of the query on an instance."""
        status = self.instances[number].query_status("Q")
        assert status.state is not QueryState.ERROR, status.error
        return status.state

    def finish(self, rnd: Random, paces: Sequence[int]) -> None:
        """Have instances work in turn, each a number of steps of its own, until all are idle."""
        quiet = 0
        while quiet < 4 * len(self.instances):
            number = rnd.randrange(len(self.instances))
            quiet = 0 if self.work(number, paces[number]) else quiet + 1
            self.state(number)

    def output(self) -> list[dict[str, Any]]:
        """The records of `o`."""
        count = self.partitions["o"]
        return [
            record
            for partition in range(count)
            for record in self.log.read("o", partition, 0, 1 << 30).batch.to_pylist()
        ]

    def close(self) -> None:
        """Stop all instances."""
        for instance, store in zip(self.instances, self.stores, strict=True):
            instance.close(self.now, commit=False)
            store.close()
