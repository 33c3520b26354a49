"""Instances that catch up, each at its own pace: windows and joins lose no row by that."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from millstream.formats.partition import partition_of
from millstream.log.batches import TABLES
from millstream.log.log import Appended, Lag, Topic
from millstream.log.simulated import SimulatedLog
from millstream.log.simulated_group import Coordinator, SimulatedMember
from millstream.model.batch import raw_batch
from millstream.runtime.remote_upstreams import RemoteUpstreams
from millstream.runtime.runtime import (
    ExecutorSpec,
    Guarantee,
    QuerySpec,
    Runtime,
    RuntimeSettings,
)
from millstream.state.store import Store
from millstream.topology.split import LayoutOf, labelled
from tests.draws import draws
from tests.properties.pipeline import LAYOUTS, executor_specs, topology_of
from tests.simulation.pure import Disk, PureExecutor
from tests.unit.runtime.queries import REKEY

SOURCES = """
CREATE STREAM s (k INT KEY, g INT) WITH (KAFKA_TOPIC = 's', FORMAT = 'JSON');
CREATE STREAM r (g INT KEY, n INT) WITH (KAFKA_TOPIC = 'r', FORMAT = 'JSON');
"""
SINK = "WITH (KAFKA_TOPIC = 'o')"
WINDOW = "WINDOW TUMBLING (SIZE 1 SECONDS, GRACE PERIOD 0 SECONDS)"
WINDOWED = f"CREATE TABLE o {SINK} AS SELECT g, COUNT(*) AS c FROM s {WINDOW} GROUP BY g;"
TWICE = f"""CREATE TABLE o {SINK} AS SELECT l.k AS k, COUNT(*) AS c FROM s l
    JOIN r WITHIN 1 SECONDS GRACE PERIOD 0 SECONDS ON l.g = r.g {WINDOW} GROUP BY l.k;"""
SECONDS = 60
SETTINGS = RuntimeSettings(commit_interval_ms=3, max_batch_records=4, lag_interval_ms=20)
IDLE_STEPS = 30
"""A step takes a millisecond, so every interval has passed in these: an instance without progress
has none in further ones either, until another one works."""
WIDTHS = {"s": 2, "r": 2, "o": 2}


def home(key: int) -> int:
    """The partition of a key."""
    return int(partition_of(pa.array([json.dumps(key).encode()]), 2)[0])


class Two:
    """Two instances, each with one task of every sub-topology."""

    def __init__(
        self,
        sql: str,
        guarantee: Guarantee,
        *,
        markers: bool,
        layout: LayoutOf = labelled,
        settings: RuntimeSettings = SETTINGS,
    ) -> None:
        self.now = 0
        self.late = 0
        self.coordinator: Coordinator[Any] = Coordinator(Random(0), lambda _member: None)
        self.log = SimulatedLog(TABLES, markers=markers, coordinator=self.coordinator)
        topology = topology_of(SOURCES, sql, WIDTHS, layout)
        inner = {one.name: one.partitions for one in topology.internal_topics}
        for topic, count in {**WIDTHS, **inner}.items():
            self.log.create_topic(Topic(topic, count))
        self.producer = self.log.writer("producer")
        self.moved = frozenset(t.name for t in topology.internal_topics if t.kind != "changelog")
        self.topology, self.guarantee, self.settings = topology, guarantee, settings
        self.labelled = layout is labelled
        self.labels: set[bytes | None] = set()
        """The keys of the records between the sub-topologies."""
        truncate = self.log.truncate

        def truncated(topic: str, partition: int, before: int) -> None:
            self.note_labels(topic, partition, before)
            truncate(topic, partition, before)

        self.log.truncate = truncated  # type: ignore[method-assign]
        self.stores: dict[int, Store] = {}
        self.instances: dict[int, Runtime[Any]] = {}
        for number in range(2):
            self.start(number)

    def start(self, number: int) -> None:
        """Start the instance that has the tasks of this number, with nothing on its disk."""
        self.stores[number] = Store.open(":memory:")
        specs = executor_specs(self.stores[number], self.topology, WIDTHS, self.guarantee)
        spec = QuerySpec("Q", "Q", specs, self.guarantee, repartitions=self.moved)
        instance = self.instances[number] = Runtime(self.log, self.settings, self.problems)
        instance.add_query(spec)
        self.work(instance, 1)
        member: SimulatedMember[Any] = self.coordinator.members[-1]
        self.coordinator.owners[number] = member
        member.hear()

    def note_labels(self, topic: str, partition: int, before: int) -> None:
        """Repartition records are about to be deleted."""
        start = self.log.start_offset(topic, partition)
        if topic in self.moved and start < before:
            records = self.log.read(topic, partition, start, before - start).batch
            self.labels.update(records["key"].to_pylist())

    def stop(self, number: int) -> None:
        self.instances.pop(number).close(self.now, commit=False)
        self.stores.pop(number).close()

    def problems(self, _query: str, found: Any) -> None:
        self.late += sum(problem.count for problem in found)

    def send(self, topic: str, partition: int, second: int, **columns: int) -> None:
        """In a transaction, as other queries do."""
        (_key, of_key), *values = columns.items()
        value = json.dumps({name.upper(): each for name, each in values}).encode()
        batch = raw_batch([(json.dumps(of_key).encode(), value, 1000 * second)])
        self.producer.transact("none", [Appended(topic, partition, batch, 1)], {})

    def work(self, instance: Runtime[Any], steps: int) -> bool:
        """Whether there was anything to do. An idle instance takes no more than `IDLE_STEPS`."""
        progress, idle = False, 0
        while steps and idle < IDLE_STEPS:
            steps, self.now = steps - 1, self.now + 1
            moved = instance.step(self.now).progress
            progress, idle = progress or moved, 0 if moved else idle + 1
        return progress

    def move(self) -> None:
        """Tasks are assigned at random: perhaps all to one instance, or one to each."""
        self.coordinator.rebalance()
        for _ in range(2):
            for member in self.coordinator.members:
                member.hear()
            for instance in self.instances.values():
                self.work(instance, 1)

    def used(self, *, together: bool) -> bool:
        """Whether anything was sent by an instance with all tasks, or by one without."""
        moved = [t for t in self.topology.internal_topics if t.kind == "repartition"]
        if self.labelled:
            return any((label is None) == together for label in self.labels)
        return any(
            self.log.end_offset(topic.name, partition)
            for topic in moved
            for partition in range(topic.partitions)
            if (partition < topic.tasks) == together
        )

    def finish(self, rnd: Random, starts: int = 0) -> int:
        """The counts of all windows together, when all instances are idle. The instances alternate
        for random durations, and are restarted this many times."""
        quiet = 0
        while quiet < 20 or starts:
            number = rnd.randrange(2)
            if starts and rnd.random() < 0.2:
                starts -= 1
                self.stop(number)
                self.start(number)
            steps = rnd.choice((1, 5, 30 if starts else 200))
            quiet = 0 if self.work(self.instances[number], steps) else quiet + 1
        last: dict[tuple[int, bytes], int] = {}
        for partition in range(2):
            for record in self.log.read("o", partition, 0, 1 << 20).batch.to_pylist():
                last[partition, record["key"]] = json.loads(record["value"])["C"]
        return sum(last.values())

    def close(self) -> None:
        for number in range(2):
            self.stop(number)


def filled(
    sql: str,
    guarantee: Guarantee,
    *,
    markers: bool,
    layout: LayoutOf = labelled,
    settings: RuntimeSettings = SETTINGS,
) -> Two:
    """All input exists before any instance begins."""
    two = Two(sql, guarantee, markers=markers, layout=layout, settings=settings)
    for second in range(SECONDS):
        two.send("s", second % 2, second, k=second, g=second % 5)
        two.send("r", home(second % 5), second, g=second % 5, n=second)
    return two


@pytest.mark.parametrize("seed", range(draws(3)))
@pytest.mark.parametrize("markers", [False, True])
@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sql", [WINDOWED, TWICE])
def test_nothing_is_late(
    sql: str, layout: LayoutOf, guarantee: Guarantee, markers: bool, seed: int
) -> None:
    two = filled(sql, guarantee, markers=markers, layout=layout)
    assert two.finish(Random(seed)) == SECONDS
    assert two.late == 0
    two.close()


@pytest.mark.parametrize("seed", range(draws(6)))
@pytest.mark.parametrize("held_bytes", [1, 1 << 20])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sql", [WINDOWED, TWICE])
def test_a_restart_continues_in_each_channel(
    sql: str, layout: LayoutOf, held_bytes: int, seed: int
) -> None:
    settings = replace(SETTINGS, max_held_bytes=held_bytes)
    two = filled(sql, Guarantee.EXACTLY_ONCE, markers=True, layout=layout, settings=settings)
    assert two.finish(Random(seed), starts=4) == SECONDS
    assert two.late == 0
    two.close()


def test_a_sender_at_the_end_is_not_waited_for() -> None:
    two = Two(WINDOWED, Guarantee.EXACTLY_ONCE, markers=True)
    two.send("s", 0, 1, k=0, g=1)
    assert two.finish(Random(0)) == 1
    two.send("s", 0, 2, k=0, g=1)
    for _ in range(20):
        two.work(two.instances[0], 10)
    assert two.finish(Random(1)) == 2
    two.close()


@pytest.mark.parametrize("seed", range(draws(2)))
@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sql", [WINDOWED, TWICE])
def test_tasks_come_together_and_part_again(
    sql: str, layout: LayoutOf, guarantee: Guarantee, seed: int
) -> None:
    rnd = Random(seed)
    two = filled(sql, guarantee, markers=True, layout=layout)
    for _ in range(12):
        two.move()
        two.work(two.instances[rnd.randrange(2)], rnd.choice((3, 10, 30)))
    assert two.finish(rnd) == SECONDS
    assert two.late == 0
    two.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_instance_with_all_tasks_sends_their_rows_together(layout: LayoutOf) -> None:
    two = filled(WINDOWED, Guarantee.EXACTLY_ONCE, markers=True, layout=layout)
    first, _ = two.coordinator.members
    two.coordinator.owners[1] = first
    for member in two.coordinator.members:
        member.hear()
    assert two.finish(Random(0)) == SECONDS
    assert two.used(together=True) and not two.used(together=False)
    two.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_instance_with_some_tasks_sends_their_rows_separately(layout: LayoutOf) -> None:
    two = filled(WINDOWED, Guarantee.EXACTLY_ONCE, markers=True, layout=layout)
    assert two.finish(Random(0)) == SECONDS
    assert two.used(together=False) and not two.used(together=True)
    two.close()


def sending(source: str, target: str, **channels: int) -> ExecutorSpec[Any]:
    executor = PureExecutor(REKEY, 2, Disk(), Random(0), 0.0)
    return ExecutorSpec(executor, (source,), 2, outputs=(target,), channels=channels)


def elsewhere(*owned: int) -> RemoteUpstreams[Any]:
    executors = (sending("in", "a"), sending("a", "b", a=3), sending("b", "out", b=3))
    made = RemoteUpstreams[Any](QuerySpec("Q", "Q", executors, repartitions=frozenset({"a", "b"})))
    made.opened(owned)
    return made


def test_all_that_others_have_to_read_counts_and_what_is_read_to_make_it() -> None:
    made = elsewhere(1)
    assert made.wanted(0) == {("in", 0), ("a", 0), ("a", 2), ("a", 4)}
    made.told(Lag({("in", 0): 3}, {("in", 0): 3, ("a", 2): 1, ("a", 4): 0}), 50)
    assert (made.behind("a"), made.behind("b")) == (False, True)
    assert not made.wanted(49) and made.wanted(50)


def test_an_instance_with_all_tasks_does_not_wait() -> None:
    made = elsewhere(0, 1)
    assert not made.wanted(0) and not made.behind("a") and not made.watched


def test_others_are_behind_until_they_have_come_to_where_the_log_ended_before() -> None:
    made = elsewhere(1)
    assert made.behind("a")
    for position, end, behind in ((0, 4, True), (3, 9, True), (9, 20, False), (20, 20, False)):
        ends = {("in", 0): end, ("a", 2): 0, ("a", 4): 0}
        made.told(Lag({("in", 0): position}, ends), 0)
        assert made.behind("a") == behind
    made.opened({1})
    assert made.behind("a")
