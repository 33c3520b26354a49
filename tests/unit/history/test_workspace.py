"""Where tasks work: their states may be let go after it, and runs share it one after another."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pytest

import millstream
from millstream.functions.catalogue import builtin_catalogue
from millstream.history.workspace import Workspace, Workspaces
from millstream.query.results import History

LIMIT = "1GB"
RECORDS = 6


def test_a_state_that_is_let_go_after_its_workspace() -> None:
    workspace = Workspace(builtin_catalogue())
    with workspace.store() as store:
        assert store.cursor().sql("SELECT 1").fetchall() == [(1,)]
        workspace.close()
        with pytest.raises(duckdb.Error):
            store.cursor()


def test_the_next_run_gets_the_one_that_was_given_back() -> None:
    workspaces, functions = Workspaces(), builtin_catalogue()
    with workspaces.lent(functions, LIMIT) as first, workspaces.lent(functions, LIMIT) as other:
        assert first is not other
    with workspaces.lent(functions, LIMIT) as again:
        assert again is first
    workspaces.close()
    assert first.closed
    assert other.closed


def test_no_more_than_two_are_kept() -> None:
    workspaces, functions = Workspaces(), builtin_catalogue()
    with (
        workspaces.lent(functions, LIMIT) as one,
        workspaces.lent(functions, LIMIT) as two,
        workspaces.lent(functions, LIMIT) as three,
    ):
        pass
    assert [each.closed for each in (one, two, three)].count(True) == 1
    workspaces.close()


def test_one_of_other_functions_or_of_another_limit_is_not_lent() -> None:
    workspaces, functions = Workspaces(), builtin_catalogue()
    with workspaces.lent(functions, LIMIT) as first:
        pass
    with workspaces.lent(functions, "50MiB") as smaller:
        assert smaller is not first
    with workspaces.lent(functions.without_processors(()), LIMIT) as of_others:
        assert of_others is not first
    workspaces.close()


def test_one_whose_run_failed_is_closed() -> None:
    workspaces, functions = Workspaces(), builtin_catalogue()
    with pytest.raises(ZeroDivisionError), workspaces.lent(functions, LIMIT) as failed:
        _ = 1 / 0
    assert failed.closed
    with workspaces.lent(functions, LIMIT) as next_one:
        assert next_one is not failed
    workspaces.close()


def test_one_with_a_state_in_use_is_closed() -> None:
    workspaces, functions = Workspaces(), builtin_catalogue()
    with workspaces.lent(functions, LIMIT) as used:
        kept = used.store()
        kept.__enter__()
    assert used.closed
    kept.__exit__(None, None, None)
    workspaces.close()


def test_one_that_is_lent_while_they_are_closed_is_closed_afterwards() -> None:
    workspaces = Workspaces()
    with workspaces.lent(builtin_catalogue(), LIMIT) as lent:
        workspaces.close()
        assert not lent.closed
    assert lent.closed


@pytest.fixture
def db(tmp_path: Path) -> millstream.Database:
    made = millstream.connect(tmp_path / "shop.db")
    made.execute(
        "CREATE STREAM s (k STRING KEY, v BIGINT)"
        " WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');"
    )
    for number in range(RECORDS):
        made.execute(f"INSERT INTO s VALUES ('{number % 2}', {number});")
    return made


def test_a_reader_that_stops_early_gives_it_back_without_its_state(db: millstream.Database) -> None:
    engine = db.engine
    functions, limit = engine.functions, engine.settings.history_memory_limit
    with db:
        with engine.historical.workspaces.lent(functions, limit) as lent:
            pass
        result = db.execute("SELECT k, v FROM s;")
        assert isinstance(result, History)
        assert result.next_batch() is not None
        result.close()
        assert result.delivered < RECORDS
        with engine.historical.workspaces.lent(functions, limit) as again:
            assert again is lent
            assert again.stores == 0


def test_concurrent_queries_do_not_meet(db: millstream.Database) -> None:
    """Counts of other queries at the same time, in workspaces that go from hand to hand."""
    wrong: list[object] = []

    def ask(part: int) -> None:
        for _ in range(8):
            found = list(db.execute(f"SELECT k, COUNT(*) FROM s WHERE v < {part} GROUP BY k;"))
            if sorted(tuple(row) for row in found) != sorted(
                (str(k), n) for k in (0, 1) if (n := len(range(k, part, 2)))
            ):
                wrong.append(found)

    threads = [threading.Thread(target=ask, args=(part,)) for part in (1, 3, 6)]
    with db:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
