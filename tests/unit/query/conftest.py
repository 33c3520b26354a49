"""A small shop in memory: a stream of orders, tables over it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream
from millstream import Database

SCRIPT = """
CREATE STREAM orders (customer STRING KEY, item STRING, amount DOUBLE)
  WITH (KAFKA_TOPIC='orders', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE people (name STRING PRIMARY KEY, city STRING)
  WITH (KAFKA_TOPIC='people', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE SOURCE TABLE homes (name STRING PRIMARY KEY, city STRING)
  WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON');
CREATE TABLE spending AS
  SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer;
CREATE TABLE hourly AS
  SELECT customer, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY customer;
CREATE TABLE londoners AS SELECT * FROM people WHERE city = 'London';
INSERT INTO people VALUES ('ann', 'London');
INSERT INTO people VALUES ('bob', 'Leeds');
INSERT INTO people VALUES ('cleo', 'London');
INSERT INTO orders (ROWTIME, customer, item, amount) VALUES (1000, 'ann', 'tea', 1.5);
INSERT INTO orders (ROWTIME, customer, item, amount) VALUES (2000, 'bob', 'milk', 3.0);
INSERT INTO orders (ROWTIME, customer, item, amount) VALUES (3600000, 'ann', 'jam', 2.5);
INSERT INTO orders (ROWTIME, customer, item, amount) VALUES (3700000, 'cleo', 'tea', NULL);
"""


@pytest.fixture(scope="package")
def db() -> Iterator[Database]:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as database:
        database.execute(SCRIPT)
        database.wait()
        yield database
