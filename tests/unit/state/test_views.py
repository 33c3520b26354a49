"""What SQL of a session sees by name: other rows at each run, with and without preparing."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from millstream.state.statements import arrow_of
from millstream.state.views import FEW, HANDFUL, Views

ADDED = 'SELECT n + 1 AS n FROM "rows" ORDER BY n'


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as opened:
        yield opened


def rows(*numbers: int, kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"n": pa.array(numbers, kind or pa.int64())})


def prepared(connection: duckdb.DuckDBPyConnection) -> int:
    return len(connection.sql("FROM duckdb_prepared_statements()").fetchall())


@pytest.mark.parametrize("size", [1, HANDFUL + 1, FEW + 1])
def test_each_run_finds_the_rows_of_now(connection: duckdb.DuckDBPyConnection, size: int) -> None:
    views = Views(connection)
    for number in range(5):
        views.show("rows", rows(*range(number)))
        expected = rows(*range(1, number + 1))
        assert views.query(ADDED, size=size).equals(expected)


def test_statements_that_change_tables(connection: duckdb.DuckDBPyConnection) -> None:
    views = Views(connection)
    connection.execute("CREATE TABLE kept (n BIGINT PRIMARY KEY)")
    for number in range(5):
        views.show("rows", rows(number, number + 1))
        views.execute('INSERT OR REPLACE INTO kept SELECT n FROM "rows"', size=1)
    assert prepared(connection) == 1
    assert connection.sql("SELECT count(*) FROM kept").fetchall() == [(6,)]


def test_a_name_may_come_to_stand_for_other_columns(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    views = Views(connection)
    for kind in (pa.int64(), pa.int64(), pa.int64(), pa.float64(), pa.float64(), pa.float64()):
        views.show("rows", rows(7, kind=kind))
        found = views.query(ADDED, size=1)
        assert found.equals(rows(8, kind=kind))


def test_what_fails_is_the_statement_alone(connection: duckdb.DuckDBPyConnection) -> None:
    views = Views(connection)
    text = 'SELECT CAST(t AS INT) AS n FROM "texts"'
    for value in ("1", "2", "three", "4"):
        views.show("texts", pa.table({"t": [value]}))
        if value == "three":
            with pytest.raises(duckdb.ConversionException):
                views.query(text, size=1)
        else:
            assert views.query(text, size=1)["n"].to_pylist() == [int(value)]


def test_a_handful_of_rows_and_small_tables_keep_their_plan(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    views = Views(connection)
    for _ in range(3):
        views.show("rows", rows(1))
        views.query(ADDED, size=1)
        views.query(ADDED, size=HANDFUL + 1)
    assert prepared(connection) == 1
    views.small = False
    for number in range(3):
        views.show("rows", rows(number))
        assert views.query(ADDED, size=1).equals(rows(number + 1))
    assert prepared(connection) == 1
    assert connection.sql("SELECT current_setting('enable_optimizer')").fetchall() == [(True,)]


def test_the_optimiser_is_back_after_a_statement_that_cannot_be_prepared(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    views = Views(connection)
    views.show("rows", rows(1))
    connection.execute("CREATE TABLE kept (n BIGINT)")
    for _ in range(2):
        connection.execute("BEGIN")
        views.execute('INSERT INTO kept SELECT n FROM "rows"', size=1)
        connection.execute("DROP TABLE kept")
        with pytest.raises(duckdb.Error):
            for _ in range(2):
                views.execute('INSERT INTO kept SELECT n + 1 FROM "rows"', size=1)
        connection.execute("ROLLBACK")
        views.forget()
        views.show("rows", rows(1))
    assert connection.sql("SELECT current_setting('enable_optimizer')").fetchall() == [(True,)]


def test_names_are_given_anew_after_a_transaction(connection: duckdb.DuckDBPyConnection) -> None:
    views = Views(connection)
    connection.execute("BEGIN")
    for number in range(3):
        views.show("rows", rows(number))
        assert views.query(ADDED, size=1).equals(rows(number + 1))
    connection.execute("ROLLBACK")
    views.forget()
    assert not prepared(connection)
    for number in range(3):
        views.show("rows", rows(number))
        assert views.query(ADDED, size=1).equals(rows(number + 1))


def test_many_rows_are_let_go_of(connection: duckdb.DuckDBPyConnection) -> None:
    views = Views(connection)
    views.show("rows", rows(*range(FEW + 1)))
    views.show("few", rows(1))
    views.release()
    with pytest.raises(duckdb.CatalogException):
        views.query(ADDED, size=FEW + 1)
    assert views.query('FROM "few"', size=FEW + 1).num_rows == 1


def test_a_name_may_come_to_stand_for_many_rows_and_for_few_again(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    views = Views(connection)
    for size in (1, 2, 3, FEW + 1, 1, FEW + 2, 2, 3):
        views.show("rows", rows(*range(size)))
        assert views.query(ADDED, size=size).num_rows == size
        views.release()


def test_many_rows_are_joined_as_many(connection: duckdb.DuckDBPyConnection) -> None:
    views = Views(connection)
    views.show("rows", rows(*range(FEW + 1)))
    plan = views.query('EXPLAIN SELECT * FROM "rows"', size=FEW + 1)["explain_value"][0].as_py()
    assert f"~{FEW + 1:,} rows" in plan


def test_rows_of_prepared_statements_are_those_of_relations(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """By DuckDB's own way and, if a later one lacks it, by the public one."""
    text = (
        "SELECT 1::DECIMAL(9, 2) AS d, ['a', NULL] AS l, DATE '2024-02-29' AS day, NULL::BLOB AS b"
    )
    connection.execute(f"PREPARE p AS {text}")
    expected = connection.sql(text).to_arrow_table()
    assert hasattr(connection, "_submit"), "a new DuckDB: look for a public way to read EXECUTE"
    assert arrow_of(connection, "EXECUTE p").equals(expected)
    assert arrow_of(Public(connection), "EXECUTE p").equals(expected)  # type: ignore[arg-type]


class Public:
    """A connection without what is not public."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.execute = connection.execute
