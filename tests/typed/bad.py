"""Chains that type checkers refuse; tests/unit/dsl/test_typing.py checks each marked line."""

from __future__ import annotations

import millstream as ms
from millstream import col, fn, lit


def run(db: ms.Database) -> None:
    """A mistake on each marked line."""
    orders, customers = db.stream("orders"), db.table("customers")
    orders.filter("amount > 10")  # error: arg-type
    orders.filter(10)  # error: arg-type
    orders.select(1)  # error: arg-type
    orders.to("big", topik="x")  # error: call-arg
    orders.to("big", partitions="4")  # error: arg-type
    orders.where(col("n") > 1)  # error: attr-defined
    orders.suppress()  # error: attr-defined
    orders.merge(customers)  # error: arg-type
    orders.merge(orders).filter(col("n") > 1)  # error: attr-defined
    orders.outer_join(customers, on=col("a") == col("b"), within="1 day")  # error: arg-type
    customers.join(orders, on=col("a") == col("b"))  # error: arg-type
    customers.group_by("town").window(ms.tumbling("1 day"))  # error: attr-defined
    orders.group_by("n").window("1 day")  # error: arg-type
    orders.explain(stage="NOTHING")  # error: arg-type
    lit(object())  # error: arg-type
    fn.nothing(col("n"))  # error: attr-defined
    fn.ucase(col("n"), 2)  # error: call-arg
    fn.ucase(3)  # error: arg-type
    fn.dateadd("months", 1, col("day"))  # error: arg-type
    fn.filter(col("tags"), col("n"))  # error: arg-type
    col("n") + object()  # error: operator
    col("n") & 1  # error: operator
    ms.session(5)  # error: arg-type
