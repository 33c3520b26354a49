"""`millstream check` compares each row of the state with its changelog."""

from __future__ import annotations

from pathlib import Path
from random import Random

import duckdb
import pytest

import millstream
from millstream.backup import comparing
from millstream.backup.check import check_database, put_state_aside
from millstream.executor import upkeep
from millstream.model.errors import UnavailableError
from millstream.state.descriptions import described

SOURCES = """
CREATE STREAM s (k STRING KEY, v INT, d DECIMAL(20, 2), l ARRAY<DOUBLE>, m MAP<STRING, INT>)
  WITH (KAFKA_TOPIC='s', PARTITIONS=3, FORMAT='JSON');
CREATE STREAM r (k STRING KEY, v INT) WITH (KAFKA_TOPIC='r', PARTITIONS=3, FORMAT='JSON');
CREATE TABLE t (k STRING PRIMARY KEY, v INT, f STRING)
  WITH (KAFKA_TOPIC='t', PARTITIONS=3, FORMAT='JSON');
SET 'auto.offset.reset' = 'earliest';
"""
WINDOW = "RETENTION 100 MILLISECONDS, GRACE PERIOD 10 MILLISECONDS"
QUERIES = {
    "count": "CREATE TABLE o AS SELECT k, COUNT(*) AS n, MAX(d) AS d, AVG(v) AS a FROM s GROUP BY k"
    " EMIT CHANGES;",
    "lists": "CREATE TABLE o AS SELECT k, COLLECT_LIST(v) AS v, LATEST_BY_OFFSET(l) AS l,"
    " HISTOGRAM(k) AS h, LATEST_BY_OFFSET(m) AS m FROM s GROUP BY k EMIT CHANGES;",
    "keys": "CREATE TABLE o WITH (KEY_FORMAT='JSON') AS SELECT k, v, COUNT(*) AS n FROM s"
    " GROUP BY k, v EMIT CHANGES;",
    "nested key": "CREATE TABLE o WITH (KEY_FORMAT='JSON') AS SELECT STRUCT(k := k) AS g,"
    " COUNT(*) AS n FROM s GROUP BY STRUCT(k := k) EMIT CHANGES;",
    "tumbling": f"CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 20"
    f" MILLISECONDS, {WINDOW}) GROUP BY k EMIT CHANGES;",
    "final": "CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW HOPPING (SIZE 20"
    f" MILLISECONDS, ADVANCE BY 10 MILLISECONDS, {WINDOW}) GROUP BY k EMIT FINAL;",
    "sliding": "CREATE TABLE o AS SELECT k, SUM(v) AS n FROM s WINDOW SLIDING (SIZE 20"
    " MILLISECONDS, GRACE PERIOD 10 MILLISECONDS) GROUP BY k EMIT CHANGES;",
    "session": f"CREATE TABLE o AS SELECT k, COUNT(*) AS n FROM s WINDOW SESSION (5 MILLISECONDS,"
    f" {WINDOW}) GROUP BY k EMIT CHANGES;",
    "streams": "CREATE STREAM o AS SELECT s.k AS k, s.v AS a, r.v AS b FROM s LEFT JOIN r WITHIN"
    " 20 MILLISECONDS GRACE PERIOD 10 MILLISECONDS ON s.k = r.k EMIT CHANGES;",
    "stream and table": "CREATE STREAM o AS SELECT s.k, s.v, t.v FROM s JOIN t ON s.k = t.k"
    " EMIT CHANGES;",
    "foreign key": "CREATE TABLE u AS SELECT k, COUNT(*) AS n FROM s GROUP BY k EMIT CHANGES;"
    "CREATE TABLE o AS SELECT t.k, t.v, u.n FROM t LEFT JOIN u ON t.f = u.k EMIT CHANGES;",
}


def live(path: Path, kind: str, seed: int) -> None:
    """Several lives of a database with a query of the kind, in which time goes on."""
    chance, now = Random(seed), 0
    for life in range(3):
        with millstream.connect(path) as db:
            if life == 0:
                db.execute(SOURCES + QUERIES[kind])
            for _ in range(chance.randint(2, 5)):
                keys = [f"k{chance.randint(0, 6)}" for _ in range(60)]
                times = [now + chance.randint(0, 40) for _ in keys]
                now += 30
                rows = [
                    {"K": key, "V": chance.randint(0, 9), "ROWTIME": time}
                    for key, time in zip(keys, times, strict=True)
                ]
                more = {"D": 1, "L": [0.5, None], "M": {"a": 1, "b": None}}
                db.insert("s", [{**row, **more} for row in rows])
                db.insert("r", rows[::2])
                db.insert("t", [{**row, "F": "k1"} for row in rows[:9]])
                db.wait()


def table_where(connection: duckdb.DuckDBPyConnection, condition: str) -> str:
    """The one state table of which this holds, as SQL."""
    ((table,),) = connection.execute(
        f"SELECT schema_name || '.\"' || table_name || '\"' FROM duckdb_tables() WHERE {condition}"
    ).fetchall()
    return str(table)


@pytest.fixture
def at_each_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are removed as soon as they expire."""
    monkeypatch.setattr(upkeep, "_COMMITS", 1)


@pytest.mark.usefixtures("at_each_commit")
@pytest.mark.parametrize("kind", QUERIES)
def test_the_state_is_that_of_its_changelog_and_each_change_is_found(
    tmp_path: Path, kind: str
) -> None:
    """Without a false alarm, also where rows have expired."""
    path = tmp_path / "a.db"
    live(path, kind, 1)
    assert check_database(str(path)).state == ()
    state = Path(f"{path}.state")
    whole, compared = state.read_bytes(), 0
    with duckdb.connect(str(state)) as connection:
        ((name,),) = connection.execute("SELECT current_database()").fetchall()
        tables = {
            (f"{query}_{sub}", table.name): table
            for (query, sub), found in described(connection, name).items()
            for table in found
        }
    for (schema, name), table in tables.items():
        own = f'"{schema}"."{name}"'
        changes = [f"DELETE FROM {own} WHERE rowid = (SELECT max(rowid) FROM {own})"]
        number = next((c for c, kind in table.value if kind in ("BIGINT", "INTEGER")), None)
        if number is not None:
            changes.append(
                f'UPDATE {own} SET "{number}" = 77777 WHERE rowid = (SELECT max(rowid) FROM {own})'
            )
        for change in changes:
            with duckdb.connect(str(state)) as connection:
                ((changed,),) = connection.execute(change).fetchall()
            if changed:
                damages = [str(damage) for damage in check_database(str(path)).state]
                assert (
                    len(damages) == 1 and f"table {name}: " in damages[0] and ": 1" in damages[0]
                ), (change, damages)
                compared += 1
            state.write_bytes(whole)
    assert compared
    put_state_aside(str(path))
    assert check_database(str(path)).well


@pytest.mark.usefixtures("at_each_commit")
def test_expired_rows_may_be_there_or_not(tmp_path: Path) -> None:
    """One that has not expired has to be there."""
    path = tmp_path / "a.db"
    live(path, "tumbling", 2)
    with duckdb.connect(f"{path}.state") as connection:
        table = table_where(connection, "table_name NOT LIKE '%clock%' AND schema_name <> 'main'")
        ((left, last),) = connection.execute(
            f'SELECT count(*), max("WINDOWSTART") FROM {table}'
        ).fetchall()
        assert left < 40 and last > 0, "some have expired"
        connection.execute(f'DELETE FROM {table} WHERE "WINDOWSTART" = {last}')
    (damage, *_) = check_database(str(path)).state
    assert "rows of its changelog that are missing" in damage.what


def test_a_row_that_is_there_twice_or_of_nowhere_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    live(path, "streams", 3)
    with duckdb.connect(f"{path}.state") as connection:
        table = table_where(connection, "table_name LIKE '%_left'")
        connection.execute(f"INSERT INTO {table} FROM {table} LIMIT 1")
    (damage,) = check_database(str(path)).state
    assert damage.what == "rows that its changelog does not have: 1"


class Last(millstream.Processor):
    """Keeps the last value of each key."""

    output = "k STRING KEY, v INT"

    def init(self, context: millstream.ProcessorContext) -> None:
        self.last = context.store("last", millstream.KeyValueStore("STRING", "INT"))

    def process(self, record: millstream.Record) -> None:
        if record.value["V"] == 3:
            self.last.delete(record.key)
        else:
            self.last.put(record.key, record.value["V"])


def test_stores_of_processors_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with millstream.connect(path, functions=[millstream.processor(Last)]) as db:
        db.execute(SOURCES + "CREATE STREAM o AS SELECT * FROM PROCESS(r, 'Last');")
        db.insert("r", [{"K": f"k{number % 11}", "V": number % 7} for number in range(100)])
        db.wait()
    assert check_database(str(path)).well
    with duckdb.connect(f"{path}.state") as connection:
        of_store = "table_oid = (SELECT table_oid FROM duckdb_columns() WHERE column_name = 'key')"
        table = table_where(connection, of_store)
        connection.execute(f"DELETE FROM {table} WHERE key = 'k1'")
    (damage,) = check_database(str(path)).state
    assert damage.what == "rows of its changelog that are missing: 1"


def test_a_record_of_a_changelog_that_is_no_batch_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    live(path, "count", 6)
    with duckdb.connect(str(path)) as connection:
        ((topic,),) = connection.execute(
            "SELECT id FROM log.topics WHERE name LIKE '%-changelog'"
        ).fetchall()
        connection.execute(f"UPDATE log.records_{topic}_0 SET value = 'x'::BLOB WHERE part = 1")
    (damage,) = check_database(str(path)).state
    assert "partition 1" in damage.where
    assert "a record of its changelog cannot be read" in damage.what


def test_a_full_disk_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the check's own files: with --repair, it would put a healthy state aside."""
    path = tmp_path / "a.db"
    live(path, "count", 5)

    def fails(*_: object) -> None:
        raise duckdb.IOException("No space left on device")

    monkeypatch.setattr(comparing, "apply", fails)
    with pytest.raises(UnavailableError, match="could not be compared") as refused:
        check_database(str(path))
    assert refused.value.code == "E-DISK-IO" and "No space" in refused.value.detail


def test_state_that_is_not_described_is_not_compared(tmp_path: Path) -> None:
    """That of an earlier version; it is described when it is opened again."""
    path = tmp_path / "a.db"
    live(path, "count", 4)
    with duckdb.connect(f"{path}.state") as connection:
        connection.execute('DROP TABLE main."$tables"')
        table = table_where(connection, "schema_name <> 'main'")
        connection.execute(f'UPDATE {table} SET "$rowtime" = 5')
    assert check_database(str(path)).well
    with millstream.connect(path) as db:
        db.wait()
    assert not check_database(str(path)).well
