"""What the published suite leaves out: types, kinds of errors, push queries, ends."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream
from millstream import dbapi
from millstream.dbapi.exceptions import translated
from millstream.model.errors import MillstreamError

COLUMNS = {
    "b": ("BOOLEAN", dbapi.NUMBER),
    "i": ("INTEGER", dbapi.NUMBER),
    "l": ("BIGINT", dbapi.NUMBER),
    "f": ("DOUBLE", dbapi.NUMBER),
    "n": ("DECIMAL(7, 2)", dbapi.NUMBER),
    "s": ("STRING", dbapi.STRING),
    "y": ("BYTES", dbapi.BINARY),
    "d": ("DATE", dbapi.DATETIME),
    "t": ("TIME", dbapi.DATETIME),
    "m": ("TIMESTAMP", dbapi.DATETIME),
    "a": ("ARRAY<STRING>", None),
    "o": ("STRUCT<`N` DECIMAL(4, 1)>", None),
}
GROUPS = (dbapi.STRING, dbapi.BINARY, dbapi.NUMBER, dbapi.DATETIME, dbapi.ROWID)


@pytest.fixture
def connection() -> Iterator[dbapi.Connection]:
    with dbapi.connect() as opened:
        yield opened


@pytest.fixture
def items(connection: dbapi.Connection) -> dbapi.Connection:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    connection.execute(
        f"CREATE STREAM items ({columns})"
        " WITH (KAFKA_TOPIC='items', VALUE_FORMAT='JSON', PARTITIONS=1)"
    )
    return connection


def test_type_codes_are_of_one_group_each(items: dbapi.Connection) -> None:
    cursor = items.execute("SELECT * FROM items")
    assert cursor.description is not None
    for (name, code, _, _, precision, scale, null), (kind, group) in zip(
        cursor.description, COLUMNS.values(), strict=True
    ):
        assert code == kind and null is True
        assert [one for one in GROUPS if one == code] == ([] if group is None else [group])
        assert (precision, scale) == ((7, 2) if name == "N" else (None, None))


def test_values_come_back_as_they_were_given(items: dbapi.Connection) -> None:
    values = {
        "s": "it's ? :x",
        "d": dbapi.Date(2026, 2, 28),
        "t": dbapi.Time(23, 59, 1),
        "m": dbapi.Timestamp(2026, 2, 28, 1, 2, 3),
        "y": dbapi.Binary(b"\x00\xff"),
    }
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    cursor = items.cursor()
    cursor.executemany(f"INSERT INTO items ({names}) VALUES ({marks})", [[*values.values()]] * 2)
    assert cursor.rowcount == 2 and cursor.description is None
    cursor.execute(f"SELECT {names} FROM items")
    assert cursor.fetchall() == [tuple(values.values())] * 2
    assert cursor.rownumber == 2 and cursor.fetchone() is None


def test_ticks_are_local_times() -> None:
    ticks = dt.datetime(2026, 7, 1, 12, 30, 15).timestamp()
    assert dbapi.TimestampFromTicks(ticks) == dt.datetime(2026, 7, 1, 12, 30, 15)
    assert dbapi.DateFromTicks(ticks) == dt.date(2026, 7, 1)
    assert dbapi.TimeFromTicks(ticks) == dt.time(12, 30, 15)


def test_statements_that_only_say_something(connection: dbapi.Connection) -> None:
    cursor = connection.execute("SET 'auto.offset.reset' = 'earliest'")
    assert cursor.description is None and cursor.rowcount == -1
    with pytest.raises(dbapi.ProgrammingError, match="no results to fetch"):
        cursor.fetchone()
    shown = connection.execute("SHOW STREAMS")
    assert shown.description is not None and shown.description[0][1] == dbapi.STRING
    assert shown.rowcount == len(shown.fetchall())


def test_a_push_query_is_fetched_as_it_goes(items: dbapi.Connection) -> None:
    items.execute("SET 'auto.offset.reset' = 'earliest'")
    cursor = items.execute("SELECT i FROM items EMIT CHANGES")
    other = items.cursor()
    other.executemany("INSERT INTO items (i) VALUES (?)", [(1,), (2,)])
    assert [cursor.fetchone(), cursor.fetchone()] == [(1,), (2,)]
    other.executemany("INSERT INTO items (i) VALUES (?)", [(3,), (4,), (5,)])
    assert cursor.fetchmany(2) == [(3,), (4,)]
    with pytest.raises(dbapi.ProgrammingError, match="LIMIT"):
        cursor.fetchall()
    assert next(iter(cursor)) == (5,) and cursor.rownumber == 5
    assert len(items.execute("SHOW QUERIES").fetchall()) == 1
    cursor.close()
    cursor.close()
    assert items.execute("SHOW QUERIES").fetchall() == []
    limited = items.execute("SELECT i FROM items EMIT CHANGES LIMIT 4")
    assert limited.fetchone() == (1,)
    assert limited.fetchall() == [(2,), (3,), (4,)]


def test_the_next_statement_of_a_cursor_ends_its_query(items: dbapi.Connection) -> None:
    cursor = items.execute("SELECT i FROM items EMIT CHANGES")
    cursor.execute("SHOW QUERIES")
    assert cursor.fetchall() == []


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("SELEC 1", dbapi.ProgrammingError),
        ("SELECT * FROM nowhere", dbapi.ProgrammingError),
        ("CREATE STREAM items (i INT) WITH (KAFKA_TOPIC='x', FORMAT='JSON', PARTITIONS=1)", None),
        ("INSERT INTO items (i) VALUES ('x')", None),
    ],
)
def test_errors_are_of_their_kind(
    items: dbapi.Connection, statement: str, kind: type[dbapi.Error] | None
) -> None:
    with pytest.raises(dbapi.DatabaseError) as failure:
        items.execute(statement)
    assert isinstance(failure.value, kind or dbapi.DatabaseError)
    assert isinstance(failure.value.__cause__, MillstreamError)
    assert str(failure.value) == str(failure.value.__cause__)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (millstream.StatementError, dbapi.ProgrammingError),
        (millstream.ConflictError, dbapi.ProgrammingError),
        (millstream.RecordError, dbapi.DataError),
        (millstream.UnavailableError, dbapi.OperationalError),
        (millstream.FencedError, dbapi.OperationalError),
        (millstream.CorruptionError, dbapi.InternalError),
    ],
)
def test_every_error_has_its_kind(given: type[MillstreamError], kind: type[dbapi.Error]) -> None:
    with pytest.raises(kind), translated():
        raise given("x")


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"nothing of ours" * 1000)
    with pytest.raises(dbapi.InternalError):
        dbapi.connect(str(tmp_path / "x.db"))
    with pytest.raises(dbapi.ProgrammingError):
        dbapi.connect(properties={"no.such.property": "1"})


def test_nothing_is_undone(items: dbapi.Connection) -> None:
    items.commit()
    items.rollback()
    items.execute("INSERT INTO items (i) VALUES (1)")
    with pytest.raises(dbapi.NotSupportedError, match="committed at once"):
        items.rollback()
    items.rollback()
    items.execute("INSERT INTO items (i) VALUES (1)")
    items.commit()
    items.rollback()


def test_after_the_end() -> None:
    connection = dbapi.connect()
    cursor, closed = connection.execute("SHOW STREAMS"), connection.cursor()
    with closed:
        pass
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        closed.execute("SHOW STREAMS")
    connection.close()
    for call in (cursor.fetchall, connection.cursor, connection.commit, connection.rollback):
        with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
            call()
