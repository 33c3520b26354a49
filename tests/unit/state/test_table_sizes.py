"""Whether the tables of a session are small: by counting now and then, and by what was written."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from millstream.state.table_sizes import SMALL, TableSizes


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as opened:
        opened.execute('CREATE TABLE "one" (n BIGINT); CREATE TABLE "two" (n BIGINT)')
        yield opened


def fill(connection: duckdb.DuckDBPyConnection, table: str, rows: int) -> None:
    connection.execute(f'INSERT INTO "{table}" SELECT range FROM range({rows})')


def test_all_tables_count_together(connection: duckdb.DuckDBPyConnection) -> None:
    fill(connection, "one", SMALL)
    assert TableSizes(connection, ["one", "two"]).small()
    fill(connection, "two", 1)
    assert not TableSizes(connection, ["one", "two"]).small()


def test_rows_that_were_replaced_do_not_make_a_table_large(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    fill(connection, "one", 10)
    sizes = TableSizes(connection, ["one"])
    for _ in range(30):
        assert sizes.small()
        sizes.wrote(SMALL // 2)


def test_what_is_written_makes_a_table_large_at_once(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    sizes = TableSizes(connection, ["one"])
    assert sizes.small()
    fill(connection, "one", SMALL + 1)
    sizes.wrote(SMALL + 1)
    assert not sizes.small()


def test_what_others_write_is_found_within_some_transactions(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    sizes = TableSizes(connection, ["one"])
    assert sizes.small()
    fill(connection, "one", SMALL + 1)
    assert not all(sizes.small() for _ in range(100))
    connection.execute('DELETE FROM "one"')
    assert any(sizes.small() for _ in range(2000))


def test_what_was_loaded_counts_after_forgetting(connection: duckdb.DuckDBPyConnection) -> None:
    sizes = TableSizes(connection, ["one"])
    assert sizes.small()
    fill(connection, "one", SMALL + 1)
    sizes.forget()
    assert not sizes.small()
