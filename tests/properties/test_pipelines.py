"""Queries of two stages under the runtime: however input arrives, and wherever the process stops
and loses its state, the records of each group are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.catalog.catalog import Catalog
from millstream.functions.catalogue import builtin_catalogue
from millstream.kernel.compaction import Pace
from millstream.kernel.kernel import DuckKernel
from millstream.log.batches import TABLES
from millstream.log.log import Appended, Topic
from millstream.log.simulated import SimulatedLog
from millstream.model.batch import raw_batch
from millstream.plan.build import plan_query
from millstream.plan.define import create_source
from millstream.plan.sinks import NewSource
from millstream.runtime.instance import (
    Guarantee,
    Instance,
    KernelSpec,
    QuerySpec,
    QueryState,
    RuntimeSettings,
)
from millstream.state.store import Store
from millstream.topology.split import split
from millstream.topology.topology import Topology
from millstream_parser import parse, statements

SOURCES = """
CREATE STREAM s (k INT KEY, g INT, n INT) WITH (KAFKA_TOPIC = 's', FORMAT = 'JSON');
CREATE TABLE t (k INT PRIMARY KEY, g INT, n INT) WITH (KAFKA_TOPIC = 't', FORMAT = 'JSON');
"""
SINK = "WITH (KAFKA_TOPIC = 'o', FORMAT = 'JSON')"
GROUPED = "SELECT g, COUNT(*) AS c, SUM(n) AS total"
QUERIES = {
    "moved": f"CREATE STREAM o {SINK} AS SELECT * FROM s PARTITION BY g;",
    "grouped stream": f"CREATE TABLE o {SINK} AS {GROUPED} FROM s GROUP BY g;",
    "grouped table": f"CREATE TABLE o {SINK} AS {GROUPED} FROM t GROUP BY g;",
    "having": f"CREATE TABLE o {SINK} AS {GROUPED} FROM t GROUP BY g HAVING SUM(n) > 5;",
    "tumbling": f"""CREATE TABLE o {SINK} AS {GROUPED} FROM s
        WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 10 MILLISECONDS) GROUP BY g;""",
    "hopping": f"""CREATE TABLE o {SINK} AS {GROUPED} FROM s WINDOW HOPPING (SIZE 10 MILLISECONDS,
        ADVANCE BY 4 MILLISECONDS, GRACE PERIOD 10 MILLISECONDS) GROUP BY g;""",
    "sessions": f"""CREATE TABLE o {SINK} AS {GROUPED} FROM s
        WINDOW SESSION (5 MILLISECONDS, GRACE PERIOD 10 MILLISECONDS) GROUP BY g;""",
    "final": f"""CREATE TABLE o {SINK} AS {GROUPED} FROM s
        WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS) GROUP BY g
        EMIT FINAL;""",
}
Record = tuple[int, tuple[int | None, int] | None, int, bool]
"""Key, value columns (None: a deletion), event time, whether it has a header."""
PARTITIONS = 2
SETTINGS = RuntimeSettings(commit_interval_ms=3, max_batch_records=5)


def topology_of(sql: str) -> Topology:
    catalog = Catalog()
    for statement in parse(SOURCES):
        assert isinstance(statement, statements.CreateSource)
        catalog = catalog.with_source(create_source(statement, catalog, {}))
    (statement,) = parse(sql)
    assert isinstance(statement, statements.CreateAs)
    planned = plan_query(
        statement.query,
        catalog,
        target=NewSource(statement.kind, statement.name, statement.properties),
        properties={},
        functions=builtin_catalogue(),
    )
    return split(planned.node, "Q", partitions=lambda _topic: PARTITIONS)


class Pipeline:
    """A query on a log of its own; `restart` takes its state away."""

    def __init__(self, name: str) -> None:
        self.topology = topology_of(QUERIES[name])
        self.source = self.topology.subtopologies[0].inputs[0].topic
        self.log: SimulatedLog[Any] = SimulatedLog(TABLES)
        internal = {one.name: one.partitions for one in self.topology.internal_topics}
        for topic, count in {self.source: PARTITIONS, "o": PARTITIONS, **internal}.items():
            self.log.create_topic(Topic(topic, count))
        self.producer = self.log.writer("producer")
        self.now = 0
        self.start()

    def start(self) -> None:
        self.store = Store.open(":memory:")
        specs = tuple(
            KernelSpec(
                DuckKernel(
                    self.store,
                    "Q",
                    sub,
                    builtin_catalogue(),
                    output_partitions=PARTITIONS,
                    pace=Pace(fewest=3, piece=2),
                ),
                tuple(one.topic for one in sub.inputs),
                sub.partitions,
                sub.changelog,
            )
            for sub in self.topology.subtopologies
        )
        moved = {one.name for one in self.topology.internal_topics if one.kind == "repartition"}
        self.instance: Instance[Any] = Instance(self.log, SETTINGS)
        self.instance.add_query(
            QuerySpec("Q", "Q", specs, Guarantee.EXACTLY_ONCE, repartitions=frozenset(moved))
        )

    def stop(self) -> None:
        self.instance.close(self.now, commit=False)
        self.store.close()

    def send(self, records: list[Record]) -> None:
        """All to one partition: only then is there one order of the records."""
        rows, headers = [], []
        for key, value, time, headed in records:
            columns = None if value is None else json.dumps({"G": value[0], "N": value[1]}).encode()
            rows.append((json.dumps(key).encode(), columns, time))
            mark = f"{key} {time} {value}".encode()
            headers.append([{"key": "h", "value": mark}] if headed else None)
        if rows:
            self.producer.append([Appended(self.source, 0, raw_batch(rows, headers), len(rows))])

    def step(self) -> None:
        self.now += 1
        self.instance.step(self.now)

    def finish(self) -> list[list[dict[str, Any]]]:
        """Work until nothing is left; the records of each output partition."""
        for _ in range(500):
            self.step()
            status = self.instance.query_status("Q")
            assert status.state is not QueryState.ERROR, status.error
            idle = status.state is QueryState.RUNNING and not any(status.lag.values())
            if idle and not self.instance._queries["Q"].dirty:
                break
        else:
            raise AssertionError("does not come to rest")
        return [self.log.read("o", p, 0, 1 << 20).batch.to_pylist() for p in range(PARTITIONS)]


records = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.none() | st.tuples(st.none() | st.integers(0, 2), st.integers(0, 5)),
        st.integers(0, 50),
        st.booleans(),
    ),
    max_size=16,
)
actions = st.lists(st.integers(0, 6) | st.just("restart"), max_size=8)
"""Between the records: so many steps, or a restart without state."""


@pytest.mark.parametrize("name", QUERIES)
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(records=records, actions=actions)
def test_arrival_and_restarts_do_not_matter(
    name: str, records: list[Record], actions: list[Any]
) -> None:
    whole, cut = Pipeline(name), Pipeline(name)
    try:
        whole.send(records)
        share = 1 + len(records) // (len(actions) + 1)
        sent = 0
        for action in actions:
            send = records[sent : sent + share]
            sent += len(send)
            cut.send(send)
            if action == "restart":
                cut.stop()
                cut.start()
            else:
                for _ in range(action):
                    cut.step()
        cut.send(records[sent:])
        assert values(cut.finish()) == values(whole.finish())
    finally:
        whole.stop()
        cut.stop()


def values(partitions: list[list[dict[str, Any]]]) -> dict[Any, list[Any]]:
    """The records of each group in each partition, in order, without their offsets: groups come
    from several tasks, which do not wait for each other."""
    found: dict[Any, list[Any]] = {}
    for partition, rows in enumerate(partitions):
        for row in rows:
            found.setdefault((partition, (row["key"] or b"")[:1]), []).append({**row, "offset": 0})
    return found


@settings(max_examples=10, deadline=None, database=None)
@given(records=records, steps=st.integers(0, 10))
def test_a_table_grouped_anew_counts_its_current_rows(records: list[Record], steps: int) -> None:
    pipeline = Pipeline("grouped table")
    try:
        pipeline.send(records[:10])
        for _ in range(steps):
            pipeline.step()
        pipeline.send(records[10:])
        shown = {}
        for rows in pipeline.finish():
            shown |= {row["key"]: json.loads(row["value"]) for row in rows}
    finally:
        pipeline.stop()
    current = {key: value for key, value, _, _ in records}
    groups: dict[int, list[int]] = {}
    for value in current.values():
        if value is not None and value[0] is not None:
            groups.setdefault(value[0], []).append(value[1])
    found = {int(key): (row["C"], row["TOTAL"]) for key, row in shown.items() if row["C"]}
    assert found == {group: (len(own), sum(own)) for group, own in groups.items()}
