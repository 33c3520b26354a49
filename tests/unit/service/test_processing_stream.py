"""KSQL_PROCESSING_LOG: listed, described, read by pull, push and persistent queries, bounded."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import millstream
from millstream import Database, History, Rows, StatementError, Stream
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.problem import Problem
from millstream.model.settings import EngineSettings
from millstream.service import processing_stream
from millstream.service.engine import Engine
from millstream.service.execution import open_engine
from millstream.service.processing_stream import topic_of
from tests.unit.conftest import LATE

HOUR = 3_600_000
BAD = """
CREATE STREAM s (k INT KEY, v INT, d STRING) WITH (KAFKA_TOPIC='s', FORMAT='JSON', PARTITIONS=1);
CREATE STREAM o AS SELECT k, v, CAST(d AS INT) AS n FROM s;
"""
RECORDS = [
    (b"1", b'{"V":1,"D":"7"}', 1),
    (b"no number", b'{"V":1,"D":"7"}', 2),
    (b"2", b'{"V":"no number","D":"7"}', 3),
    (b"3", b'{"V":3,"D":"secret"}', 4),
]
TYPES = "SELECT message->type AS t, COUNT(*) AS n FROM KSQL_PROCESSING_LOG GROUP BY message->type"


def rows(db: Database, sql: str) -> list[tuple[object, ...]]:
    found = db.execute(sql)
    assert isinstance(found, Rows | History)
    return list(found)


def feed(db: Database) -> str:
    """Let a query read bad records; returns its id."""
    db.execute(BAD)
    (query_id,) = db.engine.catalog.queries
    db.engine.log.writer("w").append([Appended("s", 0, raw_batch(RECORDS), 4, 100)])
    db.wait()
    return query_id


def test_it_is_listed_and_described(db: Database) -> None:
    (listed,) = rows(db, "SHOW STREAMS;")
    assert listed == ("KSQL_PROCESSING_LOG", "_millstream_processing_log", "KAFKA", "JSON", "false")
    described = dict(rows(db, "DESCRIBE KSQL_PROCESSING_LOG;"))  # type: ignore[arg-type]
    assert list(described) == ["LOGGER", "LEVEL", "TIME", "MESSAGE"]
    assert "DESERIALIZATIONERROR STRUCT<TARGET STRING" in str(described["MESSAGE"]).replace("`", "")
    assert rows(db, "DESCRIBE STREAMS;") and rows(db, "SHOW STREAMS EXTENDED;")
    assert rows(db, "SHOW TOPICS;") == [] and rows(db, "SHOW TABLES;") == []


def test_pull_queries_read_it(db: Database) -> None:
    query_id = feed(db)
    found = rows(
        db,
        "SELECT logger, level, message->type AS t, message->deserializationError->target AS side, "
        "message->deserializationError->`topic` AS origin, "
        "message->deserializationError->cause[1] AS cause, "
        "message->recordProcessingError->errorMessage AS error FROM KSQL_PROCESSING_LOG;",
    )
    assert len(found) == 3
    keyed, valued, failed = sorted(found, key=repr)
    decoding = f"processing.{query_id}.DESERIALIZATION"
    assert keyed == (decoding, "ERROR", 0, "key", "s", "s, partition 0, offset 1", None)
    assert valued == (decoding, "ERROR", 0, "value", "s", "s, partition 0, offset 2", None)
    assert failed[:3] == (f"processing.{query_id}.EXPRESSION", "ERROR", 1)
    assert "column N" in str(failed[-1])
    assert rows(db, "SELECT * FROM KSQL_PROCESSING_LOG LIMIT 1;")[0][2] == int(
        rows(db, "SELECT ROWTIME FROM KSQL_PROCESSING_LOG LIMIT 1;")[0][0]  # type: ignore[call-overload]
    )


def test_what_the_records_held_is_not_in_the_columns_for_it(db: Database) -> None:
    feed(db)
    found = rows(
        db,
        "SELECT message->deserializationError->recordB64 AS b, "
        "message->recordProcessingError->record AS r FROM KSQL_PROCESSING_LOG;",
    )
    assert found == [(None, None)] * 3
    assert db.processing_log()["raw_value"].to_pylist().count(None) < 3, "from Python it is there"


def test_it_holds_the_records_where_the_setting_says_so() -> None:
    settings = EngineSettings(processing_rows=True)
    with millstream.connect(":memory:", settings=settings) as db:
        feed(db)
        found = rows(
            db,
            "SELECT message->type AS t, message->deserializationError->recordB64 AS b, "
            "message->recordProcessingError->record AS r FROM KSQL_PROCESSING_LOG;",
        )
    encoded = [base64.b64encode(text).decode() for text in (RECORDS[1][0], RECORDS[2][1])]
    assert sorted(found, key=repr) == [
        *sorted((0, text, None) for text in encoded),
        (1, None, '[3,3,"secret"]'),
    ]


def test_push_queries_follow_it(db: Database) -> None:
    with db.execute(  # type: ignore[union-attr]
        "SELECT level, message->type AS t FROM KSQL_PROCESSING_LOG EMIT CHANGES LIMIT 3;"
    ) as stream:
        assert isinstance(stream, Stream)
        feed(db)
        assert sorted(stream) == [("ERROR", 0), ("ERROR", 0), ("ERROR", 1)]


def test_persistent_queries_read_it(db: Database) -> None:
    db.execute(f"CREATE TABLE problems AS {TYPES};")
    db.execute(LATE)
    db.wait()
    db.wait()
    assert rows(db, "SELECT * FROM problems;") == [(1, 1)]
    level = rows(db, "SELECT level, logger FROM KSQL_PROCESSING_LOG;")
    assert level[0][0] == "WARN" and str(level[0][1]).endswith(".LATE")
    with pytest.raises(StatementError, match="part of the engine"):
        db.execute("DROP STREAM KSQL_PROCESSING_LOG;")


def test_no_statement_changes_it(db: Database) -> None:
    for sql in (
        "INSERT INTO KSQL_PROCESSING_LOG (level) VALUES ('x');",
        "INSERT INTO KSQL_PROCESSING_LOG SELECT * FROM KSQL_PROCESSING_LOG;",
        "DROP STREAM KSQL_PROCESSING_LOG;",
        "DROP STREAM IF EXISTS KSQL_PROCESSING_LOG DELETE TOPIC;",
        "ALTER STREAM KSQL_PROCESSING_LOG ADD COLUMN x INT;",
    ):
        with pytest.raises(millstream.MillstreamError):
            db.execute(sql)
    assert db.engine.catalog.sources == {}
    assert db.engine.log.end_offset("_millstream_processing_log", 0) == 0


def test_a_stream_of_the_name_that_a_statement_made_comes_first(db: Database) -> None:
    text = "(v INT) WITH (KAFKA_TOPIC='mine', FORMAT='JSON', PARTITIONS=1);"
    db.execute(f"CREATE STREAM KSQL_PROCESSING_LOG {text}")
    assert [row[1] for row in rows(db, "SHOW STREAMS;")] == ["mine"]
    db.execute("DROP STREAM KSQL_PROCESSING_LOG;")
    assert [row[1] for row in rows(db, "SHOW STREAMS;")] == ["_millstream_processing_log"]


def test_an_entry_about_an_entry_is_not_written(db: Database) -> None:
    db.execute("CREATE STREAM again AS SELECT CAST(logger AS INT) AS n FROM KSQL_PROCESSING_LOG;")
    query_id = feed_beside(db)
    db.wait()
    counts = db.engine.processing_log.counts
    assert counts(query_id) == {"EXPRESSION": 3}
    assert db.engine.log.end_offset("_millstream_processing_log", 0) == 3


def feed_beside(db: Database) -> str:
    (query_id,) = db.engine.catalog.queries
    db.execute(BAD)
    db.engine.log.writer("w").append([Appended("s", 0, raw_batch(RECORDS), 4, 100)])
    db.wait()
    return query_id


def test_it_outlives_the_process_and_its_queries_go_on(reopen: Callable[[], Database]) -> None:
    db = reopen()
    db.execute(f"CREATE TABLE problems AS {TYPES};")
    feed_beside(db)
    db.wait()
    before = sorted(rows(db, "SELECT * FROM problems;"))
    assert before == [(0, 2), (1, 1)]
    db = reopen()
    assert len(rows(db, "SELECT * FROM KSQL_PROCESSING_LOG;")) == 3
    assert len(rows(db, "SHOW STREAMS;")) == 3
    db.wait()
    assert sorted(rows(db, "SELECT * FROM problems;")) == before
    db.execute("INSERT INTO s VALUES (9, 9, 'x');")
    db.wait()
    db.wait()
    assert sorted(rows(db, "SELECT * FROM problems;")) == [(0, 2), (1, 2)]


def test_it_has_the_prefix_of_its_service() -> None:
    settings = EngineSettings(internal_prefix="a.", command_topic="a.commands")
    with millstream.connect(settings=settings) as db:
        assert [row[1] for row in rows(db, "SHOW STREAMS;")] == ["a.processing_log"]


def test_only_the_newest_entries_are_kept(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processing_stream, "KEPT_MAX", 20)
    monkeypatch.setattr(processing_stream, "WRITTEN_MAX", 20)
    monkeypatch.setattr(processing_stream, "_TRUNCATED_EVERY", 5)
    for number in range(50):
        problem = Problem("EXPRESSION", f"e{number}\udc80", "s", 0, number)
        db.engine.processing_log.add("q", [problem, problem])
    db.engine.processing_log.add("q", [problem] * 100)
    log, topic = db.engine.log, "_millstream_processing_log"
    assert log.end_offset(topic, 0) == 120, "of many at once the last ones are written"
    assert 15 <= log.end_offset(topic, 0) - log.start_offset(topic, 0) <= 25
    assert db.engine.processing_log.counts("q") == {"EXPRESSION": 200}


def test_entries_leave_when_they_are_too_old(tmp_path: Path) -> None:
    """Also those of a database whose log had no limit, and which is opened with another one."""
    now, hour = [100 * HOUR], EngineSettings(processing_retention_ms=HOUR)
    topic = topic_of(hour)

    def opened(settings: EngineSettings) -> Engine:
        return open_engine(str(tmp_path / "a.db"), settings, lambda: now[0])

    engine = opened(replace(hour, processing_retention_ms=1000 * HOUR))
    engine.processing_log.add("q", [Problem("EXPRESSION", "old", "s", 0, 1)])
    now[0] += 2 * HOUR
    engine.log.maintain()
    assert engine.log.start_offset(topic, 0) == 0
    engine.close()
    engine = opened(hour)
    for _ in range(2):
        now[0] += HOUR // 10
        engine.log.maintain()
    assert engine.log.start_offset(topic, 0) == engine.log.end_offset(topic, 0) == 1
    engine.processing_log.add("q", [Problem("EXPRESSION", "new", "s", 0, 2)])
    assert engine.log.end_offset(topic, 0) == 2
    engine.close()
