"""CREATE OR REPLACE: allowed changes, kept state, and the result after a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream import Database, History, MillstreamError, Rows
from tests.unit.conftest import fill

BOOKS = (
    "CREATE TABLE books (id INT PRIMARY KEY, price INT, title STRING) "
    "WITH (KAFKA_TOPIC='books', PARTITIONS=2, VALUE_FORMAT='JSON');"
)
COUNTED = "CREATE TABLE counted AS SELECT customer, COUNT(*) AS n FROM orders"


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    db.wait()
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return sorted(result)


def refused(db: Database, sql: str, *words: str) -> None:
    before = rows(db, "SHOW QUERIES;")
    with pytest.raises(MillstreamError) as caught:
        db.execute(sql)
    for word in words:
        assert word in str(caught.value)
    assert rows(db, "SHOW QUERIES;") == before


def replacing(sql: str) -> str:
    return sql.replace("CREATE", "CREATE OR REPLACE", 1)


def test_a_table_gets_columns_and_keeps_its_rows(reopen: Callable[[], Database]) -> None:
    db = reopen()
    db.execute(BOOKS)
    db.execute("INSERT INTO books VALUES (1, 10, 'a'); INSERT INTO books VALUES (2, 20, 'b');")
    db.execute("CREATE TABLE cheap AS SELECT id, price FROM books;")
    assert rows(db, "SELECT * FROM cheap;") == [(1, 10), (2, 20)]
    db.execute("CREATE OR REPLACE TABLE cheap AS SELECT id, price, title FROM books;")
    db.execute("INSERT INTO books VALUES (2, 25, 'b');")
    assert rows(db, "SELECT * FROM cheap;") == [(1, 10, None), (2, 25, "b")]
    db = reopen()
    db.execute("INSERT INTO books VALUES (1, 5, 'a');")
    assert rows(db, "SELECT * FROM cheap;") == [(1, 5, "a"), (2, 25, "b")]


def test_an_aggregation_keeps_its_counts_under_another_filter(
    reopen: Callable[[], Database],
) -> None:
    db = reopen()
    fill(db)
    db.execute(f"{COUNTED} GROUP BY customer;")
    assert rows(db, "SELECT * FROM counted;") == [("ann", 2), ("bob", 1), ("cleo", 1)]
    db.execute(replacing(f"{COUNTED} WHERE amount > 2 GROUP BY customer HAVING COUNT(*) > 1;"))
    db.execute("INSERT INTO orders VALUES ('bob', 'tea', 1);")
    assert rows(db, "SELECT * FROM counted;") == [("ann", 2)]
    db.execute("INSERT INTO orders VALUES ('bob', 'tea', 9);")
    assert rows(db, "SELECT * FROM counted;") == [("ann", 2), ("bob", 2)]
    assert rows(reopen(), "SELECT * FROM counted;") == [("ann", 2), ("bob", 2)]


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT customer, MAX(amount) AS n FROM orders GROUP BY customer", "columns"),
        ("SELECT item, COUNT(*) AS n FROM orders GROUP BY item", "columns"),
        ("SELECT item AS customer, COUNT(*) AS n FROM orders GROUP BY item", "key"),
        ("SELECT customer, COUNT(item) AS n FROM orders GROUP BY customer", "aggregation"),
        (
            "SELECT customer, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 1 DAY) "
            "GROUP BY customer",
            "window",
        ),
    ],
)
def test_what_decides_the_state_must_stay(db: Database, sql: str, word: str) -> None:
    fill(db)
    db.execute(f"{COUNTED} GROUP BY customer;")
    refused(db, f"CREATE OR REPLACE TABLE counted AS {sql};", word)


def test_a_paused_query_stays_paused(db: Database) -> None:
    fill(db)
    db.execute("CREATE STREAM teas AS SELECT * FROM orders WHERE item = 'tea';")
    db.execute("PAUSE ALL; CREATE OR REPLACE STREAM teas AS SELECT * FROM orders;")
    assert [row[2] for row in rows(db, "SHOW QUERIES;")] == ["PAUSED"]


def test_only_one_writer_and_no_change_of_kind(db: Database) -> None:
    fill(db)
    db.execute("CREATE STREAM teas AS SELECT * FROM orders WHERE item = 'tea';")
    refused(db, "CREATE OR REPLACE STREAM orders AS SELECT * FROM teas;", "without a query")
    refused(
        db,
        "CREATE OR REPLACE STREAM teas (customer STRING KEY, item STRING, amount DOUBLE) "
        "WITH (KAFKA_TOPIC='TEAS', VALUE_FORMAT='JSON');",
        "CSAS_TEAS",
    )
    db.execute("INSERT INTO teas SELECT * FROM orders;")
    refused(db, "CREATE OR REPLACE STREAM teas AS SELECT * FROM orders;", "several queries")


def test_a_terminated_query_is_made_anew(db: Database) -> None:
    fill(db)
    db.execute("CREATE STREAM teas AS SELECT * FROM orders WHERE item = 'tea'; TERMINATE ALL;")
    db.execute("CREATE OR REPLACE STREAM teas AS SELECT * FROM orders WHERE item = 'jam';")
    assert rows(db, "SELECT item FROM teas;")[0] == ("jam",)


def test_replacing_can_be_switched_off(db: Database) -> None:
    fill(db)
    db.execute("SET 'ksql.create.or.replace.enabled'='false';")
    refused(db, "CREATE OR REPLACE STREAM teas AS SELECT * FROM orders;", "disabled")
