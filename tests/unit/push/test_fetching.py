"""Rows of push queries: fetched, as tables, by asyncio, and shown in notebooks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from millstream import Database, StatementError, Stream, Subscription
from millstream.query.display import LiveRows, html_table, show_live
from tests.patience import PATIENCE_S, until


@pytest.fixture
def s(db: Database) -> Database:
    db.execute("""
        SET 'auto.offset.reset' = 'earliest';
        CREATE STREAM s (k STRING KEY, i INT)
          WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
        CREATE TABLE t AS SELECT k, COUNT(*) AS c FROM s GROUP BY k HAVING COUNT(*) < 3;
    """)
    return db


def pushed(db: Database, sql: str) -> Stream:
    result = db.execute(sql)
    assert isinstance(result, Stream)
    return result


def test_rows_are_fetched_one_by_one_and_in_groups(s: Database) -> None:
    s.insert("s", [("a", n) for n in range(5)])
    with pushed(s, "SELECT i FROM s EMIT CHANGES") as stream:
        assert stream.fetchone() == (0,)
        assert stream.fetchmany(2) == [(1,), (2,)]
        assert stream.fetchmany(0) == []
        assert stream.fetchmany(9) == [(3,), (4,)]
        s.insert("s", [("a", 5), ("a", 6), ("a", 7)])
        assert stream.fetchone() == (5,)
        # What one fetch has left, the next way of reading returns.
        assert next(stream.batches()).to_pydict() == {"I": [6, 7]}
    assert stream.fetchone() is None


def test_with_a_limit_they_are_a_table(s: Database) -> None:
    s.insert("s", [("a", n) for n in range(5)])
    sql = "SELECT k, i FROM s EMIT CHANGES LIMIT 3"
    expected = {"K": ["a"] * 3, "I": [0, 1, 2]}
    assert pushed(s, sql).arrow().to_pydict() == expected
    assert pushed(s, sql).df().to_dict("list") == expected
    assert pushed(s, sql).pl().to_dict(as_series=False) == expected
    assert pushed(s, sql).fetchall() == [("a", 0), ("a", 1), ("a", 2)]
    stream = pushed(s, sql)
    assert stream.fetchone() == ("a", 0)
    assert stream.arrow().to_pydict() == {"K": ["a"] * 2, "I": [1, 2]}
    none = pushed(s, "SELECT k, i FROM s EMIT CHANGES LIMIT 0").arrow()
    assert none.schema == pa.schema([("K", pa.string()), ("I", pa.int32())])


@pytest.mark.parametrize("fetch", [Stream.arrow, Stream.df, Stream.pl, Stream.fetchall])
def test_without_one_they_have_no_end(s: Database, fetch: Callable[[Stream], object]) -> None:
    with (
        pushed(s, "SELECT * FROM s EMIT CHANGES") as stream,
        pytest.raises(StatementError, match="does not end"),
    ):
        fetch(stream)


def queries(db: Database) -> int:
    return len(db.engine.push_queries.streams)


def test_they_come_by_asyncio(s: Database) -> None:
    async def main() -> list[object]:
        found: list[object] = []
        async for row in s.subscribe("SELECT k, c FROM t EMIT CHANGES"):
            found.append((*row, row.deleted))
            if len(found) == 3:
                break
            await asyncio.to_thread(s.insert, "s", [("a", len(found))])
        while queries(s):
            await asyncio.sleep(0.01)
        return found

    s.insert("s", [("a", 0)])
    assert asyncio.run(asyncio.wait_for(main(), PATIENCE_S)) == [
        ("a", 1, False),
        ("a", 2, False),
        ("a", None, True),
    ]


def test_several_wait_at_the_same_time(s: Database) -> None:
    async def read(name: str) -> list[int]:
        async with s.subscribe("SELECT i FROM s WHERE k = ? EMIT CHANGES LIMIT 2", (name,)) as rows:
            return [row[0] async for row in rows]

    async def main() -> list[list[int]]:
        reading = [asyncio.create_task(read(name)) for name in "abc"]
        while queries(s) < 3:
            await asyncio.sleep(0.01)
        for number in range(2):
            await asyncio.to_thread(s.insert, "s", [(name, number) for name in "cba"])
        return await asyncio.gather(*reading)

    assert asyncio.run(asyncio.wait_for(main(), PATIENCE_S)) == [[0, 1]] * 3
    assert queries(s) == 0


def test_batches_and_a_task_that_is_cancelled(s: Database) -> None:
    s.insert("s", [("a", 1)])

    async def main() -> None:
        arrived = asyncio.Event()

        async def read() -> None:
            async for table in s.subscribe("SELECT i FROM s EMIT CHANGES").batches():
                assert table.to_pydict() == {"I": [1]}
                arrived.set()

        task = asyncio.create_task(read())
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert queries(s) == 0

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_a_task_that_is_cancelled_while_its_query_starts(s: Database) -> None:
    starting, go_on = threading.Event(), threading.Event()

    def start() -> Stream:
        starting.set()
        go_on.wait(PATIENCE_S)
        return pushed(s, "SELECT i FROM s EMIT CHANGES")

    async def read() -> None:
        async for _ in Subscription(start):
            pass

    async def main() -> None:
        task = asyncio.create_task(read())
        await asyncio.to_thread(starting.wait, PATIENCE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
    until(lambda: queries(s) == 0)


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM s", "DROP TABLE t", "SELECT * FROM s EMIT CHANGES; SHOW TABLES;", ""]
)
def test_only_a_push_query_can_be_subscribed_to(s: Database, sql: str) -> None:
    with pytest.raises(StatementError, match="Only a push query"):
        s.subscribe(sql)
    assert s.execute("SHOW TABLES").arrow().num_rows == 1


def test_a_subscription_is_read_once(s: Database) -> None:
    async def main() -> None:
        rows = s.subscribe("SELECT * FROM s EMIT CHANGES LIMIT 0")
        assert [row async for row in rows] == []
        with pytest.raises(RuntimeError, match="subscribe again"):
            async for _ in rows:
                pass
        closed = s.subscribe("SELECT * FROM s EMIT CHANGES")
        await closed.aclose()
        with pytest.raises(RuntimeError, match="subscribe again"):
            async for _ in closed.batches():
                pass

    asyncio.run(main())


def html_of(db: Database, sql: str) -> str:
    result = db.execute(sql)
    assert not isinstance(result, Stream)
    return result._repr_html_()


def test_results_in_a_notebook(s: Database) -> None:
    s.insert("s", [("<b>", n) for n in range(30)])
    statements = ("SELECT k, i FROM s", "SHOW TOPICS", "SET 'auto.offset.reset' = 'latest'")
    history, rows, done = (html_of(s, sql) for sql in statements)
    assert "&lt;b&gt;" in history and "<b>" not in history
    assert history.count("<tr>") == 21 and "20 of 30 rows" in history
    assert "2 rows" in rows and "<td>s</td>" in rows
    assert "Successfully changed" in done


def test_html_of_values() -> None:
    table = html_table(["a<"], [(None,), ("</td><script>",)], "x & y")
    assert "<th>a&lt;</th>" in table and "<i>NULL</i>" in table
    assert "&lt;/td&gt;&lt;script&gt;" in table and "x &amp; y" in table


def test_live_rows_are_the_newest_of_each_key() -> None:
    rows = LiveRows(["K", "C"], ["K"])
    rows.add(pa.table({"K": ["a", "b", "a"], "C": [1, 1, 2], "$diff": [1, 1, 1]}))
    assert rows.html("").index("<td>a</td><td>2</td>") < rows.html("").index("<td>b</td>")
    assert "<td>1</td></tr></tbody>" in rows.html("")
    rows.add(pa.table({"K": ["b"], "C": [None], "$diff": [-1]}))
    assert "<td>b</td>" not in rows.html("") and "4 rows, running" in rows.html("running")
    rows.add(pa.table({"K": [f"k{n}" for n in range(5000)], "C": range(5000)}))
    assert len(rows._rows) == 1000 and rows.html("").count("<tr>") == 21


def test_live_rows_of_a_stream_are_the_last_ones() -> None:
    rows = LiveRows(["I"], [])
    rows.add(pa.table({"I": range(50)}))
    assert "<td>49</td></tr><tr><td>48</td>" in rows.html("") and "<td>29</td>" not in rows.html("")


def test_a_stream_is_shown_until_it_ends(s: Database) -> None:
    shown: list[str] = []
    stream = pushed(s, "SELECT i FROM s EMIT CHANGES LIMIT 2")
    thread = show_live(stream, shown.append)
    until(lambda: bool(shown))
    s.insert("s", [("a", 7)])
    until(lambda: "<td>7</td>" in shown[-1])
    assert "1 row, running" in shown[-1]
    s.insert("s", [("a", 8)])
    thread.join(PATIENCE_S)
    assert "<td>8</td></tr><tr><td>7</td>" in shown[-1] and "2 rows, ended" in shown[-1]


def test_a_shown_stream_that_fails_says_so(s: Database) -> None:
    shown: list[str] = []
    stream = pushed(s, "SELECT i FROM s EMIT CHANGES")
    thread = show_live(stream, shown.append)
    stream.fail(StatementError("it was < ended"))
    thread.join(PATIENCE_S)
    assert "failed: it was &lt; ended" in shown[-1]
