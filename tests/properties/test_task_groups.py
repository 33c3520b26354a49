"""However the tasks of a query are divided into groups, and whenever that changes: the records are
those of a run over all tasks together."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.executor import sink
from millstream.executor.executor import DuckDBExecutor
from millstream.runtime.runtime import Guarantee, RuntimeSettings
from millstream.topology.split import LayoutOf, partition_per_channel
from tests.draws import draws
from tests.properties.pipeline import LAYOUTS, Pipeline, encoded

SOURCES = """
CREATE STREAM s (k INT KEY, g INT, n INT) WITH (KAFKA_TOPIC = 's', FORMAT = 'JSON');
CREATE STREAM r (k INT KEY, g INT, n INT) WITH (KAFKA_TOPIC = 'r', FORMAT = 'JSON');
CREATE TABLE t (k INT PRIMARY KEY, g INT, n INT) WITH (KAFKA_TOPIC = 't', FORMAT = 'JSON');
"""
SINK = "WITH (KAFKA_TOPIC = 'o', FORMAT = 'JSON')"
GROUPED = "SELECT g, COUNT(*) AS c, SUM(n) AS total, LATEST_BY_OFFSET(n) AS last"
QUERIES = {
    "stateless": f"CREATE STREAM o {SINK} AS SELECT k, n / (n - 3) AS q FROM s WHERE n > 1;",
    "moved": f"CREATE STREAM o {SINK} AS SELECT * FROM s PARTITION BY g;",
    "grouped stream": f"CREATE TABLE o {SINK} AS {GROUPED} FROM s GROUP BY g;",
    "grouped by key": f"CREATE TABLE o {SINK} AS SELECT k, COUNT(*) AS c FROM s GROUP BY k;",
    "grouped table": f"CREATE TABLE o {SINK} AS SELECT g, SUM(n) AS n FROM t GROUP BY g;",
    "tumbling": f"""CREATE TABLE o {SINK} AS {GROUPED} FROM s
        WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 10 MILLISECONDS) GROUP BY g;""",
    "final": f"""CREATE TABLE o {SINK} AS {GROUPED} FROM s
        WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS) GROUP BY g
        EMIT FINAL;""",
    "sessions": f"""CREATE TABLE o {SINK} AS {GROUPED} FROM s
        WINDOW SESSION (5 MILLISECONDS, GRACE PERIOD 10 MILLISECONDS) GROUP BY g;""",
    "table joined": f"""CREATE STREAM o {SINK} AS
        SELECT s.k, s.n AS n, t.n AS m FROM s JOIN t ON s.k = t.k;""",
    "moved and joined": f"""CREATE STREAM o {SINK} AS
        SELECT s.g AS k, s.n AS n, t.n AS m FROM s JOIN t ON s.g = t.k;""",
    "streams joined": f"""CREATE STREAM o {SINK} AS SELECT s.k, s.n AS n, r.n AS m FROM s
        LEFT JOIN r WITHIN 8 MILLISECONDS GRACE PERIOD 8 MILLISECONDS ON s.k = r.k;""",
}
UNNUMBERED = {"tumbling", "sessions", "final", "streams joined"} | {
    name for name in QUERIES if "grouped" in name
}
"""Queries whose records have an order for each key only; see `is_divisible`."""
TASKS = 3
records = st.lists(
    st.tuples(
        st.sampled_from(("s", "r", "t")),
        st.integers(0, TASKS - 1),
        st.integers(0, 4),
        st.none() | st.tuples(st.integers(0, 4), st.integers(0, 5)),
        st.integers(0, 60),
    ),
    max_size=40,
)
"""Topic, partition, key, value columns, event time."""


def play(
    name: str,
    sent: list[Any],
    steps: list[int],
    guarantee: Guarantee,
    random: Random | None,
    layout: LayoutOf = partition_per_channel,
    *,
    apart: bool = False,
) -> list[list[dict[str, Any]]]:
    """The records of each partition of the sink."""
    topics = {topic for topic in ("s", "r", "t") if f"{topic}." in QUERIES[name]} or {
        "t" if "table" in name else "s"
    }
    query = Pipeline(
        SOURCES,
        QUERIES[name],
        {**dict.fromkeys(topics, TASKS), "o": 2},
        RuntimeSettings(commit_interval_ms=4, max_batch_records=12),
        guarantee,
        layout=layout,
        random=random,
    )
    query.stop()
    query.apart = apart
    query.start()
    try:
        share = 1 + len(sent) // (len(steps) + 1)
        for number, count in enumerate((*steps, 0)):
            for topic, partition, key, value, time in sent[number * share : (number + 1) * share]:
                columns = None if value is None else {"G": value[0], "N": value[1]}
                if topic in topics:
                    # Tables are keyed: each key is on one partition.
                    at = key % TASKS if topic == "t" or "joined" in name else partition
                    query.send(topic, at, [(json.dumps(key).encode(), encoded(columns), time)])
            for _ in range(count):
                query.step()
        return query.finish()
    finally:
        query.stop()


def compared(name: str, partitions: list[list[dict[str, Any]]]) -> Any:
    """What must be the same: all records in their order, or those of each key in theirs."""
    if name not in UNNUMBERED:
        return partitions
    found: dict[Any, list[Any]] = {}
    for partition, rows in enumerate(partitions):
        for row in rows:
            found.setdefault((partition, row["key"]), []).append({**row, "offset": 0})
    return found


@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=draws(8), database=None)
@given(
    sent=records,
    steps=st.lists(st.integers(0, 6), max_size=6),
    seed=st.integers(0, 1000),
    layout=st.sampled_from(LAYOUTS),
    apart=st.booleans(),
)
def test_the_groups_do_not_matter(
    name: str,
    guarantee: Guarantee,
    sent: list[Any],
    steps: list[int],
    seed: int,
    layout: LayoutOf,
    apart: bool,
) -> None:
    one = play(name, sent, steps, guarantee, None, layout, apart=apart)
    several = play(name, sent, steps, guarantee, Random(seed), layout, apart=apart)
    assert compared(name, several) == compared(name, one)


def test_records_in_the_order_of_their_groups_are_noticed(monkeypatch: Any) -> None:
    """Planted bug: the records of one group before those of the other."""

    def one_by_one(groups: list[sink.Encoded]) -> sink.Encoded:
        found = merged(groups)
        return sink.Encoded(found.records, found.destination, found.seq * 0, found.rows)

    merged = sink.merged
    monkeypatch.setattr(sink, "merged", one_by_one)
    sent = [("s", at % TASKS, at % 5, (0, 5), at) for at in range(40)]
    rows = [play("stateless", sent, [6], Guarantee.AT_LEAST_ONCE, Random(3)) for _ in range(1)]
    assert rows[0] != play("stateless", sent, [6], Guarantee.AT_LEAST_ONCE, None)


def test_the_tasks_are_divided(monkeypatch: Any) -> None:
    """The test above would prove nothing if there were one group only."""
    counts = set()
    run = DuckDBExecutor.run

    def counted(self: DuckDBExecutor, *given: Any, **named: Any) -> Any:
        result = run(self, *given, **named)
        counts.add(len(self._groups.all))
        return result

    monkeypatch.setattr(DuckDBExecutor, "run", counted)
    sent = [("s", at % TASKS, at % 5, (at % 3, 1), at) for at in range(40)]
    for name in ("stateless", "grouped stream", "grouped by key"):
        counts.clear()
        play(name, sent, [2] * 6, Guarantee.EXACTLY_ONCE, Random(1))
        assert counts >= {1, 2}, name
