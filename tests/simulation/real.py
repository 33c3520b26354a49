"""Seeds with real queries: SQL compiled to DuckDB executors in place of the pure ones.

A host's disk is a state database in memory that outlives its processes; what a process had not
committed is rolled back when it dies, as DuckDB does when it opens the file of a killed one.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar
from unittest.mock import patch

import pyarrow as pa

from millstream import (
    STREAM_TIME,
    AsyncContext,
    AsyncProcessor,
    KeyValueStore,
    ListStore,
    Processor,
    ProcessorContext,
    Record,
    processor,
)
from millstream.catalog.catalog import Catalog
from millstream.executor import groups
from millstream.executor.compaction import Pace
from millstream.executor.executor import DuckDBExecutor
from millstream.executor.task_group import TaskGroup
from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import Catalogue
from millstream.log.batches import TABLES, Batches
from millstream.log.simulated import SimulatedLog
from millstream.model.batch import raw_batch
from millstream.plan.build import plan_query
from millstream.plan.define import create_source
from millstream.plan.sinks import NewSource
from millstream.runtime.ports import Executor
from millstream.state.store import Store
from millstream.topology.split import split
from millstream.topology.topology import Topology
from millstream_parser import parse, statements
from tests.groups import AnyGroups, AnyOrder
from tests.simulation.checker import History
from tests.simulation.faults import FaultyExecutor
from tests.simulation.pure import Job, Shape
from tests.simulation.world import QUERY, Host, Verdict, World

SOURCE = """
CREATE STREAM s (k INT KEY, g INT, n INT) WITH (KAFKA_TOPIC = 'in', FORMAT = 'JSON');
"""
SINK = "WITH (KAFKA_TOPIC = 'out')"
QUERIES = {
    "sql rekeyed": f"""CREATE TABLE o {SINK} AS
        SELECT g, COUNT(*) AS c, LATEST_BY_OFFSET(n) AS p FROM s GROUP BY g;""",
    "sql by key": f"""CREATE TABLE o {SINK} AS
        SELECT k, COUNT(*) AS c, LATEST_BY_OFFSET(n) AS p FROM s GROUP BY k;""",
    "sql stateless": f"CREATE STREAM o {SINK} AS SELECT k, n AS p FROM s;",
    "processor": f"CREATE STREAM o {SINK} AS SELECT k, c, p FROM PROCESS(s, 'Adding');",
    "awaited": f"CREATE STREAM o {SINK} AS SELECT k, c, p FROM PROCESS(s, 'Awaited');",
}
PROCESSORS = ("processor", "awaited")


class Adding(Processor):
    """Counts the records of each key, and of its task. Exactly once, what is stored must fit
    together whenever it is opened: the counts of all keys, that of the task, and what a schedule
    has noted. At least once, a crash may leave stores on the changelog as of different moments."""

    output = "k INT KEY, c BIGINT, p INT"

    def __init__(self, world: RealWorld) -> None:
        self.world = world

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.counts = context.store("counts", KeyValueStore("INT", "BIGINT"))
        self.totals = context.store("totals", KeyValueStore("STRING", "BIGINT"))
        self.list = context.store("list", ListStore("STRING", "BIGINT"))
        context.schedule(dt.timedelta(milliseconds=20), STREAM_TIME, self.note)
        if self.world.exactly_once:
            total = self.totals.get("all", 0)
            assert total == sum(count for _, count in self.counts.range())
            assert all(noted <= total for noted in self.list.get("noted"))

    def process(self, record: Record) -> None:
        count = self.counts.get(record.key, 0) + 1
        self.counts.put(record.key, count)
        self.totals.put("all", self.totals.get("all", 0) + 1)
        self.context.forward(record.key, {"C": count, "P": record.value["N"]})

    def note(self, time: dt.datetime) -> None:
        self.list.append("noted", self.totals.get("all"))


class Awaited(AsyncProcessor):
    """The same counts by calls that wait for each other in any order; each key has an entry of its
    own."""

    output = "k INT KEY, c BIGINT, p INT"
    concurrency = 3

    def __init__(self, world: RealWorld) -> None:
        self.world = world

    async def init(self, context: AsyncContext) -> None:
        self.context = context
        self.counts = context.store("counts", KeyValueStore("INT", "BIGINT"))
        self.list = context.store("list", ListStore("STRING", "BIGINT"))
        context.schedule(dt.timedelta(milliseconds=20), STREAM_TIME, self.note)
        if self.world.exactly_once:
            total = sum(count for _, count in self.counts.range())
            assert all(noted <= total for noted in self.list.get("noted"))

    async def process(self, record: Record) -> None:
        count = self.counts.get(record.key, 0) + 1
        for _ in range(self.world.rnd.randrange(4)):
            await asyncio.sleep(0)
        self.counts.put(record.key, count)
        self.context.forward(record.key, {"C": count, "P": record.value["N"]})

    async def note(self, time: dt.datetime) -> None:
        await asyncio.sleep(0)
        self.list.append("noted", sum(count for _, count in self.counts.range()))


@dataclass(slots=True)
class Computer(Host):
    """A host whose disk is a DuckDB database."""

    store: Store = field(default_factory=lambda: Store.open(":memory:"))
    executors: list[DuckDBExecutor] = field(default_factory=list)


def topology_of(sql: str, partitions: int, functions: Catalogue | None = None) -> Topology:
    """The sub-topologies of a query over SOURCE. `functions`: the built-in ones by default."""
    catalog = Catalog()
    for statement in parse(SOURCE):
        assert isinstance(statement, statements.CreateSource)
        catalog = catalog.with_source(create_source(statement, catalog, {}))
    (statement,) = parse(sql)
    assert isinstance(statement, statements.CreateAs)
    planned = plan_query(
        statement.query,
        catalog,
        target=NewSource(statement.kind, statement.name, statement.properties),
        properties={},
        functions=functions or builtin_catalogue(),
    )
    return split(planned.node, QUERY, partitions=lambda _topic: partitions)


class RealWorld(World):
    """A world in which the query is SQL and its state a database."""

    batches: ClassVar[Batches[Any]] = TABLES
    topology: Topology
    cached: bool
    exactly_once: bool = False
    query: str | None = None
    """The name of the query, if it is not to be chosen."""

    def choose_shape(self) -> Shape:
        chosen = self.rnd.choice(sorted(QUERIES))
        name = chosen if self.query is None else self.query
        self.rates |= {"old disk": 0.0, "back up": 0.0}
        self.cached = self.rnd.random() < 0.3
        adding = processor(partial(Adding, self), name="Adding")
        awaited = processor(partial(Awaited, self), name="Awaited")
        self.functions = builtin_catalogue().with_processors([adding, awaited])
        self.topology = topology_of(QUERIES[name], self.partitions, self.functions)
        moved = {one.name for one in self.topology.internal_topics if one.kind == "repartition"}
        counting = name != "sql stateless"
        coalesced = "TABLE" in QUERIES[name] and self.cached
        jobs = tuple(
            Job(
                inputs=tuple(one.topic for one in sub.inputs),
                target=str(sub.output),
                count=counting and sub.output not in moved,
                rekey=sub.output in moved,
                coalesce=coalesced,
                changelog=sub.changelog,
            )
            for sub in self.topology.subtopologies
        )
        return Shape(name, jobs, ("in",), by_key="rekeyed" not in name)

    def make_broker(self, *, markers: bool) -> SimulatedLog[Any]:
        return SimulatedLog(self.batches, effect=self.effect, fault=self.fault, markers=markers)

    def batch(self, key: int, payload: int) -> pa.Table:
        value = json.dumps({"G": key, "N": payload}).encode()
        return raw_batch([(json.dumps(key).encode(), value, 1000 + payload)])

    def make_host(self, number: int) -> Host:
        return Computer(number, [])

    def executor(self, job: int, host: Host) -> Executor[Any]:
        assert isinstance(host, Computer)
        executor = DuckDBExecutor(
            host.store,
            QUERY,
            self.topology.subtopologies[job],
            self.functions,
            output_partitions=self.partitions,
            cached=self.cached,
            held=self.exactly_once,
            pace=Pace(fewest=3, piece=2),
            workers=AnyOrder(self.rnd),
            grouping=None if self.shape.name in PROCESSORS else AnyGroups(self.rnd),
        )
        host.executors.append(executor)
        return FaultyExecutor(executor, self)

    def died(self, host: Host) -> None:
        super().died(host)
        assert isinstance(host, Computer)
        for executor in host.executors:
            executor.close()
        host.executors.clear()

    def wiped(self, host: Host) -> None:
        assert isinstance(host, Computer)
        host.store.close()
        host.store = Store.open(":memory:")

    def history(self) -> History:
        counting = self.shape.name != "sql stateless"
        return History(
            exactly_once=self.exactly_once,
            counting=counting,
            coalesced="TABLE" in QUERIES[self.shape.name] and self.cached,
            inputs={"in": [[decoded(row, "N") for row in rows] for rows in self.rows("in")]},
            output=[
                [decoded(row, "C", "P") if counting else decoded(row, "P") for row in rows]
                for rows in self.rows("out")
            ],
        )

    def rows(self, topic: str) -> list[list[Any]]:
        """The raw records of a topic by partition."""
        return [
            self.broker.read(topic, partition, 0, 1 << 30).batch.to_pylist()
            for partition in range(self.partitions)
        ]

    def close(self) -> None:
        """Give the databases back."""
        for host in self.hosts:
            self.died(host)
            assert isinstance(host, Computer)
            host.store.close()


def decoded(row: Mapping[str, Any], *names: str) -> tuple[Any, Any]:
    """Key and value columns of one JSON record."""
    value = json.loads(row["value"])
    values = tuple(value[name] for name in names)
    return json.loads(row["key"]), values if len(names) > 1 else values[0]


class DyingGroup(TaskGroup):
    """A process may die after it has committed the state of some groups and not that of others."""

    world: World

    def commit(self, changelog_positions: Mapping[int, int]) -> None:
        super().commit(changelog_positions)
        self.world.effect("group.commit")


class OpenedTwice(DyingGroup):
    """Planted bug: a task stays in its group when another one takes it."""

    def give(self, partition: int) -> None:
        return


class MovedEarly(DyingGroup):
    """Planted bug: a task is taken by a group while another one has not committed its state."""

    def settle(self) -> bool:
        return True


GROUP_MUTANTS = {"a task in two groups": OpenedTwice, "moved before the commit": MovedEarly}


def play_real(
    seed: int, group: type[DyingGroup] = DyingGroup, *, query: str | None = None
) -> Verdict:
    """One seed with real executors. `query`: the name of one of QUERIES, instead of any."""
    world = type("World", (RealWorld,), {"query": query})(seed)
    kind = type(group.__name__, (group,), {"world": world})
    try:
        with patch.object(groups, "TaskGroup", kind):
            return world.run()
    finally:
        world.close()
