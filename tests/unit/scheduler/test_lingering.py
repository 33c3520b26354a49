"""A few records wait for company while nobody waits for the results, and not otherwise.

Without a reason not to linger, nothing would be processed within these tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream
from millstream import Database
from millstream.model.settings import EngineSettings
from millstream.query.results import History, Rows, Stream
from millstream.query.session import Session
from millstream.runtime.scheduling import LINGER_RECORDS
from millstream.statements.row_inserts import open_inserts
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)
SETTINGS = EngineSettings(linger_ms=3_600_000)
STATEMENTS = """
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE STREAM derived WITH (KAFKA_TOPIC='derived') AS SELECT k, v + 1 AS v FROM s;
CREATE TABLE counts AS SELECT k, COUNT(*) AS n FROM derived GROUP BY k;
CREATE TABLE elsewhere AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""


def connect() -> Database:
    return millstream.connect(settings=SETTINGS, properties={"auto.offset.reset": "earliest"})


@pytest.fixture
def db() -> Iterator[Database]:
    """With queries that have processed and committed a record, and linger from now on."""
    with connect() as database:
        database.execute(STATEMENTS)
        insert(database)
        database.wait()
        yield database


def insert(db: Database, count: int = 1) -> None:
    """Append records, as another client does."""
    inserts = open_inserts("S", db.engine.inserts, db.session)
    rows = [b'{"k": "a", "v": %d}' % number for number in range(count)]
    assert inserts.insert(rows).count == count


def lingering(db: Database) -> set[str]:
    """The tables and streams whose queries have unprocessed records, and linger."""
    queries = db.engine.catalog.queries
    return {queries[name].sink for name in db.engine.driver.lingering}


def counted(db: Database, table: str) -> int:
    """What a pull query of a session that has inserted nothing returns."""
    rows = Database(db.engine, Session()).execute(f"SELECT n FROM {table} WHERE k = 'a';")
    assert isinstance(rows, Rows)
    return int(rows.fetchall()[0][0])


def test_a_few_records_wait(db: Database) -> None:
    insert(db)
    until(lambda: lingering(db) == {"DERIVED", "ELSEWHERE"})


def test_a_pull_query_has_what_feeds_its_table_processed_and_nothing_else(db: Database) -> None:
    insert(db)
    until(lambda: lingering(db) == {"DERIVED", "ELSEWHERE"})
    assert counted(db, "counts") == 2
    assert lingering(db) == {"ELSEWHERE"}
    assert counted(db, "elsewhere") == 2


def test_after_a_pull_query_they_do_not_linger_for_a_while(db: Database) -> None:
    assert counted(db, "counts") == 1
    insert(db)
    until(lambda: lingering(db) == {"ELSEWHERE"})
    until(lambda: counted(db, "counts") == 2)


def test_a_query_over_a_derived_stream_has_it_written_first(db: Database) -> None:
    insert(db)
    until(lambda: "DERIVED" in lingering(db))
    found = Database(db.engine, Session()).execute("SELECT v FROM derived;")
    assert isinstance(found, History)
    assert sorted(found.fetchall()) == [(1,), (1,)]


def test_a_push_query_gets_rows_that_linger_and_those_that_come(db: Database) -> None:
    insert(db)
    until(lambda: lingering(db) == {"DERIVED", "ELSEWHERE"})
    pushed = db.execute("SELECT k, n FROM counts EMIT CHANGES LIMIT 3;")
    assert isinstance(pushed, Stream)
    rows = iter(pushed)
    assert [next(rows), next(rows)] == [("a", 1), ("a", 2)]
    # Queries that do not feed it were not woken, so they still linger.
    assert lingering(db) == {"ELSEWHERE"}
    insert(db)
    assert next(rows) == ("a", 3)
    until(lambda: lingering(db) == {"ELSEWHERE"})


def test_print_gets_records_that_linger(db: Database) -> None:
    with db.execute("PRINT 'derived' FROM BEGINNING LIMIT 2;") as printed:  # type: ignore[union-attr]
        insert(db)
        assert sum("value" in row[0] for row in printed) == 2
    db.wait()
    insert(db)
    until(lambda: "DERIVED" in lingering(db))


def test_many_records_do_not_linger(db: Database) -> None:
    insert(db, LINGER_RECORDS + 1)
    # Each query has more to read than lingers; the one behind them reads what they write.
    until(lambda: not any(lag(db).values()))


def test_records_that_linger_add_up(db: Database) -> None:
    for _ in range(3):
        insert(db, LINGER_RECORDS // 2)
    until(lambda: lag(db)["S"] == 0)


def lag(db: Database) -> dict[str, int]:
    """How many records of each topic are not processed by a query."""
    log, runtime = db.engine.log, db.engine.runtime
    found: dict[str, int] = {}
    for query in runtime.status(log.end_offsets(runtime.inputs())):
        for (topic, _), records in query.lag.items():
            found[topic.upper()] = max(found.get(topic.upper(), 0), records)
    return found


def test_waiting_for_all_queries_waits_for_those_that_linger(db: Database) -> None:
    insert(db)
    until(lambda: lingering(db) == {"DERIVED", "ELSEWHERE"})
    db.wait()
    assert not lingering(db)
    assert counted(db, "elsewhere") == 2


def test_what_lingers_is_not_lost_by_closing(tmp_path: object) -> None:
    path = f"{tmp_path}/a.db"
    with millstream.connect(path, settings=SETTINGS) as db:
        db.execute("SET 'auto.offset.reset' = 'earliest';" + STATEMENTS)
        insert(db)
        db.wait()
        insert(db)
        until(lambda: "DERIVED" in lingering(db))
    with millstream.connect(path, settings=SETTINGS) as db:
        until(lambda: counted(db, "counts") == 2)
