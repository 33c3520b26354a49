"""Changelog positions as rows: what changes is updated, what is absent is added, nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from millstream.state.positions import Positions, create_positions, positions_table


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as opened:
        create_positions(opened, "memory")
        yield opened


def rows(connection: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    return connection.sql(f"FROM {positions_table('memory')} ORDER BY ALL").fetchall()


def test_positions_that_move_in_different_ways(connection: duckdb.DuckDBPyConnection) -> None:
    positions = Positions(connection, "memory", "Q", 1)
    positions.store({0: 5, 1: 6, 2: 7}, {0: 50})
    positions.store({0: 5, 1: 8, 2: 9}, {0: 51, 1: 80})
    positions.store({0: 5, 1: 8, 2: 10, 3: 1}, {0: 51, 1: 80})
    stored = [("Q", 1, 0, 5, 51), ("Q", 1, 1, 8, 80), ("Q", 1, 2, 10, 0), ("Q", 1, 3, 1, 0)]
    assert rows(connection) == stored


def test_queries_and_sub_topologies_have_rows_of_their_own(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    everyone = [("Q", 0), ("Q", 1), ("it's", 0)]
    for round_ in (1, 2):
        for number, (query, sub) in enumerate(everyone):
            positions = Positions(connection, "memory", query, sub)
            positions.read(0)
            positions.store({0: 10 * round_ + number}, {})
    assert rows(connection) == [("Q", 0, 0, 20, 0), ("Q", 1, 0, 21, 0), ("it's", 0, 0, 22, 0)]
    assert Positions(connection, "memory", "Q", 2).read(0) is None


def test_a_transaction_that_is_rolled_back(connection: duckdb.DuckDBPyConnection) -> None:
    positions = Positions(connection, "memory", "Q", 0)
    positions.store({0: 1}, {})
    connection.begin()
    positions.store({0: 2, 1: 2}, {})
    connection.rollback()
    positions.forget()
    positions.store({0: 2, 1: 2}, {})
    assert rows(connection) == [("Q", 0, 0, 2, 0), ("Q", 0, 1, 2, 0)]


def test_another_session_has_moved_a_partition_meanwhile(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    ours, theirs = (Positions(connection, "memory", "Q", 0) for _ in range(2))
    ours.store({0: 1}, {})
    assert theirs.read(0) == (1, 0)
    theirs.store({0: 9}, {0: 3})
    assert ours.read(0) == (9, 3)
    # As before the other one: what is stored decides, not what was stored from here.
    ours.store({0: 1}, {})
    assert rows(connection) == [("Q", 0, 0, 1, 0)]


def test_rows_that_are_gone_are_added_again(connection: duckdb.DuckDBPyConnection) -> None:
    positions = Positions(connection, "memory", "Q", 0)
    positions.store({0: 1, 1: 1}, {})
    connection.execute(f"DELETE FROM {positions_table('memory')} WHERE part = 1")
    positions.store({0: 2, 1: 2}, {})
    assert rows(connection) == [("Q", 0, 0, 2, 0), ("Q", 0, 1, 2, 0)]
