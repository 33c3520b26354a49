"""`errors.dead.letter.queue.topic.name`: the records that a query skips, as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millstream
from millstream import BatchProcessor, Database, Processor, Record
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.problem import Problem
from millstream.queries.dead_letters import DeadLetters

SQL = """
CREATE STREAM numbers (id STRING KEY, n INT)
  WITH (kafka_topic='numbers', partitions=2, value_format='JSON');
"""
OUT = "CREATE STREAM out AS SELECT * FROM PROCESS(numbers, 'Picky');"
BASE = 1_700_000_000_000
Letter = tuple[str | None, str | None, dict[str, str]]


class Picky(Processor):
    output = "id STRING KEY, n INT"

    def init(self, context: millstream.ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        if record.value["N"] % 3 == 0:
            raise ValueError(f"no {record.value['N']}")
        self.context.forward(record.key, {"N": record.value["N"]})


class PickyBatch(BatchProcessor):
    output = "id STRING KEY, n INT"

    def init(self, context: millstream.BatchContext) -> None:
        self.context = context

    def process(self, batch: pa.RecordBatch) -> None:
        if 3 in batch["N"].to_pylist():
            raise ValueError("no 3")
        self.context.forward({"ID": batch["ID"], "N": batch["N"]})


def opened(path: str = ":memory:", **more: str) -> Database:
    db = millstream.connect(
        path,
        functions=[
            millstream.processor(Picky),
            millstream.processor(PickyBatch),
        ],
        properties={
            "auto.offset.reset": "earliest",
            "processing.exception.handler": "continue",
            "errors.dead.letter.queue.topic.name": "dead",
            **more,
        },
    )
    if not db.engine.catalog.sources:
        db.execute(SQL)
    return db


def letters(db: Database, topic: str = "dead") -> list[Letter]:
    """Key, value and the headers of errors of each record, in the order of partitions."""
    log, found = db.engine.log, list[Letter]()
    known = log.topic(topic)
    for partition in range(known.partitions if known else 0):
        batch = log.read(topic, partition, 0, 10_000).batch
        for row in batch.to_pylist():
            told = {h["key"]: h["value"].decode() for h in row["headers"]}
            texts = [None if row[k] is None else row[k].decode() for k in ("key", "value")]
            found.append((*texts, told))
    return found


def put(db: Database, partition: int, *records: tuple[bytes | None, bytes | None]) -> None:
    batch = raw_batch([(key, value, BASE + at) for at, (key, value) in enumerate(records)])
    db.engine.log.send([Appended("numbers", partition, batch, batch.num_rows, batch.nbytes)])


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_what_a_processor_fails_for_is_there_as_it_was(guarantee: str) -> None:
    with opened(**{"processing.guarantee": guarantee}) as db:
        db.execute(OUT)
        put(db, 1, (b"a", b'{"N":1}'), (b"b", b'{"N": 3 }'), (b"c", b'{"n":6,"x":[1]}'))
        put(db, 0, (b"d", b'{"N":2}'))
        db.wait()
        made = sorted(db.execute("SELECT id, n FROM out"))  # type: ignore[arg-type]
        found = letters(db)
        there = db.engine.log.topic("dead")
    assert made == [("a", 1), ("d", 2)]
    assert [(key, value) for key, value, _ in found] == [
        ("b", '{"N": 3 }'),
        ("c", '{"n":6,"x":[1]}'),
    ]
    first = found[0][2]
    assert first["__streams.errors.exception"] == "PROCESSOR"
    assert "ValueError: no 3" in first["__streams.errors.message"]
    assert {
        name: first[f"__streams.errors.{name}"] for name in ("topic", "partition", "offset")
    } == {
        "topic": "numbers",
        "partition": "1",
        "offset": "1",
    }
    assert there is not None and there.partitions == 2


def test_what_cannot_be_decoded_is_there_with_its_headers() -> None:
    headers: Any = [[{"key": "trace", "value": b"7"}], None]
    with opened() as db:
        db.execute("CREATE STREAM copy AS SELECT * FROM numbers;")
        batch = raw_batch([(b"a", b"{nonsense", BASE), (b"b", b'{"N":5}', BASE)], headers)
        db.engine.log.send([Appended("numbers", 0, batch, 2, batch.nbytes)])
        db.wait()
        ((key, value, told),) = letters(db)
    assert (key, value) == ("a", "{nonsense")
    assert told["trace"] == "7" and told["__streams.errors.exception"] == "DESERIALIZATION"


def test_all_records_of_a_batch_that_is_skipped_are_there() -> None:
    with opened() as db:
        db.execute("CREATE STREAM out AS SELECT * FROM PROCESS(numbers, 'PickyBatch');")
        db.execute("PAUSE ALL;")
        put(db, 0, *((b"k", f'{{"N":{n}}}'.encode()) for n in (1, 2, 3, 4)), (b"k", b"{"))
        db.execute("RESUME ALL;")
        db.wait()
        found = letters(db)
        (problem,) = (p for p in db.processing_log().to_pylist() if "no 3" in p["message"])
    assert [value for _, value, _ in found] == ['{"N":1}', '{"N":2}', '{"N":3}', '{"N":4}', "{"]
    assert [told["__streams.errors.offset"] for _, _, told in found] == list("01234")
    assert problem["count"] == 4


def test_an_expression_that_fails_makes_no_letter() -> None:
    with opened() as db:
        db.execute(
            "CREATE STREAM moved AS SELECT CAST(n AS STRING) AS k, n FROM numbers"
            " WHERE 1 / (n - 2) IS NOT NULL PARTITION BY CAST(n AS STRING);"
        )
        put(db, 0, (b"a", b'{"N":2}'), (b"b", b'{"N":5}'))
        db.wait()
        assert letters(db) == [], "an expression that fails loses no record of the log"


def test_nothing_is_written_for_a_query_that_stops() -> None:
    with opened(**{"processing.exception.handler": "fail"}) as db:
        db.execute(OUT)
        put(db, 0, (b"a", b'{"N":3}'))
        db.wait()
        (status,) = db.engine.statuses()
        assert "no 3" in str(status.error)
        assert letters(db) == []


def test_a_query_cannot_write_letters_to_what_it_reads_or_writes() -> None:
    for topic, sql in (
        ("numbers", OUT),
        ("OUT", OUT),
        ("numbers", "INSERT INTO numbers SELECT * FROM PROCESS(numbers, 'Picky');"),
    ):
        with opened(**{"errors.dead.letter.queue.topic.name": topic}) as db:
            with pytest.raises(millstream.StatementError, match="cannot be the dead letter topic"):
                db.execute(sql)
            assert not db.engine.catalog.queries


def test_a_back_fill_writes_them_too() -> None:
    with opened() as db:
        put(db, 1, (b"a", b'{"N":1}'), (b"b", b'{"N":3}'))
        db.execute(
            "CREATE STREAM out WITH (backfill='duckdb') AS SELECT * FROM PROCESS(numbers, 'Picky');"
        )
        put(db, 1, (b"c", b'{"N":9}'))
        db.wait()
        assert sorted(value or "" for _, value, _ in letters(db)) == ['{"N":3}', '{"N":9}']


def test_a_flood_of_bad_records_over_many_runs_is_there_once_each(tmp_path: Path) -> None:
    count = 25_000
    with opened(str(tmp_path / "d.mill"), **{"processing.guarantee": "exactly_once_v2"}) as db:
        db.execute("CREATE STREAM copy AS SELECT * FROM numbers;")
        put(db, 0, *((str(n).encode(), b"{" if n % 2 else b'{"N":1}') for n in range(count)))
        db.wait()
        log = db.engine.log
        offsets: list[str] = []
        at, end = 0, log.end_offset("dead", 0)
        while at < end:
            fetched = log.read("dead", 0, at, 10_000)
            for row in fetched.batch["headers"].to_pylist():
                offsets += (h["value"].decode() for h in row if h["key"].endswith(".offset"))
            at = fetched.next_offset
    assert offsets == [str(n) for n in range(1, count, 2)]


def test_the_topic_is_a_stream_that_can_be_read(tmp_path: Path) -> None:
    with opened() as db:
        db.execute(OUT)
        db.execute(
            "CREATE STREAM dead (id STRING KEY, line STRING, why BYTES"
            " HEADER('__streams.errors.message')) WITH (kafka_topic='dead', value_format='KAFKA');"
        )
        put(db, 0, (b"a", b'{"N":3}'))
        db.wait()
        ((key, line, why),) = db.execute("SELECT id, line, why FROM dead")  # type: ignore[misc]
    assert (key, line) == ("a", '{"N":3}') and b"no 3" in bytes(why)


def test_time_of_letters_is_that_of_the_records() -> None:
    with opened() as db:
        db.execute(OUT)
        put(db, 0, (b"a", b'{"N":3}'))
        db.wait()
        batch = db.engine.log.read("dead", 0, 0, 1).batch
    assert batch["timestamp"].to_pylist() == [BASE]


def test_of_a_record_that_was_deleted_meanwhile_there_is_where_it_was() -> None:
    with opened() as db:
        db.execute(OUT)
        put(db, 0, (b"a", b'{"N":3}'), (b"b", b'{"N":6}'))
        log = db.engine.log
        problem = Problem("PROCESSOR", "no 3", "numbers", 0, 0, others=(1,))
        log.truncate("numbers", 0, 1)
        (letters,) = DeadLetters(log, "dead").letters([problem])
    rows = letters.batch.to_pylist()
    assert [row["value"] for row in rows] == [None, b'{"N":6}']
    assert rows[0]["timestamp"] > BASE and rows[1]["timestamp"] == BASE + 1


def test_a_query_that_is_replaced_gets_its_topic_and_the_same_checks() -> None:
    plain = "CREATE OR REPLACE STREAM copy AS SELECT * FROM numbers"
    with opened(**{"errors.dead.letter.queue.topic.name": ""}) as db:
        db.execute(f"{plain};")
        db.execute("SET 'errors.dead.letter.queue.topic.name' = 'numbers';")
        with pytest.raises(millstream.StatementError, match="cannot be the dead letter topic"):
            db.execute(f"{plain} WHERE n > 0;")
        db.execute("SET 'errors.dead.letter.queue.topic.name' = 'late';")
        db.execute(f"{plain} WHERE n > 0;")
        put(db, 0, (b"a", b"{nonsense"))
        db.wait()
        assert [value for _, value, _ in letters(db, "late")] == ["{nonsense"]
