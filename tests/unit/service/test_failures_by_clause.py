"""What becomes of a row for which an expression fails, clause by clause.

The rule (the reference of types and formats, section 12, and of the cases, 11.2 to 11.4): in SELECT
the value is NULL; WHERE, HAVING and GROUP BY leave the row out; PARTITION BY and the ON of a LEFT
JOIN have a key that is NULL; an aggregate has NULL as its argument; a table function whose argument
fails drops the row. A part that fails by itself (a cast, say) is NULL, and the rest of the
expression goes on. Each failure has an entry in the processing log, the query goes on, and
neither batches nor a query over history change what comes out.
"""

from __future__ import annotations

import pytest

from millstream import Database
from tests.unit.service.test_bad_input import problems, rows, states

SOURCES = (
    "CREATE STREAM s (k STRING KEY, n INT, a ARRAY<INT>) WITH (KAFKA_TOPIC='s', PARTITIONS=1,"
    " FORMAT='JSON');"
    "CREATE TABLE t (k STRING PRIMARY KEY, w INT) WITH (KAFKA_TOPIC='t', PARTITIONS=1,"
    " FORMAT='JSON');"
)
RECORDS = (
    "INSERT INTO t VALUES ('4', 7);",
    "INSERT INTO s VALUES ('a', 1, ARRAY[1, 2]);",
    "INSERT INTO s VALUES ('b', 0, ARRAY[0, 4]);",
    "INSERT INTO s (k) VALUES ('c');",
    "INSERT INTO s VALUES ('a', 4, FILTER(ARRAY[1], x => false));",
)
"""4 / n is 4, fails, is NULL (which is no failure), and is 1."""

CLAUSES: dict[str, tuple[str, list[tuple[object, ...]], bool]] = {
    "SELECT": (
        "STREAM o AS SELECT k, 4 / n AS q FROM s",
        [("a", 1), ("a", 4), ("b", None), ("c", None)],
        True,
    ),
    "a part in SELECT": (
        "STREAM o AS SELECT k, COALESCE(ABS(4 / n), -1) AS q FROM s",
        [("a", 1), ("a", 4), ("b", -1), ("c", -1)],
        True,
    ),
    "a part in WHERE": (
        "STREAM o AS SELECT k, n FROM s WHERE CAST(4 / n AS BIGINT) IS NULL",
        [("b", 0), ("c", None)],
        True,
    ),
    "WHERE": ("STREAM o AS SELECT k, n FROM s WHERE 4 / n > 0", [("a", 1), ("a", 4)], True),
    "NOT in WHERE": (
        "STREAM o AS SELECT k, n FROM s WHERE NOT (4 / n > 2)",
        [("a", 4), ("c", None)],
        True,
    ),
    "an argument": (
        "TABLE o AS SELECT k, COUNT(4 / n) AS c, COLLECT_LIST(4 / n) AS l FROM s GROUP BY k",
        [("a", 2, [4, 1]), ("b", 0, [None]), ("c", 0, [None])],
        True,
    ),
    "HAVING": (
        "TABLE o AS SELECT k, COUNT(*) AS c FROM s GROUP BY k HAVING 40 / SUM(n) > 0",
        [("a", 2)],
        True,
    ),
    "GROUP BY": (
        "TABLE o AS SELECT 4 / n AS g, COUNT(*) AS c FROM s GROUP BY 4 / n",
        [(1, 1), (4, 1)],
        True,
    ),
    "GROUP BY two": (
        "TABLE o AS SELECT 4 / n AS g, k, COUNT(*) AS c FROM s GROUP BY 4 / n, k",
        [(1, "a", 1), (4, "a", 1)],
        True,
    ),
    "PARTITION BY": (
        "STREAM o AS SELECT 4 / n AS p, k FROM s PARTITION BY 4 / n",
        [(1, "a"), (4, "a"), (None, "b"), (None, "c")],
        False,
    ),
    "LEFT JOIN ON": (
        "STREAM o AS SELECT t.k AS j, n, w FROM s LEFT JOIN t ON CAST(4 / n AS STRING) = t.k",
        [("1", 4, None), ("4", 1, 7), (None, 0, None), (None, None, None)],
        False,
    ),
    "JOIN ON": (
        "STREAM o AS SELECT t.k AS j, n, w FROM s JOIN t ON CAST(4 / n AS STRING) = t.k",
        [("4", 1, 7)],
        False,
    ),
    "a table function": (
        "STREAM o AS SELECT k, EXPLODE(TRANSFORM(a, x => 4 / x)) AS e FROM s",
        [("a", 2), ("a", 4)],
        False,
    ),
    "one of two table functions": (
        "STREAM o AS SELECT k, EXPLODE(a) AS e, EXPLODE(GENERATE_SERIES(1, 2, n)) AS f FROM s",
        [("a", 1, 1), ("a", 2, 2), ("a", None, 1), ("b", 0, None), ("b", 4, None)],
        False,
    ),
    "beside a table function": (
        "STREAM o AS SELECT k, EXPLODE(a) AS e, 4 / n AS q FROM s",
        [("a", 1, 4), ("a", 2, 4), ("b", 0, None), ("b", 4, None)],
        False,
    ),
}
"""The query, its rows, and whether the same SELECT is allowed over history."""


def check(db: Database, clause: str) -> None:
    sql, expected, past = CLAUSES[clause]
    assert rows(db, "SELECT * FROM o;") == sorted(expected, key=repr)
    assert states(db)["O"] == "RUNNING"
    messages = {str(row["message"]) for row in problems(db, "EXPRESSION")}
    assert messages
    if clause in ("WHERE", "HAVING"):
        assert messages == {f"the expression of {clause} failed"}
    if past:
        assert rows(db, sql.split(" AS ", 1)[1] + ";") == sorted(expected, key=repr)


@pytest.mark.parametrize("clause", CLAUSES)
@pytest.mark.parametrize("single", [True, False], ids=["one record a batch", "all in one batch"])
def test_what_becomes_of_the_row(db: Database, clause: str, single: bool) -> None:
    query = f"CREATE {CLAUSES[clause][0]};"
    db.execute(SOURCES)
    if single:
        db.execute(query)
    for record in RECORDS:
        db.execute(record)
        db.wait()
    if not single:
        db.execute(query)
        db.wait()
    check(db, clause)


def test_arrays_without_elements_drop_the_row_and_are_no_failure(db: Database) -> None:
    db.execute(
        SOURCES + "CREATE STREAM e AS SELECT k, EXPLODE(a) AS x FROM s;"
        "CREATE STREAM c AS SELECT k, CUBE_EXPLODE(a) AS x FROM s;"
        "INSERT INTO s (k) VALUES ('a'); INSERT INTO s VALUES ('b', 0, FILTER(ARRAY[1], x => 1>2));"
    )
    db.wait()
    assert rows(db, "SELECT * FROM e;") == []
    assert rows(db, "SELECT * FROM c;") == [("b", [])], "the one subset of nothing"
    assert problems(db, "EXPRESSION") == []
