"""REPLAY: what a query skipped comes to its topic once more, when the cause is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millstream
from millstream import Database, Processor, Record
from millstream.log.log import Appended, Outcome
from millstream.model.batch import RAW_SCHEMA
from millstream.model.errors import FencedError, MillstreamError, UnavailableError
from millstream.query.results import Done
from millstream_parser.printer import print_statement
from millstream_parser.script import parse

CREATE = """
CREATE STREAM numbers (id STRING KEY, n INT)
  WITH (KAFKA_TOPIC='numbers', PARTITIONS=2, VALUE_FORMAT='JSON');
"""
OUT = "CREATE STREAM out AS SELECT * FROM PROCESS(numbers, 'Picky');"


class Picky(Processor):
    output = "id STRING KEY, n INT"
    least = 0

    def init(self, context: millstream.ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        if record.value["N"] < Picky.least:
            raise ValueError(f"{record.value['N']} is not enough")
        self.context.forward(record.key, {"N": record.value["N"]})


def opened(path: str = ":memory:") -> Database:
    return millstream.connect(
        path,
        functions=[millstream.processor(Picky)],
        properties={
            "auto.offset.reset": "earliest",
            "processing.exception.handler": "continue",
            "errors.dead.letter.queue.topic.name": "dead",
        },
    )


@pytest.fixture
def db() -> Iterator[Database]:
    """Four of its six records were put aside, of two partitions."""
    Picky.least = 5
    with opened() as found:
        found.execute(CREATE + OUT)
        for n in range(1, 7):
            found.execute(f"INSERT INTO numbers (id, n) VALUES ('k{n}', {n});")
        found.wait()
        yield found
    Picky.least = 0


def replay(db: Database, text: str = "REPLAY numbers FROM dead;") -> str:
    done = db.execute(text)
    assert isinstance(done, Done)
    db.wait()
    return done.message


def counted(db: Database, source: str = "out") -> list[Any]:
    rows = db.execute(f"SELECT n FROM {source};")
    return sorted(n for (n,) in rows.fetchall())  # type: ignore[union-attr]


def stored(db: Database, topic: str) -> list[dict[str, Any]]:
    log = db.engine.log
    found = log.topic(topic)
    assert found is not None
    return [
        {**row, "partition": partition}
        for partition in range(found.partitions)
        for row in log.read(topic, partition, 0, 10_000).batch.to_pylist()
    ]


def letter(
    db: Database, told: dict[str, str], key: bytes | None = b"k", value: bytes | None = b'{"N": 9}'
) -> None:
    """A record of the dead letter topic that somebody else wrote."""
    headers = [
        {"key": f"__streams.errors.{name}", "value": text.encode()} for name, text in told.items()
    ]
    row = {"offset": 0, "timestamp": 1_700_000_000_000, "key": key, "value": value}
    batch = pa.Table.from_pylist([{**row, "headers": headers or None}], schema=RAW_SCHEMA)
    db.engine.log.send([Appended("dead", 0, batch, 1, batch.nbytes)])


def test_what_was_skipped_is_processed_once_the_cause_is_gone(db: Database) -> None:
    assert counted(db) == [5, 6]
    before = stored(db, "numbers")
    Picky.least = 0
    assert replay(db) == "Replayed 4 records of numbers from dead"
    assert counted(db) == [1, 2, 3, 4, 5, 6]
    # Records are as they were: in their partition, with their key, time and headers.
    by_key = {row["key"]: row for row in before}
    for row in stored(db, "numbers"):
        new = {"offset": 0, "arrival": 0}
        assert {**row, **new} == {**by_key[row["key"]], **new}


def test_each_letter_once(db: Database) -> None:
    Picky.least = 0
    assert "4 records" in replay(db)
    assert "0 records" in replay(db)
    assert counted(db) == [1, 2, 3, 4, 5, 6]


def test_what_fails_again_is_put_aside_again_and_waits_for_the_next(db: Database) -> None:
    assert "4 records" in replay(db)
    assert counted(db) == [5, 6]
    Picky.least = 3
    assert "4 records" in replay(db)
    assert counted(db) == [3, 4, 5, 6]
    Picky.least = 0
    assert "2 records" in replay(db)
    assert counted(db) == [1, 2, 3, 4, 5, 6]


def test_a_limit(db: Database) -> None:
    Picky.least = 0
    assert "3 records" in replay(db, "REPLAY numbers FROM dead LIMIT 3;")
    assert "Replayed 1 record of" in replay(db, "REPLAY numbers FROM 'dead' LIMIT 3;")
    assert counted(db) == [1, 2, 3, 4, 5, 6]
    assert "0 records" in replay(db, "REPLAY numbers FROM dead LIMIT 0;")


def test_positions_survive_reopening(tmp_path: Path) -> None:
    Picky.least = 9
    with opened(str(tmp_path / "x.db")) as db:
        db.execute(CREATE + OUT + "INSERT INTO numbers (id, n) VALUES ('a', 1);")
        db.wait()
        assert "Replayed 1 record" in replay(db)
    Picky.least = 0
    with opened(str(tmp_path / "x.db")) as db:
        assert "Replayed 1 record" in replay(db)
        assert "0 records" in replay(db)
        assert counted(db) == [1]


def test_letters_of_other_topics_stay(db: Database) -> None:
    """A client that may write letters cannot choose where REPLAY writes to."""
    letter(db, {"topic": "secret", "partition": "0"})
    db.execute("CREATE STREAM secret (n INT) WITH (KAFKA_TOPIC='secret', PARTITIONS=1, "
               "VALUE_FORMAT='JSON');")  # fmt: skip
    Picky.least = 0
    assert "4 records" in replay(db)
    assert stored(db, "secret") == []
    assert "Replayed 1 record of secret" in replay(db, "REPLAY secret FROM dead;")


@pytest.mark.parametrize("partition", ["", "-1", "x", "1.0", "٣", "99999999999999999999"])
def test_what_is_no_letter_is_left_out(db: Database, partition: str) -> None:
    letter(db, {"topic": "numbers", "partition": partition})
    letter(db, {})
    Picky.least = 0
    assert "Replayed 4 records" in replay(db)


def test_a_topic_with_fewer_partitions_than_it_had(db: Database) -> None:
    letter(db, {"topic": "numbers", "partition": "7"}, key=b"k1")
    Picky.least = 0
    assert "Replayed 5 records" in replay(db)
    rows = [row for row in stored(db, "numbers") if row["key"] == b"k1"]
    assert len({row["partition"] for row in rows}) == 1


def test_a_record_that_was_deleted_before_is_told(db: Database) -> None:
    letter(db, {"topic": "numbers", "partition": "0"}, key=None, value=None)
    Picky.least = 0
    assert replay(db).endswith("from dead; 1 had been deleted before they were put aside")


def test_a_dead_letter_topic_that_was_deleted_and_made_again(db: Database) -> None:
    replay(db)
    log = db.engine.log
    topic = log.topic("dead")
    assert topic is not None
    log.delete_topic("dead")
    log.create_topic(topic)
    letter(db, {"topic": "numbers", "partition": "1"})
    assert "Replayed 1 record" in replay(db)


@pytest.mark.parametrize("outcome", [Outcome.ABORTED, Outcome.UNKNOWN, FencedError("newer")])
def test_a_transaction_that_fails(
    db: Database, monkeypatch: pytest.MonkeyPatch, outcome: Outcome | FencedError
) -> None:
    Picky.least = 0

    class Failing:
        def transact(self, *_: object) -> Outcome:
            if isinstance(outcome, FencedError):
                raise outcome
            return outcome

        def close(self) -> None:
            pass

    with monkeypatch.context() as patched:
        patched.setattr(db.engine.log, "writer", lambda *_, **__: Failing())
        with pytest.raises(UnavailableError, match="was interrupted"):
            db.execute("REPLAY numbers FROM dead;")
    assert "4 records" in replay(db)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("REPLAY numbers FROM numbers;", "cannot hold its own dead letters"),
        ("REPLAY nombres FROM dead;", "does not exist: nombres"),
        ("REPLAY numbers FROM deed;", "does not exist: deed"),
        ("REPLAY _millstream_x FROM dead;", "_millstream_x"),
        ("REPLAY numbers;", "FROM"),
        ("REPLAY numbers FROM dead LIMIT -1;", "LIMIT|INTEGER"),
        ("REPLAY FROM dead;", "FROM|topic"),
    ],
)
def test_what_is_refused(db: Database, text: str, words: str) -> None:
    with pytest.raises(MillstreamError, match=words):
        db.execute(text)


def test_it_is_printed_as_it_is_read() -> None:
    for text in ("REPLAY `numbers` FROM `dead` LIMIT 3", "REPLAY 'a b' FROM 'it''s'"):
        (parsed,) = parse(text + ";")
        (again,) = parse(print_statement(parsed) + ";")
        assert again == parsed
