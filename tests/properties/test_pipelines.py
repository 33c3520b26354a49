"""Queries of two stages under the runtime: however input arrives, and wherever the process stops
and loses its state, the records of each group are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.properties.pipeline import Pipeline, encoded

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


def pipeline(name: str) -> Pipeline:
    source = "t" if "table" in name or name == "having" else "s"
    return Pipeline(SOURCES, QUERIES[name], {source: PARTITIONS, "o": PARTITIONS})


def send(query: Pipeline, records: list[Record]) -> None:
    """All to one partition: only then is there one order of the records."""
    rows, headers = [], []
    for key, value, time, headed in records:
        columns = None if value is None else {"G": value[0], "N": value[1]}
        rows.append((json.dumps(key).encode(), encoded(columns), time))
        mark = f"{key} {time} {value}".encode()
        headers.append([{"key": "h", "value": mark}] if headed else None)
    query.send(query.topology.subtopologies[0].inputs[0].topic, 0, rows, headers)


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
@settings(max_examples=draws(6), database=None)
@given(records=records, actions=actions)
def test_arrival_and_restarts_do_not_matter(
    name: str, records: list[Record], actions: list[Any]
) -> None:
    whole, cut = pipeline(name), pipeline(name)
    try:
        send(whole, records)
        share = 1 + len(records) // (len(actions) + 1)
        sent = 0
        for action in actions:
            piece = records[sent : sent + share]
            sent += len(piece)
            send(cut, piece)
            if action == "restart":
                cut.stop()
                cut.start()
            else:
                for _ in range(action):
                    cut.step()
        send(cut, records[sent:])
        assert values(cut.finish()) == values(whole.finish())
    finally:
        whole.stop()
        cut.stop()


def values(partitions: list[list[dict[str, Any]]]) -> dict[Any, list[Any]]:
    """The records of each group in each partition, in order, without their offsets: groups come
    from several independent tasks."""
    found: dict[Any, list[Any]] = {}
    for partition, rows in enumerate(partitions):
        for row in rows:
            found.setdefault((partition, (row["key"] or b"")[:1]), []).append({**row, "offset": 0})
    return found


@settings(max_examples=draws(10), database=None)
@given(records=records, steps=st.integers(0, 10))
def test_a_table_grouped_anew_counts_its_current_rows(records: list[Record], steps: int) -> None:
    query = pipeline("grouped table")
    try:
        send(query, records[:10])
        for _ in range(steps):
            query.step()
        send(query, records[10:])
        shown = {}
        for rows in query.finish():
            shown |= {row["key"]: json.loads(row["value"]) for row in rows}
    finally:
        query.stop()
    current = {key: value for key, value, _, _ in records}
    groups: dict[int, list[int]] = {}
    for value in current.values():
        if value is not None and value[0] is not None:
            groups.setdefault(value[0], []).append(value[1])
    found = {int(key): (row["C"], row["TOTAL"]) for key, row in shown.items() if row["C"]}
    assert found == {group: (len(own), sum(own)) for group, own in groups.items()}
