"""Functions of a topology's sources and sinks: event times and partitions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import (
    Database,
    EngineSettings,
    Processor,
    ProcessorContext,
    Record,
    StatementError,
    Topology,
)
from millstream.runtime.spec import QueryState
from tests.unit.applications.test_applications import Rated

DAY = dt.datetime(2026, 5, 1)


def seen(record: Record) -> dt.datetime:
    """The time that a reading says itself."""
    return DAY + dt.timedelta(seconds=record.value["AT_S"])


class Minutes(Processor):
    """Each reading, and at each full minute of stream time how many there have been."""

    output = "device STRING KEY, what STRING, n BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.count = context.store("count", millstream.KeyValueStore("BOOLEAN", "BIGINT"))
        context.schedule(dt.timedelta(minutes=1), millstream.STREAM_TIME, self.minute)

    def process(self, record: Record) -> None:
        self.count.put(True, self.count.get(True, 0) + 1)
        self.context.forward(record.key, {"WHAT": "reading", "N": record.value["AT_S"]})

    def minute(self, time: dt.datetime) -> None:
        self.context.forward(None, {"WHAT": "minute", "N": self.count.get(True)})


class Plain(Processor):
    """Each record as it is."""

    output = "device STRING KEY, n BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        self.context.forward(record.key, {"N": record.value["AT_S"]})


def reading(
    supplier: Callable[[], Any] = Minutes,
    timestamp: Any = seen,
    partitioner: Any = None,
    partitions: int = 1,
) -> Topology:
    return (
        Topology()
        .add_source("readings", "readings", timestamp=timestamp)
        .add_processor("minutes", supplier, "readings")
        .add_sink("found", "found", "minutes", partitions=partitions, partitioner=partitioner)
    )


def opened(
    topology: Topology | None = None,
    path: str = ":memory:",
    batch: int = 1_000,
    **properties: str,
) -> Database:
    db = millstream.connect(
        path,
        functions=() if topology is None else topology.processors("app"),
        settings=EngineSettings(max_batch_records=batch),
        properties={"auto.offset.reset": "earliest", **properties},
    )
    db.execute(
        "CREATE STREAM IF NOT EXISTS readings (device STRING KEY, at_s INT)"
        " WITH (KAFKA_TOPIC='readings', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    return db


def insert(db: Database, *seconds: int | None) -> None:
    db.insert("readings", [("d", at) for at in seconds])
    db.wait()


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return list(db.execute(sql))  # type: ignore[arg-type]


@pytest.mark.parametrize("batch", [1, 2, 1_000])
def test_stream_time_and_rows_have_the_times_of_the_function(tmp_path: Path, batch: int) -> None:
    topology, path = reading(), str(tmp_path / "m.db")
    with opened(topology, path, batch) as db:
        db.deploy(topology, "app")
        insert(db, 0, 30, 70)
    with opened(topology, path, batch) as db:
        insert(db, 40, 130)
        found = rows(db, "SELECT what, n, rowtime FROM found")
    base = int(DAY.replace(tzinfo=dt.UTC).timestamp())
    assert [(what, n, int(at / 1000 - base)) for what, n, at in found] == [
        ("reading", 0, 0),
        ("reading", 30, 30),
        ("reading", 70, 70),
        ("minute", 3, 70),
        ("reading", 40, 40),
        ("reading", 130, 130),
        ("minute", 5, 130),
    ]


WRONG = {
    "an exception": (lambda record: DAY / 0, "TypeError"),
    "no time": (lambda record: None, "returned None, which is no datetime"),
    "a number": (lambda record: 5, "returned 5, which is no datetime"),
    "long ago": (lambda record: dt.datetime(1969, 1, 1), "before 1970"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_time_ends_the_query_with_the_reason(case: str) -> None:
    function, reason = WRONG[case]
    with opened() as db:
        db.deploy(reading(timestamp=function), "app")
        insert(db, 1)
        (status,) = db.engine.statuses()
        assert status.state is QueryState.ERROR
        assert "APP.timestamp" in str(status.error)
        assert reason in str(status.error)


@pytest.mark.parametrize("batch", [1, 1_000])
def test_records_without_a_time_are_skipped_where_that_is_the_policy(batch: int) -> None:
    with opened(batch=batch, **{"processing.exception.handler": "continue"}) as db:
        db.deploy(reading(Plain), "app")
        insert(db, 1, None, 3)
        assert rows(db, "SELECT n FROM found") == [(1,), (3,)]
        (problem,) = db.processing_log().to_pylist()
        assert problem["offset"] == 1
        assert "timestamp skipped the record" in problem["message"]


def test_sources_of_one_stream_agree_on_its_times() -> None:
    topology = (
        Topology()
        .add_source("a", "readings", timestamp=seen)
        .add_source("b", "readings")
        .add_processor("p", Plain, "a", "b")
        .add_sink("found", "found", "p")
    )
    with opened() as db, pytest.raises(StatementError, match="a record has one"):
        db.deploy(topology, "app")


def evens(key: Any, value: Any) -> int | None:
    assert key == "d"
    value["N"], number = -1, value["N"]  # It is a copy.
    return None if number % 2 else number


@pytest.mark.parametrize("batch", [1, 1_000])
def test_a_function_chooses_partitions(batch: int) -> None:
    with opened(batch=batch) as db:
        application = db.deploy(reading(Plain, partitioner=evens, partitions=4), "app")
        db.execute("CREATE STREAM places AS SELECT *, ROWPARTITION AS p FROM found;")
        insert(db, *range(12))
        found = sorted(rows(db, "SELECT n, partition, p FROM places"))
        assert [row.value["N"] for row in application.peek("found", 3)] == [9, 10, 11]
    assert [(n, to) for n, to, _ in found] == [(n, None if n % 2 else n) for n in range(12)]
    assert all(p == n % 4 for n, to, p in found if to is not None)


def test_a_column_chooses_partitions_of_one_sink_among_several() -> None:
    topology = reading(Plain, partitioner="n", partitions=3)
    topology.add_sink("other", "other", "minutes", partitioner=evens, partitions=3)
    with opened(topology) as db:
        db.deploy(topology, "app")
        db.execute("CREATE STREAM places AS SELECT *, ROWPARTITION AS p FROM found;")
        db.execute("CREATE STREAM others AS SELECT *, ROWPARTITION AS p FROM other;")
        insert(db, *range(12))
        assert {(n, p) for n, p in rows(db, "SELECT n, p FROM places")} == {
            (n, n % 3) for n in range(12)
        }
        other = rows(db, "SELECT n, p FROM others")
        assert {(n, p) for n, p in other if n % 2 == 0} == {(n, n % 3) for n in range(0, 12, 2)}


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda key, value: "one", "'one' is a str: INTEGER takes a int"),
        (lambda key, value: 1 << 40, "too large for INTEGER"),
        (lambda key, value: value["nothing"], "KeyError"),
    ],
)
def test_a_wrong_partition_names_the_sink(function: Any, reason: str) -> None:
    with opened() as db:
        db.deploy(reading(Plain, partitioner=function), "app")
        insert(db, 1)
        (status,) = db.engine.statuses()
        assert status.state is QueryState.ERROR
        assert reason in str(status.error)
        assert "partitioner of sink found" in str(status.error)


def test_what_has_no_place_for_functions_refuses_them() -> None:
    with opened() as db:
        with pytest.raises(StatementError, match="source readings has a function as timestamp"):
            db.deploy(reading(Rated), "app")
        with pytest.raises(StatementError, match="sink found has a function as partitioner"):
            db.deploy(reading(Rated, timestamp=None, partitioner=evens), "app")
        with pytest.raises(StatementError, match="is not a key or value column of FOUND"):
            db.deploy(reading(Plain, partitioner="nothing"), "app")

        class Partitioned(Plain):
            output = "device STRING KEY, n BIGINT, partition INT"

        with pytest.raises(StatementError, match="has the column PARTITION"):
            db.deploy(reading(Partitioned, partitioner=evens), "app")
        assert not db.engine.statuses()
