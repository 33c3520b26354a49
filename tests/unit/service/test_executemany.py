"""INSERT of several rows, and `executemany`: one transaction where it is an INSERT."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import Database, Done, History, MillstreamError, Rows

STREAM = (
    "CREATE STREAM s (k STRING KEY, i INT, a ARRAY<INT>) "
    "WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');"
)


def found(db: Database, columns: str = "k, i") -> list[tuple[Any, ...]]:
    result = db.execute(f"SELECT {columns} FROM s;")
    assert isinstance(result, Rows | History)
    return sorted(result, key=repr)


@pytest.fixture
def s(db: Database) -> Database:
    db.execute(STREAM)
    return db


def refused(db: Database, sql: str, rows: Any) -> str:
    before = found(db)
    with pytest.raises(MillstreamError) as caught:
        db.executemany(sql, rows)
    assert caught.value.code != MillstreamError.code
    assert found(db) == before
    return str(caught.value)


def test_an_insert_of_several_rows(s: Database) -> None:
    done = s.execute(
        "INSERT INTO s (k, ROWTIME, i) VALUES ('a', 5, 1), (UCASE('b'), 7, 1 + 1), (NULL, 9, ?);",
        [3],
    )
    assert done == Done("3 rows inserted")
    assert found(s, "k, i, ROWTIME") == [("B", 2, 7), ("a", 1, 5), (None, 3, 9)]


@pytest.mark.parametrize(
    "rows",
    ["('a', 1), ('b', 'x')", "('a', 1), ('b')", "('a', 1), ('b', 1, 2)", "('a', 1), ('b', 1 / 0)"],
)
def test_an_insert_with_an_invalid_row_inserts_nothing(s: Database, rows: str) -> None:
    with pytest.raises(MillstreamError):
        s.execute(f"INSERT INTO s (k, i) VALUES {rows};")
    assert found(s) == []


def test_rows_of_tables_need_their_keys(db: Database) -> None:
    db.execute(
        "CREATE TABLE t (k INT PRIMARY KEY, v INT) "
        "WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    db.execute("CREATE TABLE q AS SELECT * FROM t;")
    with pytest.raises(MillstreamError, match="primary key"):
        db.execute("INSERT INTO t VALUES (1, 1), (NULL, 2);")
    with pytest.raises(MillstreamError, match="must not be negative"):
        db.execute("INSERT INTO t (k, ROWTIME) VALUES (1, 1), (1, -1);")
    db.execute("INSERT INTO t VALUES (1, 1), (2, 2), (1, 3);")
    assert sorted(db.execute("SELECT * FROM q;")) == [(1, 3), (2, 2)]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("INSERT INTO s (k, i) VALUES (?, ?)", [("a", 1), ["b", None]]),
        ("INSERT INTO s (i, k) VALUES ($2, $1);", [("a", 1), ("b", None)]),
        ("INSERT INTO s (k, i) VALUES (:k, :i)", [{"i": 1, "k": "a"}, {"k": "b", "i": None}]),
        ("INSERT INTO s (k, i) VALUES (LCASE(?), CAST(? AS INT))", [("A", 1), ("B", None)]),
        (
            "INSERT INTO s (k, i) VALUES (:k, CASE WHEN :k = 'a' THEN 1 END)",
            [{"k": "a"}, {"k": "b"}],
        ),
        ("INSERT INTO s (k, i) VALUES (?, 1), ('b', ?)", [("a", None)]),
    ],
)
def test_rows_of_parameters(s: Database, sql: str, rows: Any) -> None:
    assert s.executemany(sql, iter(rows)) == len(rows)
    assert found(s) == [("a", 1), ("b", None)]


def test_values_without_literals(s: Database) -> None:
    s.executemany("INSERT INTO s VALUES (?, ?, ?)", [("a", 1, [1, 2]), ("b", 2, [])])
    assert found(s, "k, a") == [("a", [1, 2]), ("b", [])]


def test_it_is_one_transaction(s: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = s.engine.inserts.writer
    appends = []
    append = writer.append
    monkeypatch.setattr(writer, "append", lambda records: (appends.append(1), append(records)))
    s.executemany("INSERT INTO s (k, i) VALUES (?, ?)", [("a", n) for n in range(10)])
    s.executemany("INSERT INTO s (k, i) VALUES (?, ? + 1)", [("a", n) for n in range(10)])
    s.execute("INSERT INTO s (k, i) VALUES ('a', 1), ('b', 2), ('c', 3)")
    assert len(appends) == 3


@pytest.mark.parametrize(
    ("sql", "rows", "told"),
    [
        ("INSERT INTO s (k, i) VALUES (?, ?)", [("a", 1), ("b", "x")], "row 2 "),
        ("INSERT INTO s (k, i) VALUES (?, ?)", [("a", 1), ("b",)], "Row 2 of the parameters"),
        ("INSERT INTO s (k, i) VALUES (?, ?)", [("a", 1), ("b", 1, 2)], "3 values"),
        ("INSERT INTO s (k, i) VALUES (:k, :i)", [{"k": 1, "j": 1}], "no value for one"),
        ("INSERT INTO s (k, i) VALUES (:k, :i)", [("a", 1)], "no value for one"),
        ("INSERT INTO s (k, i) VALUES (?, ?)", [{"k": "a", "i": 1}], "no value for one"),
        ("INSERT INTO s (k, i) VALUES (?, ? + 1)", [("a", 1), ("b", "x")], "Row 2 of the"),
        ("INSERT INTO s (k, i) VALUES (?, ? + 1)", [("a", 1), ("b",)], "Row 2 of the"),
        ("INSERT INTO s (k, i) VALUES (?, ?)", ["ab"], "Row 1 of the parameters"),
        ("INSERT INTO s (k, i) VALUES (?, ?)", [5], "of type int"),
        ("INSERT INTO s (k, z) VALUES (?, ?)", [("a", 1)], "`Z` does not exist"),
        ("INSERT INTO s (k) VALUES (?, ?)", [("a", 1)], "Got 2 values"),
        ("INSERT INTO none (k) VALUES (?)", [("a",)], "unknown stream/table: `NONE`"),
        ("INSERT INTO s (k) VALUES (?", [("a",)], "Syntax error"),
        ("SELECT * FROM s WHERE i = ?", [(1,)], "without rows"),
        ("SELECT * FROM s EMIT CHANGES LIMIT ?", [(1,)], "without rows"),
    ],
)
def test_refused_rows(s: Database, sql: str, rows: Any, told: str) -> None:
    assert told in refused(s, sql, rows)


def test_no_rows_execute_nothing(s: Database) -> None:
    assert s.executemany("INSERT INTO s (k, i) VALUES (?, ?)", []) == 0
    assert found(s) == []


def test_other_statements_are_executed_one_by_one(s: Database) -> None:
    with pytest.raises(MillstreamError, match="Row 3 of the parameters"):
        s.executemany("SET 'auto.offset.reset' = ?;", [("latest",), ("earliest",), ("never",)])
    assert s.session.properties["auto.offset.reset"] == "earliest"
