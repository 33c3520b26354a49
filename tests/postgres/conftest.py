"""A server with a port for PostgreSQL's protocol, and a table of every type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.engine import Engine
from millstream.service.execution import execute_script, open_engine
from millstream_server.postgres.connections import PostgresLimits
from millstream_server.server import ServerSettings
from tests.served import Served, served

SETUP = """
CREATE TABLE people (id BIGINT PRIMARY KEY, name STRING, tags ARRAY<STRING>, paid DECIMAL(10, 2),
    counts MAP<STRING, INT>, home STRUCT<city STRING, zip INT>, seen TIMESTAMP, born DATE, up TIME,
    raw BYTES, height DOUBLE, ok BOOLEAN, n INT)
  WITH (kafka_topic='people', value_format='JSON', partitions=1);
CREATE TABLE known AS SELECT * FROM people;
CREATE STREAM orders (id BIGINT KEY, person BIGINT, amount DOUBLE)
  WITH (kafka_topic='orders', value_format='JSON', partitions=2);
CREATE TABLE hourly AS SELECT person, COUNT(*) AS cnt FROM orders
  WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY person;
INSERT INTO people VALUES (1, 'Ann', ARRAY['a', 'b c', NULL], 3.50, MAP('x' := 1),
    STRUCT(city := 'Ulm', zip := 89073), '2024-01-02T03:04:05.678', '2024-01-02', '03:04:05',
    'AAH/', 1.5, true, 7);
INSERT INTO people (id, name) VALUES (2, 'Bob');
INSERT INTO orders (rowtime, id, person, amount) VALUES (0, 1, 1, 10.0);
INSERT INTO orders (rowtime, id, person, amount) VALUES (1, 2, 2, 20.0);
INSERT INTO orders (rowtime, id, person, amount) VALUES (2, 3, 1, 2.5);
"""


@dataclass(frozen=True)
class Shop:
    """The server, and how to connect to it."""

    engine: Engine
    door: Served

    @property
    def url(self) -> str:
        """What psycopg connects to."""
        return f"host=127.0.0.1 port={self.door.postgres} user=bob dbname=shop"

    def connect(self, *, autocommit: bool = True) -> psycopg.Connection:
        """A connection by psycopg."""
        return psycopg.connect(self.url, autocommit=autocommit)

    def feed(self, text: str) -> None:
        """Execute statements, and wait for what follows from them."""
        list(execute_script(self.engine, text, Session()))
        self.engine.drain()


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    settings = ServerSettings(
        properties={"auto.offset.reset": "earliest"}, body_bytes_max=1 << 20, push_queries_max=20
    )
    with served(engine, settings=settings, postgres=PostgresLimits()) as door:
        found = Shop(engine, door)
        found.feed(SETUP)
        yield found
    engine.close()
