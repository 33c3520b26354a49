"""A record that cannot be read is no row, whichever columns a query uses and wherever it runs."""

from __future__ import annotations

import pytest

from millstream import Database, History, Rows, Stream
from tests.bad_records import STREAMS, TABLES, BadRecords

TIMES = (1, 12)
"""Few records are read one by one, many at once."""


def rows(db: Database, sql: str) -> list[tuple[object, ...]]:
    found = db.execute(sql)
    assert isinstance(found, Rows | History)
    return list(found)


def names(source: BadRecords) -> list[str]:
    return ["", *(f"{part.split()[0]}, " for part in source.columns.split(", "))]


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("source", STREAMS, ids=lambda source: source.name)
def test_streams(db: Database, source: BadRecords, times: int) -> None:
    db.execute(source.create())
    columns = names(source)
    unkeyed = " PARTITION BY NULL" if " KEY" in source.columns else ""
    for number, column in enumerate(columns):
        db.execute(
            f"CREATE STREAM d{number} WITH (VALUE_FORMAT='JSON') AS "
            f"SELECT {column}ROWTIME AS o FROM {source.name}{unkeyed};"
        )
    groups = "VALUE_FORMAT='KAFKA'" not in source.formats
    if groups:
        db.execute(
            "CREATE TABLE c WITH (KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON') AS SELECT "
            f"ROWPARTITION AS p, COUNT(*) AS n FROM {source.name} GROUP BY ROWPARTITION;"
        )
    source.send(db, times)
    db.wait()
    usable = [(offset,) for offset in source.usable(times)]
    for number, column in enumerate(columns):
        assert [row for row in rows(db, f"SELECT o FROM d{number};") if row != (None,)] == usable
        past = f"SELECT {column}ROWTIME AS o FROM {source.name};"
        assert [row[-1:] for row in rows(db, past)] == usable, column
        live = db.execute(f"{past[:-1]} EMIT CHANGES LIMIT {len(usable)};")
        assert isinstance(live, Stream)
        assert [row[-1:] for row in live] == usable, column
        counted = f"SELECT {column and f'COUNT({column[:-2]}), '}COUNT(*) FROM {source.name};"
        assert rows(db, counted)[0][-1] == len(usable)
    if groups:
        assert rows(db, "SELECT n FROM c;") == [(len(usable),)]


@pytest.mark.parametrize("source", TABLES, ids=lambda source: source.name)
def test_tables(db: Database, source: BadRecords) -> None:
    """A record that cannot be read changes nothing, and one without a key or value is no row."""
    key, *columns = (name[:-2] for name in names(source) if name)
    db.execute(source.create("TABLE") + f"CREATE TABLE whole AS SELECT * FROM {source.name};")
    for column in columns:
        db.execute(f"CREATE TABLE with_{column} AS SELECT {key}, {column} FROM {source.name};")
    source.send(db, 3)
    db.wait()
    past = sorted(rows(db, f"SELECT * FROM {source.name} AS OF TIMESTAMP 100000;"), key=repr)
    assert past and sorted(rows(db, "SELECT * FROM whole;"), key=repr) == past
    for column in columns:
        assert len(rows(db, f"SELECT * FROM with_{column};")) == len(past)
