"""Pull queries of the dialect: over tables, windowed tables and streams."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from millstream import Database, History, Rows, StatementError


def ask(db: Database, sql: str) -> list[tuple[object, ...]]:
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return list(result)


def test_all_and_some(db: Database) -> None:
    everything = [("ann", 2, 4.0), ("bob", 1, 3.0), ("cleo", 1, 0.0)]
    assert sorted(ask(db, "SELECT * FROM spending;"), key=repr) == everything
    assert ask(db, "SELECT * FROM spending WHERE customer = 'bob';") == [("bob", 1, 3.0)]
    assert ask(db, "SELECT total * 2 AS twice FROM spending WHERE n > 1;") == [(8.0,)]
    assert ask(db, "SELECT s.total FROM spending s WHERE s.customer IN ('x', 'bob');") == [(3.0,)]
    assert ask(db, "SELECT * FROM spending WHERE customer = 'nobody';") == []


def test_comparisons_with_null_are_false(db: Database) -> None:
    assert ask(db, "SELECT customer FROM orders WHERE NOT amount > 0;") == [("cleo",)]
    assert ask(db, "SELECT customer FROM orders WHERE amount IS NULL;") == [("cleo",)]


def test_expressions_fail_to_null(db: Database) -> None:
    assert ask(db, "SELECT n / 0 AS x FROM spending WHERE customer = 'bob';") == [(None,)]
    assert ask(db, "SELECT CAST(customer AS INT) AS x FROM spending LIMIT 1;") == [(None,)]


def test_order_and_limit(db: Database) -> None:
    for direction, first in (("DESC", "bob"), ("ASC", "ann")):
        found = ask(db, f"SELECT customer FROM orders ORDER BY amount {direction};")
        assert (found[0], found[-1]) == ((first,), ("cleo",)), "NULLs come last"
    assert ask(db, "SELECT customer, n AS m FROM spending ORDER BY m, customer DESC LIMIT 1;") == [
        ("cleo", 1)
    ]
    assert ask(db, "SELECT * FROM spending LIMIT 0;") == []


def test_columns_and_names(db: Database) -> None:
    result = db.execute("SELECT customer, n + 1, n + 2 AS more FROM spending LIMIT 1;")
    assert isinstance(result, Rows | History) and result.schema is not None
    assert result.columns == ["CUSTOMER", "KSQL_COL_0", "MORE"]
    assert [str(column.type) for column in result.schema.columns] == ["STRING", "BIGINT", "BIGINT"]


def test_windowed_tables(db: Database) -> None:
    found = ask(db, "SELECT * FROM hourly WHERE customer = 'ann' ORDER BY WINDOWSTART;")
    assert found == [("ann", 0, 3600000, 1), ("ann", 3600000, 7200000, 1)]
    later = ask(db, "SELECT customer FROM hourly WHERE WINDOWSTART >= 3600000 ORDER BY customer;")
    assert later == [("ann",), ("cleo",)]
    assert len(ask(db, "SELECT * FROM hourly WHERE WINDOWEND <= '1970-01-01T01:00:00';")) == 2


def test_tables_without_aggregation(db: Database) -> None:
    assert sorted(ask(db, "SELECT * FROM londoners;")) == [("ann", "London"), ("cleo", "London")]
    assert len(ask(db, "SELECT * FROM homes;")) == 3
    assert ask(db, "SELECT ROWTIME FROM spending WHERE customer = 'bob';") == [(2000,)]


def test_streams(db: Database) -> None:
    assert len(ask(db, "SELECT * FROM orders;")) == 4
    assert ask(db, "SELECT item FROM orders WHERE customer = 'ann' ORDER BY amount DESC;") == [
        ("jam",),
        ("tea",),
    ]
    assert len(ask(db, "SELECT item FROM orders LIMIT 2;")) == 2
    assert ask(db, "SELECT item FROM orders WHERE amount > 100;") == []


def test_shapes(db: Database) -> None:
    result = db.execute("SELECT customer, n FROM spending ORDER BY customer;")
    assert isinstance(result, Rows | History)
    assert isinstance(result.arrow(), pa.Table) and result.arrow().num_rows == len(result) == 3
    assert isinstance(result.df(), pd.DataFrame) and list(result.df()["N"]) == [2, 1, 1]
    assert isinstance(result.pl(), pl.DataFrame) and result.pl().shape == (3, 2)
    assert result.fetchone() == ("ann", 2) and result.fetchall()[2] == ("cleo", 1)
    nothing = db.execute("SELECT * FROM spending LIMIT 0;")
    assert isinstance(nothing, Rows | History) and nothing.fetchone() is None


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM nothing;", "NOTHING does not exist"),
        ("SELECT * FROM people;", "isn't queryable"),
        ("SELECT nothing FROM spending;", "cannot be resolved"),
        ("SELECT totl FROM spending;", "Did you mean TOTAL?"),
        ("SELECT * FROM spending WHERE n;", "Should evaluate to boolean"),
        ("SELECT * FROM spending WHERE ROWPARTITION = 0;", "ROWPARTITION"),
        ("SELECT ROWOFFSET FROM orders;", "ROWOFFSET"),
        ("SELECT * FROM orders WINDOW TUMBLING (SIZE 1 HOUR);", "WINDOW"),
        ("SELECT * FROM orders PARTITION BY item;", "PARTITION BY"),
        ("SELECT 9223372036854775808 AS a FROM spending;", "Invalid numeric literal"),
        ("SELECT 9223372036854775808 AS a FROM orders ORDER BY a;", "Invalid numeric literal"),
        ("SELECT 1e999 AS a;", "overflows DOUBLE"),
    ],
)
def test_refused(db: Database, sql: str, words: str) -> None:
    with pytest.raises(StatementError) as caught:
        db.execute(sql)
    assert words in str(caught.value)


def test_all_may_be_closed_to_pull_queries(db: Database) -> None:
    db.execute("SET 'ksql.pull.queries.enable' = 'false';")
    for sql in ("SELECT * FROM spending;", "SELECT * FROM orders;", "SELECT 1 AS one;"):
        with pytest.raises(StatementError, match=r"Please set ksql\.pull\.queries\.enable=true"):
            db.execute(sql)
    db.execute("UNSET 'ksql.pull.queries.enable';")


def test_streams_may_be_closed_to_pull_queries(db: Database) -> None:
    db.execute("SET 'ksql.query.pull.stream.enabled' = 'false';")
    with pytest.raises(StatementError, match="disabled"):
        db.execute("SELECT * FROM orders;")
    db.execute("UNSET 'ksql.query.pull.stream.enabled';")


def test_limit_takes_the_first_by_key(db: Database) -> None:
    assert ask(db, "SELECT customer FROM spending LIMIT 2;") == [("ann",), ("bob",)]


@pytest.mark.parametrize("source", ["spending", "orders"])
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT ROWOFFSET AS o FROM {}", "SELECT clauses: `ROWOFFSET`"),
        (
            "SELECT ABS(ROWOFFSET), ROWPARTITION FROM {}",
            "SELECT clauses: `ROWOFFSET`, `ROWPARTITION`",
        ),
        ("SELECT * FROM {} WHERE ROWPARTITION = 1", "WHERE clauses: `ROWPARTITION`"),
        (
            "SELECT * FROM {} WHERE ROWPARTITION = 1 AND ROWOFFSET > ROWPARTITION",
            "WHERE clauses: `ROWPARTITION`, `ROWOFFSET`",
        ),
    ],
)
def test_columns_of_the_log(db: Database, query: str, words: str, source: str) -> None:
    with pytest.raises(StatementError) as caught:
        ask(db, f"{query.format(source)};")
    assert caught.value.message == (f"Pull queries don't support the following columns in {words}")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT nothing FROM {}",
        "SELECT other.total FROM {}",
        "SELECT other.* FROM {}",
        "SELECT * FROM {} WHERE nothing = 1",
        "SELECT * FROM {} WHERE other.total = 1",
        "SELECT NO_SUCH(customer) FROM {}",
        "SELECT customer + 1 FROM {}",
        "SELECT NULL FROM {}",
        "SELECT CAST(customer AS ARRAY<INT>) FROM {}",
        "SELECT LEN() FROM {}",
        "SELECT customer AS a, 1 AS a FROM {}",
        "SELECT LEN(customer) IN (true) FROM {}",
        "SELECT customer BETWEEN 1 AND 2 FROM {}",
    ],
)
@pytest.mark.parametrize("source", ["spending", "orders"])
def test_refused_as_a_push_query_is(db: Database, query: str, source: str) -> None:
    asked = query.format(source)
    with pytest.raises(StatementError) as pulled:
        ask(db, f"{asked};")
    with pytest.raises(StatementError) as pushed:
        db.execute(f"{asked} EMIT CHANGES;")
    assert pulled.value.message.removeprefix("Line: 1, Col: 8: ") == (
        pushed.value.message.removeprefix("Line: 1, Col: 8: ")
    )


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (
            "n IN (true)",
            "operator does not exist: BIGINT = BOOLEAN (true)\nHint: You might need to add explicit"
            " type casts.\nStatement: (N IN (true))",
        ),
        (
            "customer = 11",
            "Error in WHERE expression: Cannot compare CUSTOMER (STRING) to 11 (INTEGER) with"
            " EQUAL.\nStatement: (CUSTOMER = 11)",
        ),
        (
            "customer BETWEEN 1 AND 'b'",
            "Invalid expression: Cannot compare CUSTOMER (STRING) to 1 (INTEGER)",
        ),
        ("n LIKE 12", "The column type for Like condition must be VARCHAR. The column type is BIG"),
        ("n + NULL > 1", "(N + null). Arithmetic on types BIGINT and null are not supported."),
    ],
)
def test_a_condition_that_cannot_be(db: Database, condition: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        ask(db, f"SELECT * FROM spending WHERE {condition};")
    assert message in str(caught.value)
