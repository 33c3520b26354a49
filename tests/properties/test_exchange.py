"""Rows that move come out the same whichever instance has which task, however many tasks there
are, and however their records are laid out on the log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from millstream.formats.partition import partition_of
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.runtime.runtime import Guarantee, RuntimeSettings
from millstream.topology.split import LayoutOf, labelled, partition_per_channel
from tests.draws import draws
from tests.sharing import Sharing

SETTINGS = RuntimeSettings(commit_interval_ms=5, max_batch_records=200, lag_interval_ms=20)
W7 = """CREATE STREAM o WITH (KAFKA_TOPIC = 'o') AS SELECT p.id AS id, name, a.id AS auction
    FROM person p JOIN offer a WITHIN 10 SECONDS GRACE PERIOD 10 SECONDS ON p.id = a.seller;"""
PEOPLE = """
CREATE STREAM person (id INT KEY, name STRING) WITH (KAFKA_TOPIC = 'person', FORMAT = 'JSON');
CREATE STREAM offer (id INT KEY, seller INT) WITH (KAFKA_TOPIC = 'offer', FORMAT = 'JSON');
"""
SESSIONS = """CREATE TABLE o WITH (KAFKA_TOPIC = 'o') AS SELECT seller, COUNT(*) AS c, MAX(id) AS m
    FROM offer WINDOW SESSION (2 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY seller;"""
KEYED = """CREATE TABLE o WITH (KAFKA_TOPIC = 'o') AS SELECT seller, COUNT(*) AS c,
    LATEST_BY_OFFSET(id) AS m FROM offer GROUP BY seller;"""


def records(rows: list[tuple[int, Mapping[str, Any], int]]) -> pa.Table:
    return raw_batch(
        [(json.dumps(k).encode(), json.dumps(dict(v)).encode(), time) for k, v, time in rows]
    )


def fill(sharing: Sharing, sellers: int) -> None:
    """A seller and one offer of theirs each second, all of it before the instances begin: the
    sellers by key, the offers anywhere."""
    rnd = Random(sellers)
    tasks = sharing.partitions["offer"]
    keys = pa.array([json.dumps(n).encode() for n in range(sellers)], pa.binary())
    homes = partition_of(keys, tasks)
    topics = {topic: [[] for _ in range(tasks)] for topic in ("person", "offer")}  # type: Any
    for n in range(sellers):
        topics["person"][homes[n]].append((n, {"NAME": f"n{n}"}, 1000 * n))
        offer = (n, {"SELLER": n if n % 3 else n // 9}, 1000 * n + rnd.randrange(900))
        topics["offer"][rnd.randrange(tasks)].append(offer)
    writer = sharing.log.writer("producer")
    for topic, partitions in topics.items():
        for number, rows in enumerate(partitions):
            if topic in sharing.partitions and rows:
                writer.append([Appended(topic, number, records(rows), len(rows))])


def result(
    sql: str,
    layout: LayoutOf,
    instances: int,
    *,
    tasks: int,
    sellers: int,
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE,
    held_bytes: int = 1 << 20,
    seed: int = 0,
) -> list[tuple[Any, Any, int]]:
    """The last row of each key, or all rows of a stream, when instances catch up at very different
    paces."""
    settings = RuntimeSettings(
        commit_interval_ms=5,
        max_batch_records=200,
        lag_interval_ms=20,
        max_held_bytes=held_bytes,
    )
    widths = {"person": tasks, "offer": tasks, "o": tasks}
    sharing = Sharing(PEOPLE, sql, widths, instances, settings, guarantee, layout)
    fill(sharing, sellers)
    sharing.finish(Random(seed), [1, 25, 3, 8][:instances])
    assert sharing.problems == 0, "rows came late"
    found = [(row["key"], row["value"], row["timestamp"]) for row in sharing.output()]
    sharing.close()
    if sql is W7:
        return sorted(found)
    return sorted({key: (key, value, time) for key, value, time in found}.values())


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_w7_loses_no_row_with_64_tasks_over_4_instances(guarantee: Guarantee) -> None:
    sellers = 400
    found = result(W7, labelled, 4, tasks=64, sellers=sellers, guarantee=guarantee)
    near = {n for n in range(sellers) if n % 3 or abs(n - n // 9) <= 10}
    wanted = sorted(json.dumps(n) for n in near)
    assert sorted({json.loads(value)["AUCTION"] for _, value, _ in found}) == sorted(near)
    assert len(found) == len(wanted)


@pytest.mark.parametrize("held_bytes", [1, 1 << 20])
@pytest.mark.parametrize("seed", range(draws(2)))
@pytest.mark.parametrize("sql", [W7, SESSIONS, KEYED])
def test_the_rows_are_those_of_one_instance_and_of_a_partition_for_each_channel(
    sql: str, held_bytes: int, seed: int
) -> None:
    alone = result(sql, labelled, 1, tasks=4, sellers=60)
    for layout in (labelled, partition_per_channel):
        shared = result(sql, layout, 3, tasks=4, sellers=60, held_bytes=held_bytes, seed=seed)
        assert shared == alone
