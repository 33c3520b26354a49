"""`processing.exception.handler` = 'continue': what a failing call has done is undone."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream
from millstream import Database, EngineSettings, KeyValueStore, Processor, Record
from millstream.runtime.spec import QueryState
from tests.draws import draws

SQL = """
CREATE STREAM numbers (id STRING KEY, n INT)
  WITH (kafka_topic='numbers', partitions=1, value_format='JSON');
CREATE STREAM out AS SELECT * FROM PROCESS(numbers, 'Summing');
"""
BASE = 1_700_000_000_000
WRONG = 13


class Summing(Processor):
    """Running sums. It fails late: when it has changed stores and forwarded rows already."""

    output = "id STRING KEY, total INT, calls INT"

    def init(self, context: millstream.ProcessorContext) -> None:
        self.context = context
        self.sums = context.store("sums", KeyValueStore("STRING", "INT"))
        self.calls = context.store("calls", KeyValueStore("STRING", "INT"))
        context.schedule(dt.timedelta(milliseconds=3), millstream.STREAM_TIME, self.look)

    def process(self, record: Record) -> None:
        n = record.value["N"]
        total = self.sums.get(record.key, 0) + n
        self.sums.put(record.key, total)
        self.sums.put("last " + record.key, n)
        if n % 2:
            self.sums.delete("last " + record.key)
        self.context.forward(record.key, {"TOTAL": total})
        if n == WRONG:
            raise ValueError(f"unlucky {n}")

    def look(self, time: dt.datetime) -> None:
        for key, total in self.sums.range():
            self.context.forward(key, {"TOTAL": total, "CALLS": 1})
            self.calls.put(key, self.calls.get(key, 0) + 1)
        if (total := self.sums.get("a")) is not None and total % 5 == 0:
            raise LookupError("five")


def opened(batch: int = 1_000, handler: str = "continue") -> Database:
    db = millstream.connect(
        functions=[millstream.processor(Summing)],
        settings=EngineSettings(max_batch_records=batch),
        properties={"auto.offset.reset": "earliest", "processing.exception.handler": handler},
    )
    db.execute(SQL)
    return db


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return list(db.execute(sql))  # type: ignore[arg-type]


def expected(numbers: list[tuple[str, int]]) -> list[tuple[Any, ...]]:
    """What a plain loop with copies of its state makes."""
    sums: dict[str, int] = {}
    found: list[tuple[Any, ...]] = []
    due = 3
    for at, (key, n) in enumerate(numbers):
        if n != WRONG:
            sums[key] = sums.get(key, 0) + n
            sums["last " + key] = n
            if n % 2:
                del sums["last " + key]
            found.append((key, sums[key], None))
        if at >= due:
            due = at + 3
            if sums.get("a") is None or sums["a"] % 5:
                found += [(each, sums[each], 1) for each in sorted(sums)]
    return found


NUMBERS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2, 5, WRONG])), min_size=1, max_size=20
)


@settings(max_examples=draws(25), deadline=None)
@given(NUMBERS, st.integers(1, 5))
def test_a_record_that_fails_leaves_nothing_whatever_the_batches(
    numbers: list[tuple[str, int]], batch: int
) -> None:
    with opened(batch) as db:
        db.execute("PAUSE ALL;")
        db.insert(
            "numbers",
            [{"id": k, "n": n, "ROWTIME": BASE + at} for at, (k, n) in enumerate(numbers)],
        )
        db.execute("RESUME ALL;")
        db.wait()
        found = rows(db, "SELECT * FROM out")
        problems = db.processing_log().to_pylist()
    assert found == expected(numbers)
    unlucky = [p for p in problems if "ValueError: unlucky 13" in p["message"]]
    assert len(unlucky) == sum(n == WRONG for _, n in numbers)
    assert [numbers[p["offset"]][1] for p in unlucky] == [WRONG] * len(unlucky)


def test_the_processing_log_has_the_record_and_the_traceback() -> None:
    with opened() as db:
        db.insert("numbers", [{"id": "b", "n": WRONG, "ROWTIME": BASE}])
        db.wait()
        (problem,) = db.processing_log().to_pylist()
    assert problem["topic"] == "numbers"
    assert problem["offset"] == 0
    assert "Processor SUMMING.process skipped the record" in problem["message"]
    assert "raise ValueError" in problem["message"]


def test_without_it_the_query_stops() -> None:
    with opened(handler="fail") as db:
        db.insert("numbers", [{"id": "b", "n": 1}, {"id": "b", "n": WRONG}, {"id": "b", "n": 2}])
        db.wait()
        (status,) = db.engine.statuses()
    assert status.state is QueryState.ERROR
    assert "ValueError: unlucky 13" in str(status.error)


class Whole(millstream.BatchProcessor):
    output = "id STRING KEY, n INT"

    def init(self, context: millstream.BatchContext) -> None:
        self.context = context

    def process(self, batch: pa.RecordBatch) -> None:
        self.context.forward({"ID": batch["ID"], "N": batch["N"]})
        if WRONG in batch["N"].to_pylist():
            raise ValueError("unlucky")


def test_a_batch_is_skipped_as_a_whole() -> None:
    with millstream.connect(
        functions=[millstream.processor(Whole)],
        settings=EngineSettings(max_batch_records=2),
        properties={
            "auto.offset.reset": "earliest",
            "processing.exception.handler": "continue",
        },
    ) as db:
        db.execute(SQL.replace("Summing", "Whole"))
        db.execute("PAUSE ALL;")
        db.insert("numbers", [{"id": "b", "n": n} for n in (1, 2, WRONG, 3, 4)])
        db.execute("RESUME ALL;")
        db.wait()
        assert [n for _, n in rows(db, "SELECT * FROM out")] == [1, 2, 4]
        (problem,) = db.processing_log().to_pylist()
    assert "skipped 2 records from this one on" in problem["message"]
    assert problem["offset"] == 2


@pytest.mark.parametrize("handler", ["fail", "continue"])
def test_expressions_that_fail_behind_a_processor_are_reported(handler: str) -> None:
    with opened(handler=handler) as db:
        db.execute(
            "CREATE STREAM parts AS SELECT id, 10 / total AS part FROM PROCESS(numbers, 'Summing');"
        )
        db.insert("numbers", [{"id": "b", "n": n} for n in (1, -1, 2)])
        db.wait()
        assert [part for _, part in rows(db, "SELECT * FROM parts")] == [10, None, 5]
        (problem,) = db.processing_log().to_pylist()
    assert problem["offset"] == 1
    assert "PART" in problem["message"]


def test_another_handler_is_refused() -> None:
    with opened() as db, pytest.raises(millstream.StatementError, match=r"fail.*continue"):
        db.execute("SET 'processing.exception.handler' = 'ignore';")
