"""Streams and tables as a data source of PySpark: types, segments, records that are no use."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import Database
from millstream.history.session import Spark
from millstream.log.log import Appended
from millstream.model.batch import raw_batch

SCRIPT = """
CREATE STREAM orders (id STRING KEY, amount DECIMAL(9, 2), n INT, price DOUBLE, made TIMESTAMP,
    day DATE, tags ARRAY<STRING>, sizes MAP<STRING, BIGINT>, buyer STRUCT<name STRING, age INT>,
    raw BYTES, paid BOOLEAN)
  WITH (KAFKA_TOPIC='orders', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE STREAM large AS SELECT id, amount FROM orders WHERE amount > 10;
CREATE TABLE spent AS SELECT id, SUM(amount) AS total FROM orders GROUP BY id;
CREATE TABLE hourly AS SELECT id, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 1 SECOND)
  GROUP BY id;
CREATE TABLE towns (id STRING PRIMARY KEY, town STRING)
  WITH (KAFKA_TOPIC='towns', PARTITIONS=2, VALUE_FORMAT='JSON');
INSERT INTO orders (ROWTIME, id, amount, n, price, made, day, tags, sizes, buyer, raw, paid) VALUES
  (1000, 'ann', 12.50, 3, 0.5, '2026-01-31T12:00:00', '2026-01-31', ARRAY['a', NULL],
   MAP('s' := 1), STRUCT(name := 'Ann', age := 40), 'AQI=', TRUE);
INSERT INTO orders (ROWTIME, id, n) VALUES (2000, 'bob', 7);
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[tuple[Database, str]]:
    path = str(tmp_path / "shop.db")
    with millstream.connect(path, properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(SCRIPT)
        db.wait()
        db.seal()
        yield db, path


def loaded(session: Any, path: str, stream: str, **options: str) -> Any:
    """As users write it."""
    found = session.read.format("millstream").option("path", path).option("stream", stream)
    return found.options(**options).load()


def test_the_types_of_the_stream(shop: tuple[Database, str], spark: Spark) -> None:
    with spark.using() as session:
        orders = loaded(session, shop[1], "orders")
        assert dict(orders.dtypes) == {
            "ID": "string",
            "AMOUNT": "decimal(9,2)",
            "N": "int",
            "PRICE": "double",
            "MADE": "timestamp",
            "DAY": "date",
            "TAGS": "array<string>",
            "SIZES": "map<string,bigint>",
            "BUYER": "struct<NAME:string,AGE:int>",
            "RAW": "binary",
            "PAID": "boolean",
            "ROWTIME": "bigint",
            "ROWPARTITION": "int",
            "ROWOFFSET": "bigint",
        }
        ann, bob = orders.orderBy("ROWTIME").collect()
        made = orders.selectExpr("unix_millis(MADE) AS ms").where("ms IS NOT NULL").first()
    assert made.ms == int(dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC).timestamp() * 1000)
    assert (Decimal("12.50"), dt.date(2026, 1, 31), ["a", None]) == (ann.AMOUNT, ann.DAY, ann.TAGS)
    assert (ann.SIZES, tuple(ann.BUYER), bytes(ann.RAW)) == ({"s": 1}, ("Ann", 40), b"\1\2")
    assert (bob.ID, bob.N, bob.AMOUNT, bob.ROWTIME) == ("bob", 7, None, 2000)


def test_spark_sql_over_what_a_query_wrote(shop: tuple[Database, str], spark: Spark) -> None:
    with spark.using() as session:
        large = loaded(session, shop[1], "LARGE").groupBy("ID").sum("AMOUNT").collect()
    assert [tuple(row) for row in large] == [("ann", Decimal("12.50"))]


def test_it_reads_what_was_sealed_last(shop: tuple[Database, str], spark: Spark) -> None:
    db, path = shop
    with spark.using() as session:
        db.execute("INSERT INTO orders (id, n) VALUES ('cid', 1);")
        assert loaded(session, path, "orders").count() == 2
        folder = db.seal()
        assert loaded(session, path, "orders").count() == 3
        assert loaded(session, folder, "orders").count() == 3


def test_records_that_are_no_use(shop: tuple[Database, str], spark: Spark) -> None:
    db, path = shop
    db.engine.writer.append([Appended("orders", 1, raw_batch([(b"x", b"{not json", 5)]), 1)])
    db.seal()
    with spark.using() as session:
        assert loaded(session, path, "orders").count() == 2
        with pytest.raises(Exception, match="Cannot use the record's value"):
            loaded(session, path, "orders", mode="FAILFAST").count()


@pytest.mark.parametrize(
    ("suffix", "stream", "message"),
    [
        ("", "nothing", "There are: LARGE, ORDERS"),
        ("", "spent", "There is no stream spent"),
        (".other", "orders", "is not sealed"),
    ],
)
def test_what_cannot_be_read(
    shop: tuple[Database, str], spark: Spark, suffix: str, stream: str, message: str
) -> None:
    with spark.using() as session, pytest.raises(Exception, match=message):
        loaded(session, shop[1] + suffix, stream)


TOWNS = """
INSERT INTO towns VALUES ('ann', 'Ulm');
INSERT INTO towns VALUES ('bob', 'Bonn');
INSERT INTO towns VALUES ('ann', 'Trier');
"""


def test_a_table_as_it_stands(shop: tuple[Database, str], spark: Spark) -> None:
    db, path = shop
    db.execute(TOWNS)
    gone = raw_batch([(b"cid", b'{"TOWN":"Kiel"}', 5), (b"cid", None, 6)])
    db.engine.writer.append([Appended("towns", 0, gone, 2)])
    db.execute("INSERT INTO orders (ROWTIME, id, amount) VALUES (2500, 'ann', 1);")
    db.wait()
    db.seal()
    with spark.using() as session:
        reading = session.read.format("millstream").option("path", path)
        towns = reading.option("table", "towns").load().select("ID", "TOWN").collect()
        spent = reading.option("table", "spent").load().select("ID", "TOTAL").collect()
        hourly = reading.option("table", "hourly").load().drop("ROWPARTITION", "ROWOFFSET")
        assert hourly.columns == ["ID", "N", "WINDOWSTART", "WINDOWEND", "ROWTIME"]
        windows = sorted(tuple(row)[:4] for row in hourly.collect())
    assert sorted(map(tuple, towns)) == [("ann", "Trier"), ("bob", "Bonn")]
    assert sorted(map(tuple, spent)) == [("ann", Decimal("13.50")), ("bob", Decimal("0.00"))]
    assert windows == [("ann", 1, 1000, 2000), ("ann", 1, 2000, 3000), ("bob", 1, 2000, 3000)]


def test_a_stream_or_a_table(shop: tuple[Database, str], spark: Spark) -> None:
    with spark.using() as session:
        reading = session.read.format("millstream").option("path", shop[1])
        with pytest.raises(Exception, match="There are: HOURLY, SPENT, TOWNS"):
            reading.option("table", "orders").load()
        with pytest.raises(Exception, match="Both a stream and a table"):
            reading.option("stream", "orders").load()
