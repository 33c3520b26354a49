"""`cogroup`: aggregates over several streams by one key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import millstream
from millstream import Database, StatementError, col, fn, tumbling

SQL = """
CREATE STREAM clicks (id INT KEY, user STRING, url STRING)
  WITH (KAFKA_TOPIC='clicks', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE STREAM orders (id INT KEY, customer STRING, amount DOUBLE, tags ARRAY<STRING>)
  WITH (KAFKA_TOPIC='orders', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE STREAM visits (id INT KEY, guest STRING)
  WITH (KAFKA_TOPIC='visits', PARTITIONS=2, VALUE_FORMAT='JSON');
"""


@pytest.fixture
def db() -> Iterator[Database]:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as opened:
        opened.execute(SQL)
        yield opened


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return sorted(db.execute(sql).fetchall())  # type: ignore[union-attr]


def fill(db: Database) -> None:
    db.insert("clicks", [(1, "ann", "a"), (2, "bob", "b"), (3, "ann", "c")])
    db.insert("orders", [(1, "ann", 2.5, ["x"]), (2, "cid", 100.0, None)])
    db.insert("visits", [(1, "bob")])
    db.wait()


def test_groups_of_several_streams(db: Database) -> None:
    clicks = db.stream("clicks").group_by("user")
    orders = db.stream("orders").filter(col("amount") < 50).group_by("customer")
    visits = db.stream("visits").group_by("guest")
    activity = clicks.cogroup(orders, visits, into="activity", value_format="JSON")
    made = activity.aggregate(
        clicks=fn.count(col("clicks_url")),
        spent=fn.sum(col("orders_amount")),
        visits=fn.count(col("visits_id")),
    )
    made.to("active")
    fill(db)
    assert rows(db, "SELECT * FROM active") == [("ann", 2, 2.5, 0), ("bob", 1, 0.0, 1)]


def test_windows_stand_behind_it(db: Database) -> None:
    groups = (
        db.stream("clicks")
        .group_by("user")
        .cogroup(db.stream("orders").group_by("customer"), into="both")
    )
    groups.window(tumbling("1 hour")).count(name="n").to("hourly")
    fill(db)
    found = rows(db, "SELECT user, n FROM hourly")
    assert found == [("ann", 3), ("bob", 1), ("cid", 1)]


def test_keys_are_values_with_names(db: Database) -> None:
    groups = (
        db.stream("clicks")
        .group_by(who=fn.ucase(col("user")))
        .cogroup(db.stream("orders").alias("o").group_by(fn.ucase(col("customer"))), into="both")
    )
    groups.aggregate(n=fn.count(), tags=fn.count(col("o_tags"))).to("totals")
    fill(db)
    assert rows(db, "SELECT who, n, tags FROM totals") == [
        ("ANN", 3, 1),
        ("BOB", 1, 0),
        ("CID", 1, 0),
    ]


REFUSED: dict[str, tuple[Callable[[Database], Any], str]] = {
    "another step": (
        lambda db: (
            db.stream("clicks")
            .select("user", "url")
            .group_by("user")
            .cogroup(db.stream("orders").group_by("customer"), into="x")
        ),
        "other steps before",
    ),
    "a window": (
        lambda db: (
            db.stream("clicks")
            .group_by("user")
            .window(tumbling("1 hour"))
            .cogroup(db.stream("orders").group_by("customer"), into="x")
        ),
        "other steps before",
    ),
    "one stream twice": (
        lambda db: (
            db.stream("clicks")
            .group_by("user")
            .cogroup(db.stream("clicks").group_by("url"), into="x")
        ),
        "cogrouped twice",
    ),
    "other keys": (
        lambda db: (
            db.stream("clicks")
            .group_by("user")
            .cogroup(db.stream("orders").group_by("customer", "amount"), into="x")
        ),
        "is grouped by 2 columns",
    ),
    "keys of other types": (
        lambda db: (
            db.stream("clicks")
            .group_by("user")
            .cogroup(db.stream("orders").group_by("amount"), into="x")
        ),
        "",
    ),
    "a key without a name": (
        lambda db: (
            db.stream("clicks")
            .group_by(fn.ucase(col("user")))
            .cogroup(db.stream("orders").group_by("customer"), into="x")
        ),
        "need names",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_cogrouped_is_refused(db: Database, case: str) -> None:
    make, words = REFUSED[case]
    with pytest.raises(StatementError) as raised:
        make(db)
    assert words in str(raised.value)
    assert "X" not in db.engine.catalog.sources


def test_it_takes_groups_of_streams(db: Database) -> None:
    clicks = db.stream("clicks").group_by("user")
    with pytest.raises(TypeError, match="not nothing"):
        clicks.cogroup(into="x")
    with pytest.raises(TypeError, match="not KStream"):
        clicks.cogroup(db.stream("orders"), into="x")  # type: ignore[arg-type]
