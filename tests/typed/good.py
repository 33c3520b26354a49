"""Chains that type checkers accept; tests/unit/dsl/test_typing.py checks it."""

from __future__ import annotations

from datetime import date, timedelta

import pyarrow as pa

import millstream as ms
from millstream import col, fn, lit


def run(db: ms.Database) -> None:
    """A chain of each kind."""
    orders, customers = db.stream("orders"), db.table("customers")
    big: ms.KStream = orders.filter((col("amount") * 2 > lit(10)) & ~col("ok"))
    rest: tuple[ms.KStream, ...] = orders.split(col("n") > 1, col("n").is_null())
    priced: ms.KStream = big.map_values(
        "amount",
        col("n").alias("number"),
        day=lit(date(2024, 1, 1)),
        next=fn.dateadd("days", 1, col("day")),
        size=ms.when(col("amount") > 10, "big").otherwise("small"),
        tags=fn.transform(col("tags"), lambda tag: fn.ucase(tag)),
        part=fn.substring(col("customer"), 1, 3),
    )
    done: ms.Done = priced.to("priced", topic="prices", partitions=4, value_format="JSON")
    merged: ms.MergedKStream = big.merge(*rest)
    window = ms.hopping(timedelta(minutes=5), "1 minute", grace=timedelta(0))
    totals: ms.AggregatedKTable = (
        big.group_by("customer")
        .window(window)
        .aggregate({"orders": fn.count()}, total=fn.sum(col("amount")))
        .having(fn.count() > 1)
        .suppress()
    )
    table: ms.KTable = totals.through("totals")
    joined: ms.KStream = orders.left_join(customers, on=orders["customer"] == customers["id"])
    rows: pa.Table = table.where(col("total") > 10).order_by("total").arrow()
    print(done.query_id, merged.sql, joined.explain(), rows)
    for row in joined:
        print(row)
