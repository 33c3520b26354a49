"""Rows that are handed over in memory come out as if all of them went through the log, wherever
the process stops and whatever is not processed at a commit."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from millstream.executor import task_group
from millstream.runtime.runtime import Guarantee, RuntimeSettings
from millstream.topology.split import LayoutOf, labelled, mixed, partition_per_channel
from tests.draws import draws
from tests.properties.pipeline import Pipeline

SETTINGS = [RuntimeSettings(commit_interval_ms=2, max_batch_records=size) for size in (4, 12)]
SOURCES = """
CREATE STREAM s (k INT KEY, g INT, n INT) WITH (KAFKA_TOPIC = 's', FORMAT = 'JSON');
CREATE STREAM r (k INT KEY, g INT, n INT) WITH (KAFKA_TOPIC = 'r', FORMAT = 'JSON');
CREATE TABLE t (k INT PRIMARY KEY, g INT, n INT) WITH (KAFKA_TOPIC = 't', FORMAT = 'JSON');
"""
SINK = "WITH (KAFKA_TOPIC = 'o', FORMAT = 'JSON')"
QUERIES = {
    "both sides moved": f"""CREATE STREAM o {SINK} AS SELECT s.g AS g, s.n AS a, r.n AS b
        FROM s JOIN r WITHIN 5 MILLISECONDS GRACE PERIOD 50 MILLISECONDS ON s.g = r.g;""",
    "one side moved": f"""CREATE STREAM o {SINK} AS SELECT s.g AS g, s.n AS a, t.n AS b
        FROM s LEFT JOIN t ON s.g = t.k;""",
    "moved twice": f"""CREATE TABLE o {SINK} AS SELECT r.n AS n, COUNT(*) AS c, SUM(s.n) AS a
        FROM s JOIN r WITHIN 5 MILLISECONDS GRACE PERIOD 50 MILLISECONDS ON s.g = r.g
        GROUP BY r.n;""",
    "table moved": f"""CREATE TABLE o {SINK} AS SELECT g, COUNT(*) AS c, SUM(n) AS a
        FROM t GROUP BY g;""",
}
LAYOUTS: dict[str, LayoutOf] = {
    "one partition": mixed,
    "labels": labelled,
    "channels": partition_per_channel,
}
Row = tuple[Any, Any, int]
"""Key, value and event time."""
TOPICS = ("s", "r", "t")
WIDTHS = dict.fromkeys((*TOPICS, "o"), 3)


def fill(query: Pipeline, rnd: Random) -> None:
    """Records with times that mostly rise, the table's by key and the streams' anywhere."""
    for topic in TOPICS:
        rows: list[list[Any]] = [[] for _ in range(WIDTHS[topic])]
        for number in range(30):
            key = rnd.randrange(6)
            value = {"G": rnd.randrange(4), "N": number}
            row = (json.dumps(key).encode(), json.dumps(value).encode(), number + rnd.randrange(3))
            place = key if topic == "t" else rnd.randrange(8)
            rows[place % WIDTHS[topic]].append(row)
        for partition, own in enumerate(rows):
            query.send(topic, partition, own)


def output(
    name: str, layout: LayoutOf, seed: int, guarantee: Guarantee, *, handed: bool
) -> list[list[Row]]:
    """The records of each output partition."""
    rnd = Random(seed)
    query = Pipeline(
        SOURCES,
        QUERIES[name],
        WIDTHS,
        SETTINGS[seed % 2],
        guarantee,
        layout,
        Random(seed),
        handed=handed,
        markers=seed % 2 == 0,
    )
    try:
        fill(query, rnd)
        for _ in range(rnd.randrange(4) if handed else 0):
            for _ in range(rnd.randrange(40)):
                query.step()
            query.stop()
            query.start()
        found = query.finish()
        query.stop()
    except BaseException:
        query.stop()
        raise
    return [[(row["key"], row["value"], row["timestamp"]) for row in rows] for rows in found]


def state(rows: list[Row]) -> dict[Any, Any]:
    """The last value of each key: tasks are independent, so the changes before it may differ."""
    return {key: value for key, value, _ in rows}


@pytest.mark.parametrize("seed", range(draws(2)))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", QUERIES)
def test_rows_are_those_that_go_through_the_log(name: str, layout: str, seed: int) -> None:
    exactly = Guarantee.EXACTLY_ONCE
    handed = output(name, LAYOUTS[layout], seed, exactly, handed=True)
    logged = output(name, LAYOUTS[layout], seed, exactly, handed=False)
    if "TABLE o" in QUERIES[name]:
        assert [state(rows) for rows in handed] == [state(rows) for rows in logged]
    else:
        assert [sorted(rows) for rows in handed] == [sorted(rows) for rows in logged]


@pytest.mark.parametrize("seed", range(draws(2)))
@pytest.mark.parametrize("name", QUERIES)
def test_at_least_once_no_row_is_missing(name: str, seed: int) -> None:
    handed = output(name, mixed, seed, Guarantee.AT_LEAST_ONCE, handed=True)
    logged = output(name, mixed, seed, Guarantee.EXACTLY_ONCE, handed=False)
    if "TABLE o" in QUERIES[name]:
        assert [state(rows) for rows in handed] == [state(rows) for rows in logged]
    else:
        assert [set(rows) for rows in handed] == [set(rows) for rows in logged]


def test_records_that_are_processed_in_part_are_written_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the tests above would not show that it is right."""
    cut: list[int] = []
    rest_of = task_group.rest_of

    def noted(record: Any, done: int) -> Any:
        cut.append(done)
        return rest_of(record, done)

    monkeypatch.setattr(task_group, "rest_of", noted)
    for layout in LAYOUTS.values():
        output("both sides moved", layout, 1, Guarantee.EXACTLY_ONCE, handed=True)
    assert len(cut) > 5
