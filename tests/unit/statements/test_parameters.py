"""Statements with parameters do what they would with literals."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from millstream import Database
from millstream.model.errors import StatementError
from millstream_parser import Values


def answer(db: Database, sql: str, values: Values) -> list[tuple[Any, ...]]:
    return list(db.execute(sql, values))


@pytest.mark.parametrize(
    ("sql", "values", "rows"),
    [
        ("SELECT n FROM spending WHERE customer = ?", ["ann"], [(2,)]),
        ("SELECT n FROM spending WHERE customer IN (?, ?)", ["bob", "x"], [(1,)]),
        ("SELECT customer FROM spending WHERE total > ?", [Decimal("4.5")], [("cleo",)]),
        ("SELECT customer FROM spending WHERE total > :t LIMIT :n", {"t": 9, "n": 1}, [("cleo",)]),
        ("SELECT item FROM orders WHERE customer = $1 AND amount < $2", ["ann", 2.0], [("tea",)]),
        ("SELECT COUNT(*) FROM orders WHERE item = ? GROUP BY item", ["tea"], [(2,)]),
        ("SELECT s.n, ? AS x FROM spending s JOIN spending t ON s.customer = t.customer"
         " WHERE t.total > ? LIMIT ?", ["x", 9, 1], [(1, "x")]),
        ("SELECT n FROM (SELECT * FROM spending) WHERE customer = ?", ["x' OR 'a'='a"], []),
        ("SELECT a.item FROM orders BETWEEN OFFSETS ? AND ? a"
         " JOIN spending b ON a.customer = b.customer WHERE b.customer = ?", [0, 0, "cleo"],
         [("tea",)]),
        ("SELECT customer FROM orders WHERE item = ? EMIT CHANGES LIMIT ?", ["milk", 1],
         [("bob",)]),
        ("DEFINE n = '2'; SELECT customer FROM spending WHERE n = ${n} AND total > ?", [1],
         [("ann",)]),
    ],
)  # fmt: skip
def test_queries(shop: Database, sql: str, values: Values, rows: list[tuple[Any, ...]]) -> None:
    assert answer(shop, sql, values) == rows


def test_inserts(shop: Database) -> None:
    values = ["d; DROP STREAM orders; --", None, -1.5]
    shop.execute("INSERT INTO orders (customer, item, amount) VALUES (?, ?, ?)", values)
    rows = answer(shop, "SELECT * FROM orders WHERE customer = ?", values[:1])
    assert [row[:3] for row in rows] == [tuple(values)]


def test_a_query_that_stays_keeps_the_values(reopen: Callable[[], Database]) -> None:
    db = reopen()
    db.execute(
        "CREATE STREAM s (k STRING KEY, v STRING)"
        " WITH (kafka_topic=:topic, format=:format, partitions=:n);",
        {"topic": "s", "format": "JSON", "n": 1},
    )
    db.execute("CREATE STREAM u AS SELECT k, v FROM s WHERE v <> ?;", ["${x} it's"])
    db = reopen()
    (record,) = db.engine.catalog.queries.values()
    assert "(V <> '${x} it''s')" in record.statement
    for v in ("${x} it's", "y"):
        db.execute("INSERT INTO s VALUES (?, ?)", [v, v])
    db.wait()
    assert answer(db, "SELECT k FROM u", ()) == [("y",)]


@pytest.mark.parametrize(
    ("sql", "values", "message", "place"),
    [
        ("SELECT n FROM spending WHERE customer = ?", [], "no value for parameter 1", "?"),
        ("SELECT n FROM spending WHERE customer = ?", [1], "Cannot compare", "customer = ?"),
        ("SELECT n FROM spending WHERE customer = ?", [None], "with NULL", "customer = ?"),
        ("SELECT n FROM spending LIMIT ?", ["x"], "Expecting INTEGER_VALUE", "?"),
        ("SELECT n FROM spending LIMIT ?", [-1], "negative integers", "?"),
        ("SELECT * FROM ?", ["spending"], "near '?'", "?"),
        ("INSERT INTO orders (amount) VALUES (?)", [True], "Expected type DOUBLE", "?"),
        ("INSERT INTO orders (amount) VALUES (?)", ["x"], "Expected type DOUBLE", "?"),
    ],
)
def test_wrong_values_are_refused_with_the_place(
    shop: Database, sql: str, values: Values, message: str, place: str
) -> None:
    with pytest.raises(StatementError) as caught:
        answer(shop, sql, values)
    assert message in caught.value.message
    assert caught.value.span is not None
    assert sql[caught.value.span.start : caught.value.span.end] == place


def test_nothing_is_executed_where_values_are_left_over(shop: Database) -> None:
    with pytest.raises(StatementError, match="Parameter 2 has a value"):
        shop.execute("DEFINE x = ?; SHOW STREAMS;", ["a", "b"])
    assert "x" not in shop.session.variables
