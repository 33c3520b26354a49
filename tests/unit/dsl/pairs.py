"""Chains and the SQL that is equal to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from millstream import (
    AggregatedKTable,
    Database,
    KStream,
    KTable,
    MergedKStream,
    PullQuery,
    col,
    fn,
    hopping,
    lit,
    session,
    struct,
    tumbling,
    when,
)

SOURCES = """
CREATE STREAM orders (id INT KEY, customer STRING, amount DOUBLE, price DECIMAL(10, 2), n INT,
    tags ARRAY<STRING>, props MAP<STRING, INT>, address STRUCT<town STRING, zip INT>,
    moment TIMESTAMP, day DATE, ok BOOLEAN, `mixedCase` INT, `SIZE` INT)
  WITH (KAFKA_TOPIC='orders', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE STREAM returns (id INT KEY, customer STRING, amount DOUBLE, price DECIMAL(10, 2), n INT,
    tags ARRAY<STRING>, props MAP<STRING, INT>, address STRUCT<town STRING, zip INT>,
    moment TIMESTAMP, day DATE, ok BOOLEAN, `mixedCase` INT, `SIZE` INT)
  WITH (KAFKA_TOPIC='returns', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE STREAM shipments (order_id INT KEY, carrier STRING)
  WITH (KAFKA_TOPIC='shipments', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE customers (id STRING PRIMARY KEY, name STRING, town STRING, age INT)
  WITH (KAFKA_TOPIC='customers', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE towns (town STRING PRIMARY KEY, region STRING)
  WITH (KAFKA_TOPIC='towns', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE scores (id STRING PRIMARY KEY, score INT)
  WITH (KAFKA_TOPIC='scores', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE people AS SELECT id, LATEST_BY_OFFSET(customer) AS customer, SUM(n) AS total
  FROM orders GROUP BY id;
"""
_ORDER = (
    "({0}, {0} + 1000, '{1}', {2}, {2}.25, {3}, ARRAY['a', '{1}'], MAP('x' := {3}, '{1}' := 2),"
    " STRUCT(town := 'Ulm', zip := {3}), '2024-01-0{3}T10:00:00', '2024-01-0{3}', {4}, {3}, {0})"
)
_COLUMNS = (
    "(id, rowtime, customer, amount, price, n, tags, props, address, moment, day, ok, `mixedCase`,"
    " `SIZE`)"
)
_ROWS = [
    (1, "ann", 5, 1, "TRUE"),
    (2, "bob", 15, 2, "FALSE"),
    (3, "ann", 25, 3, "NULL"),
    (4, "cleo", 35, 4, "TRUE"),
    (5, "bob", 1, 5, "FALSE"),
]
INSERTS = ";\n".join(
    [
        "INSERT INTO customers (rowtime, id, name, town, age) VALUES (1, 'ann', 'Ann', 'Ulm', 30)",
        "INSERT INTO customers (rowtime, id, name, town, age) VALUES (1, 'bob', 'Bob', 'Bonn', 40)",
        "INSERT INTO towns (rowtime, town, region) VALUES (1, 'Ulm', 'south')",
        "INSERT INTO scores (rowtime, id, score) VALUES (1, 'ann', 7)",
        *(f"INSERT INTO orders {_COLUMNS} VALUES {_ORDER.format(*row)}" for row in _ROWS),
        *(f"INSERT INTO returns {_COLUMNS} VALUES {_ORDER.format(*row)}" for row in _ROWS[:2]),
        "INSERT INTO shipments (rowtime, order_id, carrier) VALUES (1002, 1, 'post')",
        "INSERT INTO shipments (rowtime, order_id, carrier) VALUES (1003, 4, 'mule')",
    ]
)

Chain = KStream | KTable | MergedKStream | AggregatedKTable


@dataclass(frozen=True)
class Pair:
    """A chain and the SELECT that is equal to it."""

    name: str
    chain: Callable[[Database], Chain]
    select: str


def _orders(db: Database) -> KStream:
    return db.stream("orders")


def _where(name: str, condition: Callable[[], object], sql: str) -> Pair:
    """A filter of the orders."""

    def chain(db: Database) -> Chain:
        return _orders(db).filter(condition())  # type: ignore[arg-type]

    return Pair(name, chain, f"SELECT * FROM orders WHERE {sql}")


def _value(name: str, value: Callable[[], object], sql: str) -> Pair:
    """A column of the orders."""

    def chain(db: Database) -> Chain:
        return _orders(db).select("id", v=value())  # type: ignore[arg-type]

    return Pair(name, chain, f"SELECT id, {sql} AS v FROM orders")


amount = col("amount")
FILTERS = (
    _where("comparison", lambda: amount * 2 > lit(10), "amount * 2 > 10"),
    _where("equal", lambda: col("customer") == "ann", "customer = 'ann'"),
    _where("unequal", lambda: col("customer") != "ann", "customer <> 'ann'"),
    _where("less", lambda: (col("n") < 3) & (col("n") <= 2), "n < 3 AND n <= 2"),
    _where("at least", lambda: (col("n") >= 3) | (col("n") == 1), "n >= 3 OR n = 1"),
    _where(
        "precedence",
        lambda: (col("n") + 1) * 2 - col("n") % 2 > 4 + -col("id"),
        "(n + 1) * 2 - n % 2 > 4 + -id",
    ),
    _where("reflected", lambda: (10 - col("n")) / 2 > 3, "(10 - n) / 2 > 3"),
    _where(
        "three",
        lambda: (col("n") > 1) & (col("n") < 9) & ~(col("n") == 4),
        "n > 1 AND n < 9 AND NOT n = 4",
    ),
    _where(
        "mixed",
        lambda: ((col("n") > 1) | (col("n") < 9)) & (col("id") > 0),
        "(n > 1 OR n < 9) AND id > 0",
    ),
    _where("null", lambda: col("ok").is_null(), "ok IS NULL"),
    _where("not null", lambda: col("ok").is_not_null(), "ok IS NOT NULL"),
    _where("between", lambda: amount.between(5, 20), "amount BETWEEN 5 AND 20"),
    _where("not between", lambda: ~amount.between(5, 20), "amount NOT BETWEEN 5 AND 20"),
    _where("like", lambda: col("customer").like("a%"), "customer LIKE 'a%'"),
    _where(
        "escape",
        lambda: ~col("customer").like("!%%", escape="!"),
        "customer NOT LIKE '!%%' ESCAPE '!'",
    ),
    _where("in", lambda: col("n").isin([1, 3, lit(5)]), "n IN (1, 3, 5)"),
    _where("not in", lambda: ~col("n").isin([1, 3]), "n NOT IN (1, 3)"),
    _where("distinct", lambda: col("n").is_distinct_from(col("id")), "n IS DISTINCT FROM id"),
    _where(
        "not distinct",
        lambda: col("n").is_not_distinct_from(col("id")),
        "n IS NOT DISTINCT FROM id",
    ),
    _where("boolean", lambda: col("ok"), "ok"),
    _where("true", lambda: True, "TRUE"),
    _where("quoted", lambda: col("`mixedCase`") > 2, "`mixedCase` > 2"),
    _where("keyword", lambda: col("size") > 2, "`SIZE` > 2"),
    _where("long", lambda: _any_of(60), " OR ".join(f"n = {i}" for i in range(60))),
)


def _any_of(count: int) -> object:
    """A chain of conditions that the parser balances."""
    found = col("n") == 0
    for number in range(1, count):
        found = found | (col("n") == number)
    return found


VALUES = (
    _value("texts", lambda: col("customer").concat("'s").concat("ü"), "customer || '''s' || 'ü'"),
    _value("double", lambda: amount * 1.5, "amount * 1.5E0"),
    _value("decimal", lambda: col("price") + Decimal("0.50"), "price + 0.50"),
    _value("negative", lambda: col("n") - -5, "n - -5"),
    _value("limits", lambda: lit(-(2**63)), "-9223372036854775808"),
    _value("null literal", lambda: lit(None).cast("STRING"), "CAST(NULL AS STRING)"),
    _value("cast", lambda: col("n").cast("DECIMAL(4, 2)"), "CAST(n AS DECIMAL(4, 2))"),
    _value("element", lambda: col("tags")[1], "tags[1]"),
    _value("last", lambda: col("tags")[-1], "tags[-1]"),
    _value("map", lambda: col("props")["x"], "props['x']"),
    _value("field", lambda: col("address").field("town"), "address->town"),
    _value("array", lambda: lit([col("n"), 1]), "ARRAY[n, 1]"),
    _value("map of", lambda: lit({"a": col("n"), "b": 1}), "MAP('a' := n, 'b' := 1)"),
    _value("struct", lambda: struct(a=col("n"), b="x"), "STRUCT(a := n, b := 'x')"),
    _value(
        "case",
        lambda: when(amount > 20, "big").when(amount > 10, "middle").otherwise("small"),
        "CASE WHEN amount > 20 THEN 'big' WHEN amount > 10 THEN 'middle' ELSE 'small' END",
    ),
    _value("case without", lambda: when(amount > 20, 1), "CASE WHEN amount > 20 THEN 1 END"),
    _value("function", lambda: fn.ucase(col("customer")), "UCASE(customer)"),
    _value(
        "nested",
        lambda: fn.substring(fn.lcase(col("customer")), 2),
        "SUBSTRING(LCASE(customer), 2)",
    ),
    _value("unit", lambda: fn.dateadd("days", 2, col("day")), "DATEADD(DAYS, 2, day)"),
    _value(
        "lambda",
        lambda: fn.transform(col("tags"), lambda tag: fn.ucase(tag)),
        "TRANSFORM(tags, tag => UCASE(tag))",
    ),
    _value(
        "lambdas",
        lambda: fn.transform(col("props"), lambda k, v: fn.ucase(k), lambda k, v: v + col("n")),
        "TRANSFORM(props, (k, v) => UCASE(k), (k, v) => v + n)",
    ),
    _value(
        "reduce",
        lambda: fn.reduce(lit([1, 2]), col("n"), lambda s, x: s + x),
        "REDUCE(ARRAY[1, 2], n, (s, x) => s + x)",
    ),
    _value("date", lambda: lit(date(2024, 1, 2)), "CAST('2024-01-02' AS DATE)"),
    _value("time", lambda: lit(time(1, 2)), "CAST('01:02:00.000' AS TIME)"),
    _value(
        "timestamp",
        lambda: lit(datetime(2024, 1, 2, tzinfo=UTC)),
        "CAST('2024-01-02T00:00:00.000' AS TIMESTAMP)",
    ),
)
STATELESS = (
    Pair("all", _orders, "SELECT * FROM orders"),
    Pair(
        "filter not",
        lambda db: _orders(db).filter_not(amount > 9),
        "SELECT * FROM orders WHERE NOT amount > 9",
    ),
    Pair(
        "filters",
        lambda db: _orders(db).filter(amount > 1).filter(amount < 30).filter(col("n") > 1),
        "SELECT * FROM orders WHERE amount > 1 AND amount < 30 AND n > 1",
    ),
    Pair("select", lambda db: _orders(db).select("id", "amount"), "SELECT id, amount FROM orders"),
    Pair(
        "aliases",
        lambda db: _orders(db).select(col("id").alias("key"), a=amount, nr=1),
        "SELECT id AS key, amount AS a, 1 AS nr FROM orders",
    ),
    Pair(
        "unnamed",
        lambda db: _orders(db).select("id", amount + 1),
        "SELECT id, amount + 1 FROM orders",
    ),
    Pair(
        "star",
        lambda db: _orders(db).select("*", twice=amount * 2),
        "SELECT *, amount * 2 AS twice FROM orders",
    ),
    Pair(
        "fields",
        lambda db: _orders(db).select("id", col("address").all_fields()),
        "SELECT id, address->* FROM orders",
    ),
    Pair(
        "map values",
        lambda db: _orders(db).map_values(a=amount * 2),
        "SELECT id, amount * 2 AS a FROM orders",
    ),
    Pair(
        "filter behind select",
        lambda db: _orders(db).select("id", a=amount * 2).filter(col("a") > 20),
        "SELECT id, amount * 2 AS a FROM orders WHERE amount * 2 > 20",
    ),
    Pair(
        "select behind select",
        lambda db: _orders(db).select("*", a=amount * 2).map_values("n", b=col("a") + col("n")),
        "SELECT id, n, amount * 2 + n AS b FROM orders",
    ),
    Pair(
        "renamed key",
        lambda db: _orders(db).select("amount", k=col("id")).map_values(b=amount),
        "SELECT id AS k, amount AS b FROM orders",
    ),
    Pair(
        "explode",
        lambda db: _orders(db).select("id", tag=fn.explode(col("tags"))),
        "SELECT id, EXPLODE(tags) AS tag FROM orders",
    ),
    Pair(
        "select key",
        lambda db: _orders(db).select_key("customer"),
        "SELECT * FROM orders PARTITION BY customer",
    ),
    Pair(
        "select key of an expression",
        lambda db: _orders(db).select_key(fn.ucase(col("customer"))),
        "SELECT * FROM orders PARTITION BY UCASE(customer)",
    ),
    Pair(
        "key and values",
        lambda db: _orders(db).select_key("customer").map_values("amount"),
        "SELECT customer, amount FROM orders PARTITION BY customer",
    ),
    Pair(
        "split first",
        lambda db: _orders(db).split(amount > 9)[0],
        "SELECT * FROM orders WHERE amount > 9",
    ),
    Pair(
        "split rest",
        lambda db: _orders(db).split(amount > 9, col("ok"))[2],
        "SELECT * FROM orders WHERE CASE WHEN amount > 9 THEN FALSE ELSE TRUE END"
        " AND CASE WHEN ok THEN FALSE ELSE TRUE END",
    ),
    Pair(
        "merge",
        lambda db: _orders(db).filter(amount > 9).merge(db.stream("returns")),
        "SELECT * FROM orders WHERE amount > 9 UNION ALL SELECT * FROM returns",
    ),
)
STATEFUL = (
    Pair(
        "count",
        lambda db: _orders(db).group_by("customer").count(),
        "SELECT customer, COUNT(*) AS count FROM orders GROUP BY customer",
    ),
    Pair(
        "count of",
        lambda db: _orders(db).group_by("customer").count("ok", name="known"),
        "SELECT customer, COUNT(ok) AS known FROM orders GROUP BY customer",
    ),
    Pair(
        "sum",
        lambda db: _orders(db).group_by_key().sum("amount"),
        "SELECT id, SUM(amount) AS sum FROM orders GROUP BY id",
    ),
    Pair(
        "min",
        lambda db: _orders(db).group_by("customer").min(amount + 1, name="least"),
        "SELECT customer, MIN(amount + 1) AS least FROM orders GROUP BY customer",
    ),
    Pair(
        "max",
        lambda db: _orders(db).group_by("customer").max("amount"),
        "SELECT customer, MAX(amount) AS max FROM orders GROUP BY customer",
    ),
    Pair(
        "avg",
        lambda db: _orders(db).group_by("customer").avg("amount"),
        "SELECT customer, AVG(amount) AS avg FROM orders GROUP BY customer",
    ),
    Pair(
        "aggregate",
        lambda db: (
            _orders(db)
            .filter(amount > 1)
            .group_by("customer", even=col("n") % 2)
            .aggregate(
                {"orders": fn.count(), "total": fn.sum(amount)}, tags=fn.collect_list(col("n"))
            )
        ),
        "SELECT customer, n % 2 AS even, COUNT(*) AS orders, SUM(amount) AS total,"
        " COLLECT_LIST(n) AS tags FROM orders WHERE amount > 1 GROUP BY customer, n % 2",
    ),
    Pair(
        "aggregate of a select",
        lambda db: (
            _orders(db)
            .select(who=fn.ucase(col("customer")), twice=amount * 2)
            .group_by("who")
            .sum("twice")
        ),
        "SELECT UCASE(customer) AS who, SUM(amount * 2) AS sum FROM orders"
        " GROUP BY UCASE(customer)",
    ),
    Pair(
        "group by another key",
        lambda db: _orders(db).select_key("customer").group_by_key().count(),
        "SELECT customer, COUNT(*) AS count FROM orders GROUP BY customer",
    ),
    Pair(
        "filter behind aggregate",
        lambda db: _orders(db).group_by("customer").count().filter(col("count") > 1),
        "SELECT customer, COUNT(*) AS count FROM orders GROUP BY customer HAVING COUNT(*) > 1",
    ),
    Pair(
        "having",
        lambda db: (
            _orders(db)
            .group_by("customer")
            .count()
            .having(fn.sum(amount) > 6)
            .filter_not(col("count") == 1)
        ),
        "SELECT customer, COUNT(*) AS count FROM orders GROUP BY customer"
        " HAVING SUM(amount) > 6 AND NOT COUNT(*) = 1",
    ),
    Pair(
        "tumbling",
        lambda db: _orders(db).group_by("customer").window(tumbling(timedelta(minutes=1))).count(),
        "SELECT customer, COUNT(*) AS count FROM orders WINDOW TUMBLING (SIZE 1 MINUTES)"
        " GROUP BY customer",
    ),
    Pair(
        "hopping",
        lambda db: (
            _orders(db)
            .group_by("customer")
            .window(hopping("10 seconds", timedelta(seconds=5), retention="1 day", grace="1 hour"))
            .aggregate(begin=col("windowstart"), n=fn.count())
        ),
        "SELECT customer, WINDOWSTART AS begin, COUNT(*) AS n FROM orders WINDOW HOPPING"
        " (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS, RETENTION 1 DAY, GRACE PERIOD 1 HOUR)"
        " GROUP BY customer",
    ),
    Pair(
        "session",
        lambda db: _orders(db).group_by("customer").window(session(timedelta(seconds=90))).count(),
        "SELECT customer, COUNT(*) AS count FROM orders WINDOW SESSION (90 SECONDS)"
        " GROUP BY customer",
    ),
    Pair(
        "final",
        lambda db: (
            _orders(db)
            .group_by("customer")
            .window(tumbling(timedelta(milliseconds=1), grace=timedelta(0)))
            .count()
            .suppress()
        ),
        "SELECT customer, COUNT(*) AS count FROM orders"
        " WINDOW TUMBLING (SIZE 1 MILLISECONDS, GRACE PERIOD 0 SECONDS)"
        " GROUP BY customer EMIT FINAL",
    ),
    Pair(
        "table by groups",
        lambda db: (
            db.table("people").group_by("customer").aggregate(n=fn.count(), t=fn.sum(col("total")))
        ),
        "SELECT customer, COUNT(*) AS n, SUM(total) AS t FROM people GROUP BY customer",
    ),
    Pair(
        "filter of a table",
        lambda db: db.table("customers").filter(col("age") > 30).map_values("name"),
        "SELECT id, name FROM customers WHERE age > 30",
    ),
    Pair(
        "select of a table",
        lambda db: (
            db.table("customers")
            .filter_not(col("age") > 30)
            .select("id", shout=fn.ucase(col("name")))
        ),
        "SELECT id, UCASE(name) AS shout FROM customers WHERE NOT age > 30",
    ),
)


def _with_table(db: Database) -> KStream:
    orders, customers = _orders(db), db.table("customers")
    return orders.join(customers, on=orders["customer"] == customers["id"])


def _filtered_sides(db: Database) -> Chain:
    orders = _orders(db).filter(amount > 1)
    customers = db.table("customers").filter(col("age") > 30)
    return orders.join(customers, on=orders["customer"] == customers["id"])


def _aliases(db: Database) -> Chain:
    orders, customers = _orders(db).alias("o"), db.table("customers").alias("c")
    joined = orders.left_join(customers, on=orders["customer"] == customers["id"])
    return joined.select(orders["customer"], name=customers["name"], a=orders["amount"])


def _streams(kind: str) -> Callable[[Database], Chain]:
    def chain(db: Database) -> Chain:
        orders, shipments = _orders(db), db.stream("shipments")
        join = getattr(orders, kind)
        joined: KStream = join(
            shipments,
            on=orders["id"] == shipments["order_id"],
            within=timedelta(minutes=10),
            grace="1 minute",
        )
        return joined

    return chain


def _apart(db: Database) -> Chain:
    orders, shipments = _orders(db), db.stream("shipments")
    on = orders["id"] == shipments["order_id"]
    joined = orders.join(shipments, on=on, within=("0 seconds", timedelta(hours=1)))
    return joined.select(id=orders["id"], carrier=col("carrier")).filter(col("carrier") == "post")


def _tables(kind: str) -> Callable[[Database], Chain]:
    def chain(db: Database) -> Chain:
        customers, scores = db.table("customers"), db.table("scores")
        joined: KTable = getattr(customers, kind)(scores, on=customers["id"] == scores["id"])
        return joined

    return chain


def _foreign(db: Database) -> Chain:
    customers, towns = db.table("customers"), db.table("towns")
    joined = customers.join(towns, on=customers["town"] == towns["town"])
    return joined.select(customers["id"], region=towns["region"])


def _three(db: Database) -> Chain:
    orders, customers, scores = _orders(db), db.table("customers"), db.table("scores")
    both = orders.join(customers, on=orders["customer"] == customers["id"])
    return both.left_join(scores, on=orders["customer"] == scores["id"])


def _aggregated_join(db: Database) -> Chain:
    return _with_table(db).group_by(col("customers.town")).sum("amount")


JOINS = (
    Pair(
        "stream with table",
        _with_table,
        "SELECT * FROM orders JOIN customers ON orders.customer = customers.id",
    ),
    Pair(
        "filtered sides",
        _filtered_sides,
        "SELECT * FROM orders JOIN customers ON orders.customer = customers.id"
        " WHERE orders.amount > 1 AND customers.age > 30",
    ),
    Pair(
        "aliases of sources",
        _aliases,
        "SELECT o.customer, c.name AS name, o.amount AS a FROM orders o"
        " LEFT JOIN customers c ON o.customer = c.id",
    ),
    *(
        Pair(
            f"streams {kind}",
            _streams(kind),
            f"SELECT * FROM orders {word} JOIN shipments WITHIN 10 MINUTES GRACE PERIOD 1 MINUTE"
            " ON orders.id = shipments.order_id",
        )
        for kind, word in (("join", "INNER"), ("left_join", "LEFT"), ("outer_join", "FULL OUTER"))
    ),
    Pair(
        "streams apart",
        _apart,
        "SELECT orders.id AS id, carrier AS carrier FROM orders"
        " JOIN shipments WITHIN (0 SECONDS, 1 HOUR) ON orders.id = shipments.order_id"
        " WHERE carrier = 'post'",
    ),
    *(
        Pair(
            f"tables {kind}",
            _tables(kind),
            f"SELECT * FROM customers {word} JOIN scores ON customers.id = scores.id",
        )
        for kind, word in (("join", "INNER"), ("left_join", "LEFT"), ("outer_join", "FULL OUTER"))
    ),
    Pair(
        "foreign key",
        _foreign,
        "SELECT customers.id, towns.region AS region FROM customers"
        " JOIN towns ON customers.town = towns.town",
    ),
    Pair(
        "three sources",
        _three,
        "SELECT * FROM orders JOIN customers ON orders.customer = customers.id"
        " LEFT JOIN scores ON orders.customer = scores.id",
    ),
    Pair(
        "aggregate of a join",
        _aggregated_join,
        "SELECT customers.town, SUM(amount) AS sum FROM orders"
        " JOIN customers ON orders.customer = customers.id GROUP BY customers.town",
    ),
)
RUNNING = (*STATELESS, *STATEFUL, *JOINS)
PAIRS = (*FILTERS, *VALUES, *RUNNING)

PULLS: tuple[tuple[str, Callable[[Database], PullQuery], str], ...] = (
    ("all", lambda db: db.table("people").pull(), "SELECT * FROM people"),
    (
        "where",
        lambda db: db.table("people").where(col("id") == 1),
        "SELECT * FROM people WHERE id = 1",
    ),
    (
        "select",
        lambda db: db.table("people").where(col("total") > 1).select("id", t=col("total") * 2),
        "SELECT id, total * 2 AS t FROM people WHERE total > 1",
    ),
    (
        "order",
        lambda db: (
            db.table("people")
            .pull()
            .select("id", t=col("total") * 2)
            .order_by("t", descending=True)
            .order_by("id")
            .limit(3)
        ),
        "SELECT id, total * 2 AS t FROM people ORDER BY total * 2 DESC, id LIMIT 3",
    ),
    (
        "stream",
        lambda db: db.stream("orders").filter(amount > 9).pull().select("id"),
        "SELECT id FROM orders WHERE amount > 9",
    ),
)
