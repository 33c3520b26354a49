"""Push queries: rows as they arrive, limits, ends and errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import millstream
from millstream import Database, History, MillstreamError, Rows, Stream
from millstream.model.schema import Schema
from millstream.model.settings import EngineSettings
from millstream.push import shared_push
from millstream.query.rendered_rows import RenderedRows
from millstream.query.results import Change
from millstream.query.session import Session
from millstream.service.engine import Engine
from millstream.service.execution import execute_script, open_engine
from tests.patience import PATIENCE_S


def push(db: Database, sql: str) -> Stream:
    result = db.execute(sql)
    assert isinstance(result, Stream)
    return result


def queries(db: Database) -> list[str]:
    result = db.execute("SHOW QUERIES;")
    assert isinstance(result, Rows | History)
    return [str(row[0]) for row in result if row[1] == "PUSH"]


def test_limit_ends_it(shop: Database) -> None:
    stream = push(shop, "SELECT customer, amount FROM orders EMIT CHANGES LIMIT 3;")
    assert stream.columns == ["CUSTOMER", "AMOUNT"]
    assert len(list(stream)) == 3
    assert queries(shop) == [] and stream.closed
    assert list(push(shop, "SELECT * FROM orders EMIT CHANGES LIMIT 0;")) == []


def test_it_goes_on_with_new_rows(shop: Database) -> None:
    with push(shop, "SELECT item FROM orders WHERE amount > 50 EMIT CHANGES;") as stream:
        found = iter(stream)
        for item in ("ham", "egg"):
            shop.execute(f"INSERT INTO orders VALUES ('x', '{item}', 99);")
            assert next(found) == (item,)
        assert queries(shop) == [stream.query_id]
    assert queries(shop) == []


def test_latest_sees_new_rows_only(shop: Database) -> None:
    shop.execute("SET 'auto.offset.reset' = 'latest';")
    with push(shop, "SELECT item FROM orders EMIT CHANGES LIMIT 1;") as stream:
        shop.execute("INSERT INTO orders VALUES ('x', 'new', 1);")
        assert list(stream) == [("new",)]


def test_aggregates_and_tables(shop: Database) -> None:
    with push(
        shop, "SELECT item, COUNT(*) AS n FROM orders GROUP BY item EMIT CHANGES LIMIT 4;"
    ) as stream:
        assert sorted(stream) == [("jam", 1), ("milk", 1), ("tea", 1), ("tea", 2)]
    with push(shop, "SELECT customer, n FROM spending EMIT CHANGES LIMIT 4;") as stream:
        assert dict(list(stream))["cleo"] == 1
    topics = shop.execute("SHOW ALL TOPICS;")
    assert isinstance(topics, Rows | History)
    assert not [row for row in topics if "transient" in row[0]], "its topics went with it"


def test_batches_are_arrow(shop: Database) -> None:
    stream = push(shop, "SELECT item, amount FROM orders EMIT CHANGES LIMIT 4;")
    tables = list(stream.batches())
    assert sum(table.num_rows for table in tables) == 4
    assert tables[0].column_names == ["ITEM", "AMOUNT"]


def test_leaving_the_loop_ends_it(shop: Database) -> None:
    stream = push(shop, "SELECT item FROM orders EMIT CHANGES;")
    rows = iter(stream)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert stream.closed and queries(shop) == []
    stream.close()


def test_terminated_while_iterating(shop: Database) -> None:
    stream = push(shop, "SELECT item FROM orders EMIT CHANGES;")
    found: list[tuple[object, ...]] = []
    four = threading.Event()

    def read() -> None:
        for row in stream:
            found.append(row)
            if len(found) == 4:
                four.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert four.wait(PATIENCE_S)
    shop.execute(f"TERMINATE {stream.query_id};")
    reader.join(PATIENCE_S)
    assert not reader.is_alive() and len(found) == 4
    with pytest.raises(MillstreamError, match="Unknown queryId"):
        shop.execute(f"PAUSE {stream.query_id};")


def test_closing_the_database_ends_it() -> None:
    db = millstream.connect()
    db.execute("CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');")
    stream = push(db, "SELECT * FROM s EMIT CHANGES;")
    ended = threading.Event()
    reader = threading.Thread(target=lambda: (list(stream), ended.set()))
    reader.start()
    db.close()
    assert ended.wait(PATIENCE_S)
    reader.join(PATIENCE_S)
    stream.close()
    db.close()


def test_the_error_of_the_query_reaches_the_client(shop: Database) -> None:
    shop.execute("SET 'ksql.fail.on.deserialization.error' = 'true';")
    shop.execute(
        "CREATE STREAM bytes (customer STRING KEY, amount STRING) "
        "WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='DELIMITED');"
    )
    stream = push(shop, "SELECT amount FROM bytes EMIT CHANGES;")
    with pytest.raises(MillstreamError) as caught:
        list(stream)
    assert "orders" in str(caught.value) and caught.value.code == "E-RECORD"
    assert queries(shop) == []


def test_a_slow_client_gets_an_error(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_push, "BUFFER_BATCHES_MAX", 2)
    db.execute("CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');")
    stream = push(db, "SELECT v FROM s EMIT CHANGES;")
    for v in range(4):
        db.execute(f"INSERT INTO s VALUES ({v});")
        db.wait()
    found = []
    with pytest.raises(MillstreamError) as caught:
        for row in stream:
            found.append(row)  # noqa: PERF402
    assert caught.value.code == "E-SLOW-CONSUMER"
    assert found == [(0,), (1,)], "what was buffered still comes, the error after it"
    assert queries(db) == []
    db.execute("INSERT INTO s VALUES (9);")
    assert len(list(push(db, "SELECT v FROM s EMIT CHANGES LIMIT 5;"))) == 5


@pytest.fixture
def threadless() -> Iterator[tuple[Engine, Session]]:
    engine = open_engine(":memory:", EngineSettings(), lambda: 1)
    yield engine, Session({"auto.offset.reset": "earliest"})
    engine.close()


def test_without_a_thread_the_reader_drives(threadless: tuple[Engine, Session]) -> None:
    engine, session = threadless
    text = (
        "CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
        "INSERT INTO s VALUES (1); INSERT INTO s VALUES (2); SELECT v FROM s EMIT CHANGES;"
    )
    *_, stream = execute_script(engine, text, session)
    assert isinstance(stream, Stream)
    assert list(stream) == [(1,), (2,)], "ends where there is nothing more"


def test_a_dead_engine_is_reported(threadless: tuple[Engine, Session]) -> None:
    engine, session = threadless
    text = "CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
    *_, stream = execute_script(engine, text + "SELECT v FROM s EMIT CHANGES;", session)
    assert isinstance(stream, Stream)
    engine.driver.failure = RuntimeError("broken")
    assert engine.driver.on_failure is not None
    engine.driver.on_failure(engine.driver.failure)
    with pytest.raises(MillstreamError, match="the engine has stopped"):
        list(stream)
    with pytest.raises(MillstreamError, match="the engine has stopped"):
        list(execute_script(engine, "SHOW STREAMS;", session))


def test_aggregates_outlive_commits() -> None:
    with millstream.connect(":memory:", settings=EngineSettings(commit_interval_ms=0)) as db:
        db.execute(
            "CREATE STREAM s (k INT KEY, v INT)"
            " WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
            "SET 'auto.offset.reset' = 'earliest';"
        )
        with push(db, "SELECT k, COUNT(*) AS n FROM s GROUP BY k EMIT CHANGES;") as stream:
            found = iter(stream)
            for count in range(1, 6):
                db.execute("INSERT INTO s VALUES (7, 1);")
                assert next(found) == (7, count)
            topics = db.execute("SHOW ALL TOPICS;")
            assert isinstance(topics, Rows)
            assert not [row for row in topics if "changelog" in row[0]]


SCALABLE = "SELECT item FROM costly EMIT CHANGES;"


@pytest.fixture
def scalable(shop: Database) -> Database:
    """A stream that a query writes, and a session whose push queries share readings."""
    shop.execute("CREATE STREAM costly AS SELECT * FROM orders WHERE amount > 50;")
    shop.execute("SET 'ksql.query.push.v2.enabled' = 'true';")
    shop.execute("SET 'auto.offset.reset' = 'latest';")
    shop.wait()
    return shop


def running(db: Database) -> int:
    """How many push queries the runtime has."""
    return sum(status.transient for status in db.engine.statuses())


def test_equal_push_queries_share_one_run(scalable: Database) -> None:
    streams = [push(scalable, SCALABLE) for _ in range(3)]
    limited = push(scalable, "SELECT item FROM costly EMIT CHANGES LIMIT 1;")
    other = push(scalable, "SELECT item FROM costly WHERE amount > 70 EMIT CHANGES;")
    assert running(scalable) == 2
    assert len(set(queries(scalable))) == 5
    scalable.execute("INSERT INTO orders VALUES ('x', 'ham', 60);")
    scalable.execute("INSERT INTO orders VALUES ('x', 'egg', 80);")
    reading = [iter(stream) for stream in (*streams, other)]
    for rows in reading[:3]:
        assert [next(rows), next(rows)] == [("ham",), ("egg",)]
    assert list(limited) == [("ham",)]
    assert next(reading[3]) == ("egg",)
    assert len(queries(scalable)) == 4
    for stream in (*streams, other):
        stream.close()
    assert (
        running(scalable) == 0
        and queries(scalable) == []
        and not scalable.engine.push_queries.running
    )


def test_shared_rows_are_the_same_object(scalable: Database) -> None:
    first, second = push(scalable, SCALABLE), push(scalable, SCALABLE)
    scalable.execute("INSERT INTO orders VALUES ('x', 'ham', 60);")
    rows = first.next_change()
    assert rows is not None and rows is second.next_change()
    first.close()
    second.close()


def test_texts_of_shared_rows_are_kept(scalable: Database) -> None:
    alone = push(scalable, SCALABLE)
    scalable.execute("INSERT INTO orders VALUES ('x', 'ham', 60);")
    change = alone.next_change()
    assert change is not None and change.rendered is None
    other = push(scalable, SCALABLE)
    scalable.execute("INSERT INTO orders VALUES ('x', 'egg', 60);")
    change = alone.next_change()
    assert change is not None and change.rendered is not None
    (tail,) = scalable.engine.push_queries.running.values()
    assert change.rendered is tail.rendered and tail.rendered.bytes_max == tail.bytes_max
    alone.close()
    other.close()


def test_so_many_texts_are_kept_as_wait_for_one_client() -> None:
    texts, made = RenderedRows(10), []

    def text(number: int, size: int = 4) -> bytes:
        def make() -> bytes:
            made.append(number)
            return bytes(size)

        return texts.of((number, "kind", 0), make)

    assert text(1) is text(1)
    text(2)
    text(1)
    text(3)
    assert texts.size == 8, "the second was not asked for since the others were"
    text(1)
    text(2)
    assert made == [1, 2, 3, 2]
    assert len(text(4, 11)) == 11
    text(4, 11)
    assert texts.size == 8 and made == [1, 2, 3, 2, 4, 4], "one that is larger is nobody's"


def test_a_limit_cuts_rows_that_others_share() -> None:
    shared = Change(pa.table({"n": [1, 2, 3]}))
    streams = [Stream("q", Schema(()), ["n"], lambda: None, limit=limit) for limit in (2, 3)]
    for stream in streams:
        stream.put(shared)
    short, whole = (stream.next_change() for stream in streams)
    assert short is not None and short.rows.num_rows == 2
    assert whole is shared and shared.rows.num_rows == 3


def test_a_slow_one_is_ended_alone(scalable: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_push, "BUFFER_BATCHES_MAX", 2)
    slow, quick = push(scalable, SCALABLE), push(scalable, SCALABLE)
    rows = iter(quick)
    for number in range(4):
        scalable.execute(f"INSERT INTO orders VALUES ('x', 'i{number}', 99);")
        scalable.wait()
        assert next(rows) == (f"i{number}",)
    with pytest.raises(MillstreamError) as caught:
        for _ in slow:
            pass
    assert caught.value.code == "E-SLOW-CONSUMER"
    assert queries(scalable) == [quick.query_id]
    quick.close()
    assert running(scalable) == 0


def test_after_the_last_has_left_a_reading_starts_anew(scalable: Database) -> None:
    push(scalable, SCALABLE).close()
    scalable.execute("INSERT INTO orders VALUES ('x', 'old', 99);")
    scalable.wait()
    with push(scalable, SCALABLE) as stream:
        scalable.execute("INSERT INTO orders VALUES ('x', 'new', 99);")
        assert next(iter(stream)) == ("new",)
