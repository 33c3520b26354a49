"""`millstream.connect`: the same programs on a database in this process, and on one on a server."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import millstream
from millstream import Database, dbapi
from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from tests.patience import until
from tests.served import served

SQL = """
CREATE STREAM orders (customer STRING KEY, amount DOUBLE, moment TIMESTAMP)
  WITH (kafka_topic='orders', partitions=2, value_format='JSON');
CREATE TABLE spending AS SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders
  GROUP BY customer;
"""
NOON = dt.datetime(2026, 1, 1, 12, 30, 1, 250_000)


@pytest.fixture(params=["here", "on a server"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with millstream.connect() as here:
        if request.param == "here":
            here.execute("SET 'auto.offset.reset' = 'earliest';")
            yield here
            return
        with served(here.engine) as server:
            properties = {"auto.offset.reset": "earliest"}
            with millstream.connect(server.url, properties=properties) as there:
                assert isinstance(there, Database)
                yield there


def rows(db: Database, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    return list(db.execute(sql, parameters))  # type: ignore[arg-type]


def eventually(db: Database, sql: str, wanted: list[tuple[Any, ...]]) -> None:
    until(lambda: sorted(rows(db, sql)) == sorted(wanted))


def test_statements_inserts_and_pull_queries(db: Database) -> None:
    done = list(db.each(SQL))
    assert [type(each).__name__ for each in done] == ["Done", "Done"]
    assert str(getattr(done[1], "query_id", "")).startswith("CTAS_SPENDING")
    assert db.insert("orders", [("ann", 1.5, NOON), ("bob", 2.0, None)]) == 2
    assert db.insert("orders", [{"customer": "ann", "amount": 0.25}]) == 1
    eventually(db, "SELECT * FROM spending", [("ann", 2, 1.75), ("bob", 1, 2.0)])
    assert rows(db, "SELECT total FROM spending WHERE customer = ?", "ann") == [(1.75,)]
    assert rows(db, "SELECT moment FROM orders WHERE amount = 1.5") == [(NOON,)]
    found = db.execute("SELECT customer, n FROM spending WHERE n > ?", (1,))
    assert found.arrow().to_pylist() == [{"CUSTOMER": "ann", "N": 2}]


def test_all_types_go_there_and_back(db: Database) -> None:
    db.execute("""
        CREATE STREAM kinds (k INT KEY, b BOOLEAN, l BIGINT, d DOUBLE, x DECIMAL(9, 3), s STRING,
          y BYTES, day DATE, t TIME, moment TIMESTAMP, a ARRAY<INT>, m MAP<STRING, DOUBLE>,
          r STRUCT<f INT, `g` ARRAY<STRING>>)
          WITH (kafka_topic='kinds', partitions=1, value_format='JSON');
    """)
    values = (
        *(7, True, 1 << 40, 2.5, Decimal("123.456"), "it's `x`\n", b"\x00\xff"),
        *(dt.date(2026, 2, 28), dt.time(1, 2, 3), NOON, [1, None, 3], {"a b": 1.0, "c": -2.5}),
        {"F": 5, "g": ["x", "'y'"]},
    )
    nothing = (8, *([None] * 12))
    assert db.insert("kinds", [values, nothing]) == 2
    pairs = [("a b", 1.0), ("c", -2.5)]
    assert rows(db, "SELECT * FROM kinds") == [(*values[:-2], pairs, values[-1]), nothing]


def test_numbers_at_their_limits(db: Database) -> None:
    db.execute(
        "CREATE STREAM n (k BIGINT KEY, d DOUBLE)"
        " WITH (kafka_topic='n', partitions=1, value_format='JSON');"
    )
    given = [((1 << 63) - 1, 1e300), (-(1 << 63) + 1, 5e-324), (0, -0.1)]
    db.insert("n", given)
    assert rows(db, "SELECT * FROM n") == given


@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_tables_are_inserted(db: Database, kind: str) -> None:
    db.execute(SQL)
    table = pa.table({"CUSTOMER": ["a", "b", "a"], "AMOUNT": [1.0, 2.0, 3.0]})
    data: Any = table if kind == "arrow" else pd.DataFrame(table.to_pydict())
    assert db.insert("orders", data) == 3
    eventually(db, "SELECT customer, total FROM spending", [("a", 4.0), ("b", 2.0)])


def test_many_rows_of_a_statement_and_of_an_appender(db: Database) -> None:
    db.execute(SQL)
    sql = "INSERT INTO orders (customer, amount) VALUES (?, ?);"
    assert db.executemany(sql, [("a", float(n)) for n in range(50)]) == 50
    with db.append("orders", batch_rows=20) as appender:
        for n in range(50):
            appender.add({"customer": "b", "amount": float(n)})
    eventually(db, "SELECT customer, n FROM spending", [("a", 50), ("b", 50)])


def test_push_queries_tell_updates(db: Database) -> None:
    db.execute(
        "CREATE TABLE t (k STRING PRIMARY KEY, n INT)"
        " WITH (kafka_topic='t', partitions=1, value_format='JSON');"
    )
    stream: Any = db.execute("SELECT * FROM t EMIT CHANGES;")
    with stream:
        db.insert("t", [("a", 1)])
        assert stream.fetchone() == ("a", 1)
        db.insert("t", [{"k": "a", "n": 2}])
        assert stream.fetchone() == ("a", 2)
        assert stream.columns == ["K", "N"]


def test_a_deletion_is_marked(db: Database) -> None:
    db.execute(SQL + "CREATE TABLE big AS SELECT customer, total FROM spending WHERE total > 1;")
    stream: Any = db.execute("SELECT * FROM big EMIT CHANGES;")
    with stream:
        db.insert("orders", [("a", 5.0, None)])
        assert [tuple(row) for row in stream.fetchmany(1)] == [("a", 5.0)]
        db.insert("orders", [("a", -4.5, None)])
        row = stream.fetchone()
        assert row.deleted and row[0] == "a"


def test_a_limit_ends_a_push_query(db: Database) -> None:
    db.execute(SQL)
    db.insert("orders", [("a", 1.0, None), ("a", 2.0, None), ("a", 3.0, None)])
    found: Any = db.execute("SELECT amount FROM orders EMIT CHANGES LIMIT 2;")
    assert found.arrow().to_pydict() == {"AMOUNT": [1.0, 2.0]}


def test_subscribing(db: Database) -> None:
    db.execute(SQL)
    db.insert("orders", [("a", 1.0, None), ("a", 2.0, None)])

    async def main() -> list[tuple[Any, ...]]:
        sql = "SELECT amount FROM orders WHERE amount > ? EMIT CHANGES LIMIT 1;"
        return [row async for row in db.subscribe(sql, (1.5,))]

    assert asyncio.run(main()) == [(2.0,)]


def test_settings_and_variables_are_of_the_session(db: Database) -> None:
    db.execute("DEFINE t = 'here'; SET 'auto.offset.reset' = 'latest';")
    db.execute(
        "CREATE STREAM s (n INT) WITH (kafka_topic='${t}', partitions=1, value_format='JSON');"
    )
    shown = str(db.execute("DESCRIBE s EXTENDED;").arrow().to_pydict())
    assert "here" in shown
    assert db.session.properties["auto.offset.reset"] == "latest"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM missing;",
        "SELEC 1;",
        "DROP STREAM missing;",
        "SELECT * FROM missing EMIT CHANGES;",
    ],
)
def test_errors_are_those_of_the_engine(db: Database, sql: str) -> None:
    with pytest.raises(StatementError, match=r"(?i)missing|selec"):
        db.execute(sql)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1 << 70, object(), "\ud800"])
def test_values_without_literals_are_refused(db: Database, value: Any) -> None:
    db.execute(
        "CREATE STREAM n (k STRING KEY, d DOUBLE)"
        " WITH (kafka_topic='n', partitions=1, value_format='JSON');"
    )
    with pytest.raises(StatementError):
        db.insert("n", [("good", 1.0), ("bad", value)])
    assert rows(db, "SELECT * FROM n") == []


def test_rows_that_do_not_fit_insert_nothing(db: Database) -> None:
    db.execute(SQL)
    with pytest.raises(StatementError):
        db.insert("orders", [("a", 1.0, None), ("b", "no number", None)])
    with pytest.raises(StatementError):
        db.insert("orders", [{"customer": "a", "nothing": 1}])
    with pytest.raises(StatementError):
        db.insert("missing", [("a",)])
    assert rows(db, "SELECT * FROM orders") == []


def test_what_belongs_to_the_process_of_the_server_is_refused() -> None:
    with millstream.connect() as here, served(here.engine) as server:
        with millstream.connect(server.url) as there:
            for call in (there.wait, there.seal, there.metrics, there.processing_log):
                with pytest.raises(StatementError, match="not for a database on a server"):
                    call()
            with pytest.raises(StatementError, match="not for a database on a server"):
                _ = there.engine
            with pytest.raises(StatementError, match="stream orders as a chain"):
                there.stream("orders")
            with pytest.raises(StatementError, match="one of 2 statements"):
                there.execute("SELECT ? FROM a; SELECT ? FROM b;", (1, 2))
            with pytest.raises(StatementError, match="PRINT"):
                there.execute("PRINT orders;")
        with pytest.raises(StatementError, match="settings and functions there"):
            millstream.connect(server.url, service_id="x", kafka="localhost:1")


def test_dbapi_reaches_a_server() -> None:
    with millstream.connect() as here, served(here.engine) as server:
        here.execute(SQL)
        with dbapi.connect(server.url) as connection:
            cursor = connection.execute(
                "INSERT INTO orders (customer, amount) VALUES (?, ?)", ("a", 1.0)
            )
            cursor.execute("SELECT customer, amount FROM orders")
            assert [column[0] for column in cursor.description or ()] == ["CUSTOMER", "AMOUNT"]
            assert cursor.fetchall() == [("a", 1.0)]
            connection.commit()


def test_no_server_is_an_error_at_once() -> None:
    with pytest.raises(UnavailableError, match="Cannot reach"):
        millstream.connect("http://127.0.0.1:1")


def test_a_query_that_fails_on_its_way_is_not_taken_for_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from millstream_server.results.framing import ArrowStream

    with millstream.connect() as here, served(here.engine) as server:
        here.execute(SQL)
        here.insert("orders", [("a", 1.0, None)])
        monkeypatch.setattr(ArrowStream, "end", lambda self, message: b"")
        with (
            millstream.connect(server.url) as there,
            pytest.raises(UnavailableError, match="before its last row"),
        ):
            there.execute("SELECT * FROM orders;")


def test_a_name_cannot_carry_a_statement() -> None:
    with millstream.connect() as here, served(here.engine) as server:
        here.execute(SQL)
        with millstream.connect(server.url) as there:
            for name in ("orders; DROP STREAM orders", "orders EXTENDED; SHOW STREAMS", "", "x y"):
                with pytest.raises(MillstreamError):
                    there.insert(name, [("a", 1.0, None)])
            there.insert("orders", [("'); DROP TABLE spending; --", 1.0, None)])
        assert "ORDERS" in here.engine.catalog.sources
        assert rows(here, "SELECT customer FROM orders") == [("'); DROP TABLE spending; --",)]
