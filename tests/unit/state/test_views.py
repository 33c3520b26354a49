"""What SQL of a session sees by name: other rows at each run, with and without preparing."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from millstream.state.views import FEW, Views

ADDED = 'SELECT n + 1 AS n FROM "rows" ORDER BY n'


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as opened:
        yield opened


def rows(*numbers: int, kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"n": pa.array(numbers, kind or pa.int64())})


def prepared(connection: duckdb.DuckDBPyConnection) -> int:
    return len(connection.sql("FROM duckdb_prepared_statements()").fetchall())


@pytest.mark.parametrize("few", [True, False])
def test_each_run_finds_the_rows_of_now(
    connection: duckdb.DuckDBPyConnection, *, few: bool
) -> None:
    views = Views(connection)
    for number in range(5):
        views.show("rows", rows(*range(number)))
        expected = rows(*range(1, number + 1))
        assert views.query(ADDED, few=few).equals(expected)


def test_statements_that_change_tables(connection: duckdb.DuckDBPyConnection) -> None:
    views = Views(connection)
    connection.execute("CREATE TABLE kept (n BIGINT PRIMARY KEY)")
    for number in range(5):
        views.show("rows", rows(number, number + 1))
        views.execute('INSERT OR REPLACE INTO kept SELECT n FROM "rows"', few=True)
    assert prepared(connection) == 1
    assert connection.sql("SELECT count(*) FROM kept").fetchall() == [(6,)]


def test_a_name_may_come_to_stand_for_other_columns(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    views = Views(connection)
    for kind in (pa.int64(), pa.int64(), pa.int64(), pa.float64(), pa.float64(), pa.float64()):
        views.show("rows", rows(7, kind=kind))
        found = views.query(ADDED, few=True)
        assert found.equals(rows(8, kind=kind))


def test_what_fails_is_the_statement_alone(connection: duckdb.DuckDBPyConnection) -> None:
    views = Views(connection)
    text = 'SELECT CAST(t AS INT) AS n FROM "texts"'
    for value in ("1", "2", "three", "4"):
        views.show("texts", pa.table({"t": [value]}))
        if value == "three":
            with pytest.raises(duckdb.ConversionException):
                views.query(text, few=True)
        else:
            assert views.query(text, few=True)["n"].to_pylist() == [int(value)]


def test_names_are_given_anew_after_a_transaction(connection: duckdb.DuckDBPyConnection) -> None:
    views = Views(connection)
    connection.execute("BEGIN")
    for number in range(3):
        views.show("rows", rows(number))
        assert views.query(ADDED, few=True).equals(rows(number + 1))
    connection.execute("ROLLBACK")
    views.forget()
    assert not prepared(connection)
    for number in range(3):
        views.show("rows", rows(number))
        assert views.query(ADDED, few=True).equals(rows(number + 1))


def test_many_rows_are_let_go_of(connection: duckdb.DuckDBPyConnection) -> None:
    views = Views(connection)
    views.show("rows", rows(*range(FEW + 1)))
    views.show("few", rows(1))
    views.release()
    with pytest.raises(duckdb.CatalogException):
        views.query(ADDED, few=False)
    assert views.query('FROM "few"', few=False).num_rows == 1


def test_a_name_may_come_to_stand_for_many_rows_and_for_few_again(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    views = Views(connection)
    for size in (1, 2, 3, FEW + 1, 1, FEW + 2, 2, 3):
        views.show("rows", rows(*range(size)))
        assert views.query(ADDED, few=size <= FEW).num_rows == size
        views.release()


def test_many_rows_are_joined_as_many(connection: duckdb.DuckDBPyConnection) -> None:
    views = Views(connection)
    views.show("rows", rows(*range(FEW + 1)))
    plan = views.query('EXPLAIN SELECT * FROM "rows"', few=False)["explain_value"][0].as_py()
    assert f"~{FEW + 1:,} rows" in plan
