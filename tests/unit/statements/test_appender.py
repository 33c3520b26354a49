"""`Database.append`: batches, back-pressure, threads, errors, and what an exception discards."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from millstream import Appender, Database, History, MillstreamError, Rows
from millstream.statements import wordings
from tests.patience import PATIENCE_S


@pytest.fixture
def s(db: Database) -> Database:
    db.execute(
        "CREATE STREAM s (k STRING KEY, i INT) "
        "WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    return db


def found(db: Database) -> list[int]:
    result = db.execute("SELECT i FROM s;")
    assert isinstance(result, Rows | History)
    return [row[0] for row in result]


def test_rows_are_inserted_by_batches(s: Database) -> None:
    with s.append("s", batch_rows=3) as appender:
        for n in range(7):
            assert found(s) == list(range(n // 3 * 3))
            appender.add({"i": n})
        assert appender.inserted == 6
        appender.flush()
        assert found(s) == list(range(7))
        appender.add({"i": 7})
    assert found(s) == list(range(8)) and appender.inserted == 8


def test_tuples_and_columns(s: Database) -> None:
    with s.append("s", columns=["i"]) as appender:
        appender.add((5,))
        appender.add([6])
    assert found(s) == [5, 6]


def test_an_exception_discards_what_is_not_inserted(s: Database) -> None:
    with pytest.raises(ZeroDivisionError), s.append("s", batch_rows=2) as appender:
        for n in range(5):
            appender.add({"i": n})
        _ = 1 / 0
    assert found(s) == [0, 1, 2, 3] and appender.pending == []
    with pytest.raises(MillstreamError, match="is closed"):
        appender.add({"i": 9})


def test_an_invalid_row_fails_its_batch_and_all_that_follow(s: Database) -> None:
    failed = pytest.raises(MillstreamError, match="has failed")
    with failed, s.append("s", batch_rows=4) as appender:
        for n in (0, 1, 2, 3, 4, "x", 6):
            appender.add({"i": n})
        with pytest.raises(MillstreamError, match="row 6 "):
            appender.add({"i": 7})
        with pytest.raises(MillstreamError, match="has failed"):
            appender.add({"i": 8})
        with pytest.raises(MillstreamError, match="has failed"):
            appender.flush()
    assert [row["i"] for row in appender.pending if isinstance(row, dict)] == [4, "x", 6, 7]
    assert found(s) == [0, 1, 2, 3]


def test_the_end_raises_for_the_last_batch(s: Database) -> None:
    with pytest.raises(MillstreamError, match="row 2, of type int"), s.append("s") as appender:
        appender.add({"i": 1})
        appender.add(5)  # type: ignore[arg-type]
    assert found(s) == []
    appender.close()


def test_a_target_that_takes_no_rows_is_refused_at_once(shop: Database) -> None:
    for target, columns, told in (
        ("nothing", None, "unknown stream/table"),
        ("spending", None, "computes its rows"),
        ("orders", ["nope"], "does not exist"),
    ):
        with pytest.raises(MillstreamError, match=told):
            shop.append(target, columns=columns)
    with pytest.raises(MillstreamError, match="batches of 0 rows"):
        shop.append("orders", batch_rows=0)


def test_a_closed_database_takes_no_rows(s: Database) -> None:
    appender = s.append("s")
    appender.add({"i": 1})
    s.close()
    with pytest.raises(MillstreamError):
        appender.flush()


def test_many_threads_add_to_one(s: Database) -> None:
    with s.append("s", batch_rows=7) as appender:

        def produce(first: int) -> None:
            for n in range(first, first + 100):
                appender.add({"i": n})

        threads = [threading.Thread(target=produce, args=(n * 100,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = found(s)
    assert sorted(rows) == list(range(400))
    for first in range(0, 400, 100):
        of_one = [n for n in rows if first <= n < first + 100]
        assert of_one == sorted(of_one), "rows of one producer keep their order"


def test_producers_wait_while_a_batch_is_inserted() -> None:
    inserting, go_on, added = threading.Event(), threading.Event(), threading.Event()

    def insert(rows: Sequence[Any], before: int) -> int:
        inserting.set()
        assert go_on.wait(PATIENCE_S)
        assert len(rows) == 1 and not added.is_set(), "the second row is not added yet"
        return len(rows)

    appender = Appender("s", insert, 1)
    first = threading.Thread(target=appender.add, args=({},))
    first.start()
    assert inserting.wait(PATIENCE_S)

    def add_another() -> None:
        with appender:
            go_on.set()
        added.set()

    second = threading.Thread(target=add_another)
    second.start()
    first.join()
    second.join()
    assert appender.inserted == 1


def test_an_error_reaches_every_thread() -> None:
    def insert(rows: Sequence[Any], before: int) -> int:
        raise wordings.ROWS_REFUSED(given="this")

    appender = Appender("s", insert, 1)
    for told in ("this", "has failed", "has failed"):
        raised: list[str] = []

        def produce(raised: list[str] = raised) -> None:
            try:
                appender.add({})
            except MillstreamError as error:
                raised.append(str(error))

        thread = threading.Thread(target=produce)
        thread.start()
        thread.join()
        assert told in raised[0]
