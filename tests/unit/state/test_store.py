"""The store: tables of programs, transactions, positions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.model.errors import StatementError
from millstream.operators.program import StateTable
from millstream.state.bulk_table import drop_leftovers
from millstream.state.store import Session, Store

COUNTS = StateTable("counts", (("K", "BIGINT"),), (("C", "BIGINT"),))
NESTED = StateTable("nested", (("K", "STRUCT(A INTEGER)"),), (("C", "BIGINT"),))


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def counts(*rows: tuple[int, int, int], deleted: bool = False) -> pa.Table:
    parts, keys, values = zip(*rows, strict=True)
    table = pa.table(
        {
            "$part": pa.array(parts, pa.int32()),
            "K": pa.array(keys, pa.int64()),
            "C": pa.array(values, pa.int64()),
            "$rowtime": pa.array([0] * len(rows), pa.int64()),
        }
    )
    return table.append_column("$deleted", pa.array([True] * len(rows))) if deleted else table


def rows(store: Store, name: str = "counts") -> list[tuple[object, ...]]:
    cursor = store.cursor()
    text = f'SELECT "$part", K, C FROM {store.table("Q", 0, name)} ORDER BY ALL'
    found = cursor.sql(text).fetchall()
    cursor.close()
    return found


def session(store: Store) -> Session:
    return store.session("Q", 0, [COUNTS, NESTED])


def test_readers_see_committed_rows_only(store: Store) -> None:
    writing = session(store)
    writing.upsert("counts", counts((0, 1, 5), (0, 2, 6)))
    assert rows(store) == []
    writing.commit({0: 3})
    assert rows(store) == [(0, 1, 5), (0, 2, 6)]


def test_an_upsert_replaces_and_deletes_by_key(store: Store) -> None:
    writing = session(store)
    writing.upsert("counts", counts((0, 1, 5), (0, 2, 6), (1, 1, 7)))
    writing.upsert("counts", counts((0, 1, 8)))
    writing.upsert("counts", counts((0, 2, 0), deleted=True))
    writing.upsert("counts", counts((0, 9, 0), deleted=True))
    writing.commit({})
    assert rows(store) == [(0, 1, 8), (1, 1, 7)]


def test_keys_that_have_no_index_work_the_same(store: Store) -> None:
    writing = session(store)
    for value in (1, 2):
        table = pa.table(
            {
                "$part": pa.array([0, 0], pa.int32()),
                "K": pa.array([{"A": 1}, {"A": None}], pa.struct([("A", pa.int32())])),
                "C": pa.array([value, value], pa.int64()),
                "$rowtime": pa.array([0, 0], pa.int64()),
            }
        )
        writing.upsert("nested", table)
    writing.commit({})
    assert rows(store, "nested") == [(0, {"A": 1}, 2), (0, {"A": None}, 2)]


def test_positions_belong_to_a_partition_and_commit_with_the_rows(store: Store) -> None:
    writing = session(store)
    assert writing.position(0) is None
    writing.commit({0: 7, 1: 9})
    writing.upsert("counts", counts((0, 1, 5)))
    writing.rollback()
    assert (writing.position(0), writing.position(1)) == ((7, 0), (9, 0))
    assert rows(store) == []


def test_two_sessions_write_their_partitions_side_by_side(store: Store) -> None:
    one, two = session(store), session(store)
    one.upsert("counts", counts((0, 1, 5)))
    two.upsert("counts", counts((1, 1, 6)))
    two.commit({1: 1})
    one.commit({0: 1})
    assert rows(store) == [(0, 1, 5), (1, 1, 6)]


def test_clearing_a_partition_leaves_the_others(store: Store) -> None:
    writing = session(store)
    writing.upsert("counts", counts((0, 1, 5), (1, 1, 6)))
    writing.clear(0)
    writing.commit({})
    assert rows(store) == [(1, 1, 6)]


def test_state_survives_reopening_and_goes_with_its_query(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with Store.open(path) as first:
        writing = session(first)
        writing.upsert("counts", counts((0, 1, 5)))
        writing.commit({0: 2})
        writing.close()
    with Store.open(path) as second:
        writing = session(second)
        assert (writing.position(0), rows(second)) == ((2, 0), [(0, 1, 5)])
        writing.close()
        second.drop_query("Q")
        again = session(second)
        assert (again.position(0), rows(second)) == (None, [])
        again.close()


def test_many_rows_are_replaced_deleted_and_added_at_once(store: Store) -> None:
    writing = session(store)
    writing.upsert("counts", counts(*((0, key, 0) for key in range(3000, 0, -1))))
    writing.upsert("counts", counts(*((0, key, 1) for key in range(1000, 4001))))
    writing.upsert("counts", counts(*((0, key, 0) for key in range(1, 2501)), deleted=True))
    writing.commit({})
    assert rows(store) == [(0, key, 1) for key in range(2501, 4001)]


def test_what_has_no_room_goes_to_a_folder_beside_the_file(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state.db", memory_limit="64MB") as store:
        cursor = store.cursor()
        cursor.execute(
            "CREATE TEMP TABLE t AS SELECT i, md5(i::VARCHAR) || md5((i + 1)::VARCHAR) AS x"
            " FROM range(2_000_000) r(i)"
        )
        assert any((tmp_path / "state.db.tmp").iterdir())
        assert cursor.sql("SELECT count(*), max(i) FROM t").fetchall() == [(2_000_000, 1_999_999)]
        cursor.close()
    assert not (tmp_path / "state.db.tmp").exists()


def test_a_limit_that_is_no_size(tmp_path: Path) -> None:
    with pytest.raises(StatementError, match="memory_limit 'much'"):
        Store.open(tmp_path / "state.db", memory_limit="much")


def test_statements_are_prepared_anew_when_tables_have_changed(store: Store) -> None:
    """DuckDB would plan them at each run from then on, which takes longer than running them."""

    def prepared() -> set[str]:
        found = writing.connection.sql("SELECT name FROM duckdb_prepared_statements()").fetchall()
        return {name for (name,) in found}

    def write(times: int) -> None:
        for position in range(times):
            writing.upsert("counts", counts((0, 1, position)))
            writing.commit({0: position})

    writing = session(store)
    write(4)
    before = prepared()
    write(4)
    assert before and prepared() == before, "they stay while nothing changes"
    for change in (
        lambda: store.session("R", 0, [COUNTS]).close(),
        lambda: store.widen("R", 0, COUNTS),
        lambda: store.drop_query("R"),
        lambda: drop_leftovers(store),
    ):
        change()
        write(1)
        assert prepared().isdisjoint(before)
        write(4)
        before = prepared()
        assert before
    assert rows(store) == [(0, 1, 3)]
