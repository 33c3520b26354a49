"""Stars, names and keys in the SELECT lists of pull queries.

The rule: a pull query's list is expanded and named like that of any other query (reference
sql-statements §3, §4, §8 and RUNNER.md 11.1), window bounds included; headers stand behind the
value. In ksqlDB's header of a pull query on a table those columns are keys that are *named* like a
key or a window bound of the table, as `QueryLogicalPlanUtil` makes that schema from the aliases.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream
from millstream import Database, History, Rows, StatementError

SCRIPT = """
CREATE TABLE parts (id STRING PRIMARY KEY, n STRUCT<a INT, b STRING, c STRUCT<d INT, e INT>>,
    l ARRAY<STRUCT<x INT>>, b INT)
  WITH (KAFKA_TOPIC='parts', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE m AS SELECT * FROM parts;
CREATE STREAM s (k STRING KEY, n STRUCT<a INT, b STRING>) WITH (KAFKA_TOPIC='s', PARTITIONS=1,
  VALUE_FORMAT='JSON');
CREATE STREAM h (k STRING KEY, h BYTES HEADER('h'), v INT) WITH (KAFKA_TOPIC='h', PARTITIONS=1,
  VALUE_FORMAT='JSON');
CREATE SOURCE TABLE th (k STRING PRIMARY KEY, h BYTES HEADER('h'), v INT) WITH (KAFKA_TOPIC='h',
  VALUE_FORMAT='JSON');
CREATE TABLE w AS SELECT k, COUNT(*) AS c FROM s WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k;
INSERT INTO parts VALUES
  ('full', STRUCT(a := 1, b := 'x', c := STRUCT(d := 2, e := 3)), ARRAY[STRUCT(x := 4)], 5);
INSERT INTO parts (id) VALUES ('none');
INSERT INTO s (rowtime, k, n) VALUES (1000, 'key', STRUCT(a := 1, b := 'x'));
"""


@pytest.fixture(scope="module")
def parts() -> Iterator[Database]:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as database:
        database.execute(SCRIPT)
        database.wait()
        yield database


def ask(db: Database, sql: str) -> Rows | History:
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return result


@pytest.mark.parametrize(
    ("items", "columns", "row"),
    [
        ("n->*", "A B C", (1, "x", {"D": 2, "E": 3})),
        ("m.n->*", "A B C", (1, "x", {"D": 2, "E": 3})),
        ("n->c->*", "D E", (2, 3)),
        ("l[1]->*", "X", (4,)),
        ("STRUCT(p := id, q := b)->*", "P Q", ("full", 5)),
        ("id, n->*, l[1]->*", "ID A B C X", ("full", 1, "x", {"D": 2, "E": 3}, 4)),
        ("n->a AS z, n->c->*, id", "Z D E ID", (1, 2, 3, "full")),
        ("m.*, n->a", "ID N L B A", None),
        ("*, rowtime", "ID N L B ROWTIME", None),
        ("n->b, n->b, b", "B_1 B_2 B", ("x", "x", 5)),
        ("1, n->a, 2", "KSQL_COL_0 A KSQL_COL_1", (1, 1, 2)),
    ],
)
def test_lists(parts: Database, items: str, columns: str, row: tuple[object, ...] | None) -> None:
    found = ask(parts, f"SELECT {items} FROM m WHERE id = 'full';")
    assert found.columns == columns.split()
    if row is not None:
        assert list(found) == [row]
    empty = ask(parts, f"SELECT {items} FROM m WHERE id = 'nothing';")
    assert (empty.columns, list(empty)) == (columns.split(), [])


def test_the_fields_of_no_struct_are_null(parts: Database) -> None:
    found = ask(parts, "SELECT id, n->*, l[1]->* FROM m WHERE id = 'none';")
    assert list(found) == [("none", None, None, None, None)]


def test_streams(parts: Database) -> None:
    found = ask(parts, "SELECT k, n->*, rowtime FROM s;")
    assert (found.columns, list(found)) == (["K", "A", "B", "ROWTIME"], [("key", 1, "x", 1000)])


def test_headers_are_behind_the_value(parts: Database) -> None:
    assert ask(parts, "SELECT * FROM h;").columns == ["K", "V", "H"]
    assert ask(parts, "SELECT * FROM th;").columns == ["K", "V", "H"]
    assert ask(parts, "SELECT x.*, 1 AS one FROM th x;").columns == ["K", "V", "H", "ONE"]


@pytest.mark.parametrize(
    ("items", "schema"),
    [
        ("*", "`K` STRING KEY, `WINDOWSTART` BIGINT KEY, `WINDOWEND` BIGINT KEY, `C` BIGINT"),
        ("c, windowend, k", "`C` BIGINT, `WINDOWEND` BIGINT KEY, `K` STRING KEY"),
        ("k AS name, c", "`NAME` STRING, `C` BIGINT"),
        ("UCASE(k) AS k, c", "`K` STRING KEY, `C` BIGINT"),
        ("windowstart AS first", "`FIRST` BIGINT"),
        ("windowstart AS windowstart", "`WINDOWSTART` BIGINT KEY"),
    ],
)
def test_keys_are_those_named_like_one(parts: Database, items: str, schema: str) -> None:
    assert str(ask(parts, f"SELECT {items} FROM w WHERE k = 'key';").schema) == schema


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT b->* FROM m", "Cannot expand B->*: it is INTEGER, not a STRUCT."),
        ("SELECT x.* FROM m", "Line: 1, Col: 8: 'X' is not a valid stream/table name or alias."),
        ("SELECT m.* FROM m x", "'M' is not a valid stream/table name or alias."),
        ("SELECT *, id FROM m", "Duplicate key columns found in schema: `ID` STRING KEY"),
        ("SELECT n->*, b FROM m", "Duplicate value columns found in schema: `B` STRING, `B` INT"),
        ("SELECT *, windowstart FROM w", "Duplicate key columns found in schema: `WINDOWSTART`"),
        ("SELECT k AS rowtime FROM w", "`ROWTIME` is a reserved column name."),
        ("SELECT STRUCT(a := rowoffset)->* FROM m", "in SELECT clauses: `ROWOFFSET`"),
    ],
)
def test_refused(parts: Database, query: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        parts.execute(f"{query};")
    assert message in caught.value.message
