"""A few kills of an engine, and of its only broker; `make crash LOG=kafka` runs campaigns."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream
from tests.crash import kafka_backfill_crash, kafka_pipeline_crash
from tests.crash.kafka_crash import campaign
from tests.crash.kafka_input import GROUPS, record, stubborn_producer
from tests.kafka.run import cluster, tool
from tests.patience import until

ROWS = 6_000
PROPERTIES = {"auto.offset.reset": "earliest", "processing.guarantee": "exactly_once_v2"}


@pytest.mark.timeout(600)
def test_killed_engines_lose_and_double_nothing(servers: str, tmp_path: Path) -> None:
    status, report = campaign(servers, 5, seed=5, folder=tmp_path)
    # So few may all fall outside of a commit, which proves less (2) but refutes nothing (1).
    assert status in (0, 2), report


@pytest.mark.timeout(600)
def test_killed_back_fills_leave_no_gap_and_nothing_twice(servers: str, tmp_path: Path) -> None:
    status, report = kafka_backfill_crash.campaign(servers, 3, seed=3, folder=tmp_path)
    assert status in (0, 2), report


@pytest.mark.timeout(600)
def test_killed_pipelines_lose_and_double_nothing(servers: str, tmp_path: Path) -> None:
    status, report = kafka_pipeline_crash.campaign(servers, 4, seed=4, folder=tmp_path)
    assert status in (0, 2), report


@pytest.mark.timeout(600)
def test_a_query_outlives_its_only_broker(servers: str) -> None:
    """On a broker of its own, which is killed twice while the query runs, and restarted."""
    with cluster() as (own, brokers), millstream.connect(kafka=own, properties=PROPERTIES) as db:
        db.execute(
            "CREATE STREAM numbers (k STRING KEY, n INT, g STRING) "
            "WITH (kafka_topic='numbers', partitions=2, value_format='JSON');"
            "CREATE TABLE counts AS SELECT g, COUNT(*) AS c, SUM(n) AS s FROM numbers GROUP BY g;"
        )
        producer = stubborn_producer(own)
        for number in range(ROWS):
            if number in (ROWS // 3, ROWS // 2):
                tool(brokers, "kill", "1")
                tool(brokers, "start-one", "1")
            key, value = record(number)
            producer.produce("numbers", value, key)
            producer.poll(0)
        assert producer.flush(60) == 0
        db.wait()
        groups = [range(first, ROWS, GROUPS) for first in range(GROUPS)]
        expected = [(f"g{first}", len(rows), sum(rows)) for first, rows in enumerate(groups)]

        def answers() -> bool:
            try:
                return sorted(map(tuple, db.execute("SELECT g, c, s FROM counts;"))) == expected
            except millstream.UnavailableError:
                return False

        # An instance that was without brokers for long may have to reopen its tasks.
        until(answers)
        assert [status.state.value for status in db.engine.statuses()] == ["RUNNING"]
