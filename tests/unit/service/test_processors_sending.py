"""`send`, `commit`, headers and task ids of processors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream
from millstream import AsyncProcessor, BatchProcessor, Database, EngineSettings, Processor, Record
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.runtime.spec import QueryState
from tests.draws import draws
from tests.patience import until

SQL = """
CREATE STREAM numbers (id STRING KEY, n INT)
  WITH (kafka_topic='numbers', partitions=2, value_format='JSON');
CREATE STREAM audit (id STRING KEY, line STRING)
  WITH (kafka_topic='audit', partitions=3, value_format='KAFKA');
"""
BASE = 1_700_000_000_000
WRONG = 13


class Auditing(Processor):
    output = "id STRING KEY, n INT, task STRING, trace STRING"

    def init(self, context: millstream.ProcessorContext) -> None:
        self.context = context
        with pytest.raises(RuntimeError, match="not for init"):
            context.send("audit", "k", "v")

    def process(self, record: Record) -> None:
        n = record.value["N"]
        self.context.send("audit", record.key, f"n={n}", headers=[("by", b"me")])
        trace = dict(record.headers).get("trace")
        self.context.forward(
            record.key,
            {"N": n, "TASK": self.context.task_id, "TRACE": trace and trace.decode()},
        )
        if n == WRONG:
            raise ValueError("unlucky")


class AuditingAsync(AsyncProcessor):
    output = "id STRING KEY, n INT"

    async def init(self, context: millstream.AsyncContext) -> None:
        self.context = context

    async def process(self, record: Record) -> None:
        n = record.value["N"]
        for _ in range(5 - n % 5):
            await asyncio.sleep(0)
        self.context.send("audit", record.key, f"n={n}", headers=[("by", b"me")])
        if n == WRONG:
            raise ValueError("unlucky")


def opened(
    supplier: Any = Auditing, *, batch: int = 1_000, path: str = ":memory:", **more: str
) -> Database:
    db = millstream.connect(
        path,
        functions=[millstream.processor(supplier, name="Auditing")],
        settings=EngineSettings(max_batch_records=batch),
        properties={
            "auto.offset.reset": "earliest",
            "processing.exception.handler": "continue",
            **more,
        },
    )
    if not db.engine.catalog.sources:
        db.execute(SQL)
        db.execute("CREATE STREAM out AS SELECT * FROM PROCESS(numbers, 'Auditing');")
    return db


def put(db: Database, numbers: list[tuple[str, int]]) -> None:
    db.execute("PAUSE ALL;")
    db.insert("numbers", [{"id": k, "n": n, "ROWTIME": BASE} for k, n in numbers])
    db.execute("RESUME ALL;")
    db.wait()


def lines(db: Database) -> list[tuple[str, str]]:
    return list(db.execute("SELECT id, line FROM audit"))  # type: ignore[arg-type]


@settings(max_examples=draws(30), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([1, 2, WRONG])), max_size=20),
    st.integers(1, 6),
    st.sampled_from([Auditing, AuditingAsync]),
    st.sampled_from(["at_least_once", "exactly_once_v2"]),
)
def test_what_is_sent_is_there_in_order_but_not_of_records_that_fail(
    numbers: list[tuple[str, int]], batch: int, supplier: Any, guarantee: str
) -> None:
    with opened(supplier, batch=batch, **{"processing.guarantee": guarantee}) as db:
        put(db, numbers)
        found = lines(db)
    for key in "abcd":
        own = [f"n={n}" for k, n in numbers if k == key and n != WRONG]
        assert [line for k, line in found if k == key] == own


def test_keys_partitions_times_and_headers_of_what_is_sent() -> None:
    class Choosing(Processor):
        output = "id STRING KEY, n INT"

        def init(self, context: millstream.ProcessorContext) -> None:
            self.context = context

        def process(self, record: Record) -> None:
            self.context.send("audit", None, b"\x00raw", partition=2)
            self.context.send("audit", b"k", None, headers=[("a", None), ("a", b"2")])

    with opened(Choosing) as db:
        put(db, [("a", 1)])
        found = [db.engine.log.read("audit", p, 0, 9).batch.to_pylist() for p in range(3)]
        db.insert("audit", [("k", "x")])
        again = [db.engine.log.read("audit", p, 0, 9).batch.to_pylist() for p in range(3)]
    (raw,) = (row for row in found[2] if row["key"] is None)
    others = [row for each in found for row in each if row["key"] is not None]
    assert (raw["key"], raw["value"], raw["timestamp"]) == (None, b"\x00raw", BASE)
    ((key, value, headers),) = ((r["key"], r["value"], r["headers"]) for r in others)
    assert (key, value) == (b"k", None)
    assert headers == [{"key": "a", "value": None}, {"key": "a", "value": b"2"}]
    (place,) = (p for p in range(3) if len(again[p]) > len(found[p]))
    assert again[place][-2]["key"] == again[place][-1]["key"] == b"k", "as an INSERT of the key"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing", "k", "v"), "Topic missing does not exist|missing"),
        (("audit", "k", "v", 7), "cannot send to partition 7 of topic audit: it has 3"),
        (("_millstream_commands_default", "k", "v"), "internal to the service"),
        (("audit", 1, "v"), "a key that is sent is bytes or text, not 1"),
        (("audit", "k", {"a": 1}), "a value that is sent is bytes or text"),
    ],
)
def test_what_cannot_be_sent_stops_the_query_and_nothing_is_written(
    arguments: Any, message: str
) -> None:
    class Wrong(Processor):
        output = "id STRING KEY, n INT"

        def init(self, context: millstream.ProcessorContext) -> None:
            self.context = context

        def process(self, record: Record) -> None:
            topic, key, value, *partition = arguments
            self.context.send(topic, key, value, partition=partition[0] if partition else None)
            self.context.forward(record.key, {})

    with opened(Wrong, **{"processing.exception.handler": "fail"}) as db:
        put(db, [("a", 1)])
        (status,) = db.engine.statuses()
        assert status.state is QueryState.ERROR
        assert status.error is not None
        assert any(part in str(status.error) for part in message.split("|"))
        assert list(db.execute("SELECT * FROM out")) == []  # type: ignore[arg-type]


def test_a_back_fill_cannot_send() -> None:
    with opened() as db:
        put(db, [("a", 1)])
        with pytest.raises(millstream.StatementError, match="back-fill cannot send"):
            db.execute(
                "CREATE STREAM again WITH (backfill='duckdb') AS"
                " SELECT * FROM PROCESS(numbers, 'Auditing');"
            )


def test_headers_and_the_task_are_told() -> None:
    with opened() as db:
        batch = raw_batch(
            [(b"a", b'{"N":1}', BASE), (b"b", b'{"N":2}', BASE)],
            [[{"key": "trace", "value": b"77"}], None],
        )
        db.engine.log.send([Appended("numbers", 1, batch, 2, batch.nbytes)])
        db.wait()
        found = sorted(db.execute("SELECT n, task, trace FROM out"))  # type: ignore[arg-type]
        out = db.engine.log
        passed = [
            row["headers"] for p in range(2) for row in out.read("OUT", p, 0, 9).batch.to_pylist()
        ]
    assert found == [(1, "0_1", "77"), (2, "0_1", None)]
    assert [{"key": "trace", "value": b"77"}] in passed, "forwarded rows keep the headers"


class Committing(Processor):
    output = "id STRING KEY, n INT"

    def init(self, context: millstream.ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        self.context.forward(record.key, {"N": record.value["N"]})
        if record.value["N"] == 7:
            self.context.commit()


class CommittingBatch(BatchProcessor):
    output = "id STRING KEY, n INT"

    def init(self, context: millstream.BatchContext) -> None:
        self.context = context
        assert context.task_id in ("0_0", "0_1")

    def process(self, batch: pa.RecordBatch) -> None:
        self.context.forward({"ID": batch["ID"], "N": batch["N"]})
        if 7 in batch["N"].to_pylist():
            self.context.commit()


@pytest.mark.parametrize("supplier", [Committing, CommittingBatch])
def test_a_commit_comes_when_a_processor_asks_for_it(supplier: Any, tmp_path: Path) -> None:
    hour = {"commit.interval.ms": "3600000", "processing.guarantee": "exactly_once_v2"}
    with opened(supplier, path=str(tmp_path / "c.db"), **hour) as db:
        db.insert("numbers", [{"id": "a", "n": n} for n in (1, 2, 7)])
        # Nothing else commits: `db.wait()` would.
        until(lambda: len(list(db.execute("SELECT * FROM out"))) == 3)  # type: ignore[arg-type]
