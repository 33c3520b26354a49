"""Streams, tables and queries of our own that wrong statements are about."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager

import millstream
from millstream import Database, History, Rows
from millstream.log.log import Topic
from millstream.model.errors import ConflictError, StatementError
from millstream.model.schema_text import SchemaText
from millstream.query.session import Session
from millstream.service.execution import execute_script
from tests.unit.processors.test_batches import Doubled
from tests.unit.service.test_processors import Silence

OWN = """
CREATE TYPE address AS STRUCT<street STRING, town STRING>;
CREATE STREAM orders (id INT KEY, who STRING, amount DECIMAL(6, 2), lives address, raw BYTES,
    day DATE, made TIMESTAMP, t TIME, l ARRAY<INT>, m MAP<STRING, BIGINT>, yes BOOLEAN)
  WITH (KAFKA_TOPIC = 'orders', VALUE_FORMAT = 'JSON');
CREATE SOURCE TABLE users (id STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC = 'users', VALUE_FORMAT = 'JSON');
CREATE STREAM heads (k INT KEY, v INT, h BYTES HEADER('h'))
  WITH (KAFKA_TOPIC = 'heads', VALUE_FORMAT = 'JSON');
CREATE STREAM large AS SELECT * FROM orders WHERE amount > 10;
CREATE TABLE spent AS SELECT who, SUM(amount) AS total FROM orders GROUP BY who;
CREATE TABLE hourly WITH (KEY_FORMAT = 'JSON') AS SELECT who, yes, COUNT(*) AS n FROM orders
  WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY who, yes;
CREATE TABLE counted AS SELECT k, COUNT(*) AS n FROM heads GROUP BY k;
"""
TOPICS = ("orders", "users", "heads")
"""Those that `OWN` expects."""
MORE = """
CREATE STREAM again (id INT KEY, who STRING) WITH (KAFKA_TOPIC = 'orders', VALUE_FORMAT = 'JSON');
CREATE STREAM hops (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'hops', PARTITIONS = 1,
  VALUE_FORMAT = 'JSON', WINDOW_TYPE = 'HOPPING', WINDOW_SIZE = '1 HOUR');
CREATE STREAM sess (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'sess', PARTITIONS = 1,
  VALUE_FORMAT = 'JSON', WINDOW_TYPE = 'SESSION');
CREATE TABLE hour (who STRING PRIMARY KEY, n INT) WITH (KAFKA_TOPIC = 'hour', PARTITIONS = 1,
  VALUE_FORMAT = 'JSON', WINDOW_TYPE = 'TUMBLING', WINDOW_SIZE = '1 HOUR');
CREATE STREAM wide (k INT KEY, v INT)
  WITH (KAFKA_TOPIC = 'wide', PARTITIONS = 2, VALUE_FORMAT = 'JSON');
CREATE STREAM csv (k STRING KEY, v INT)
  WITH (KAFKA_TOPIC = 'csv', PARTITIONS = 1, VALUE_FORMAT = 'DELIMITED');
CREATE STREAM plain (k STRING KEY, v INT)
  WITH (KAFKA_TOPIC = 'plain', PARTITIONS = 1, VALUE_FORMAT = 'KAFKA');
CREATE SOURCE STREAM fixed (k STRING KEY, v INT)
  WITH (KAFKA_TOPIC = 'fixed', PARTITIONS = 1, VALUE_FORMAT = 'JSON');
CREATE TABLE people (id STRING PRIMARY KEY, name STRING, boss STRING)
  WITH (KAFKA_TOPIC = 'people', PARTITIONS = 1, VALUE_FORMAT = 'JSON');
CREATE TABLE pets (id STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC = 'people', VALUE_FORMAT = 'JSON');
CREATE STREAM both AS SELECT id, who FROM orders;
INSERT INTO both WITH (QUERY_ID = 'other') SELECT id, who FROM orders;
CREATE STREAM base (k INT KEY, v INT)
  WITH (KAFKA_TOPIC = 'base', PARTITIONS = 1, VALUE_FORMAT = 'JSON');
CREATE STREAM silent AS SELECT * FROM PROCESS(csv, 'Silence');
CREATE STREAM derived AS SELECT * FROM base;
INSERT INTO orders (id, who) VALUES (1, 'not a number');
"""


class Hourly(millstream.Processor):
    """It has a schedule by the clock of the wall."""

    output = "id INT KEY, n INT"

    def init(self, context: millstream.ProcessorContext) -> None:
        context.schedule(dt.timedelta(hours=1), millstream.WALL_CLOCK, print)


SCHEMAS = {
    "numbers-value": '"int"',
    "wrong-value": '{"title": "org.apache.kafka.connect.data.Decimal", "connect.parameters":'
    ' {"scale": "x"}}',
    "nulls-value": '"null"',
    "texts-value": '{"type": "record", "name": "t", "fields": [{"name": "V", "type": "string"}]}',
}
"""By the subjects that have them, of the ids 1, 2 and so on."""


@contextmanager
def opened() -> Iterator[Database]:
    """A database in memory with all of these; `derived` has no query any more."""
    unmerged = millstream.udaf("unmerged", "INTEGER -> INTEGER", initial=lambda: 0, add=max)
    earliest = {"auto.offset.reset": "earliest"}
    processors = [millstream.processor(each) for each in (Silence, Doubled, Hourly)]
    functions = [unmerged, *processors]
    with millstream.connect(functions=functions, properties=earliest) as database:
        for topic in TOPICS:
            database.engine.log.create_topic(Topic(topic, 1))
        database.execute(OWN + MORE)
        assert database.engine.schemas is not None
        for subject, text in SCHEMAS.items():
            kind = "JSON" if subject == "wrong-value" else "AVRO"
            database.engine.schemas.register(subject, SchemaText(kind, text))
        database.execute(f"TERMINATE {database.engine.catalog.source('DERIVED').query_id};")
        database.wait()
        yield database


def refusal(database: Database, session: Session, text: str) -> StatementError | ConflictError:
    """How a statement is refused, if not at once then as its rows are read. AssertionError if it
    is not."""
    try:
        for result in execute_script(database.engine, text, session):
            if isinstance(result, Rows | History):
                list(result)
    except (StatementError, ConflictError) as error:
        return error
    raise AssertionError(f"It is not refused: {text}")
