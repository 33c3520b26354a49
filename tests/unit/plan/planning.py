"""Sources and a short way from SQL to a plan, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from millstream.catalog.catalog import Catalog
from millstream.functions.catalogue import builtin_catalogue
from millstream.plan.build import Planned, plan_query
from millstream.plan.define import create_source
from millstream.plan.nodes import Node, inputs
from millstream.plan.sinks import Client, ExistingStream, NewSource, Target
from millstream_parser import parse, statements

SOURCES = """
CREATE STREAM s (k STRING KEY, v INT, w DOUBLE, n STRUCT<a INT, b STRING>, l ARRAY<INT>)
  WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
CREATE STREAM two (a INT KEY, b INT KEY, c INT) WITH (KAFKA_TOPIC = 'two', FORMAT = 'JSON');
CREATE STREAM bare (v INT, w DOUBLE) WITH (KAFKA_TOPIC = 'bare', VALUE_FORMAT = 'JSON');
CREATE STREAM line (k STRING KEY, v INT)
  WITH (KAFKA_TOPIC = 'line', VALUE_FORMAT = 'DELIMITED', VALUE_DELIMITER = ';');
CREATE STREAM win (k STRING KEY, v INT)
  WITH (KAFKA_TOPIC = 'win', VALUE_FORMAT = 'JSON', WINDOW_TYPE = 'SESSION');
CREATE STREAM heads (k STRING KEY, v INT, h BYTES HEADER('a'))
  WITH (KAFKA_TOPIC = 'heads', VALUE_FORMAT = 'JSON');
CREATE STREAM kaf (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'kaf', VALUE_FORMAT = 'KAFKA');
CREATE STREAM number (KSQL_COL_1 INT KEY, v INT) WITH (KAFKA_TOPIC = 'number', FORMAT = 'JSON');
CREATE TABLE t (id INT PRIMARY KEY, name STRING) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'JSON');
CREATE TABLE u (id INT PRIMARY KEY, name STRING) WITH (KAFKA_TOPIC = 'u', VALUE_FORMAT = 'JSON');
CREATE TABLE wide (a INT PRIMARY KEY, b INT) WITH (KAFKA_TOPIC = 'wide', KEY_FORMAT = 'DELIMITED',
  VALUE_FORMAT = 'JSON');
CREATE TABLE wtab (k STRING PRIMARY KEY, v INT)
  WITH (KAFKA_TOPIC = 'wtab', VALUE_FORMAT = 'JSON', WINDOW_TYPE = 'SESSION');
CREATE STREAM sent (parcel INT KEY, shelf INT, label STRING)
  WITH (KAFKA_TOPIC = 'sent', VALUE_FORMAT = 'JSON');
CREATE STREAM got (parcel INT KEY, shelf INT, depot STRING)
  WITH (KAFKA_TOPIC = 'got', VALUE_FORMAT = 'JSON');
CREATE STREAM lost (parcel INT KEY, rowkey INT)
  WITH (KAFKA_TOPIC = 'lost', KEY_FORMAT = 'DELIMITED', VALUE_FORMAT = 'JSON');
CREATE TABLE shelves (nr INT PRIMARY KEY, hall INT, colour STRING)
  WITH (KAFKA_TOPIC = 'shelves', VALUE_FORMAT = 'JSON');
CREATE TABLE halls (nr INT PRIMARY KEY, city STRING)
  WITH (KAFKA_TOPIC = 'halls', KEY_FORMAT = 'JSON', VALUE_FORMAT = 'JSON');
CREATE STREAM hop (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'hop', VALUE_FORMAT = 'JSON',
  WINDOW_TYPE = 'HOPPING', WINDOW_SIZE = '4 SECONDS');
CREATE STREAM hop4 (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'hop4', VALUE_FORMAT = 'JSON',
  WINDOW_TYPE = 'HOPPING', WINDOW_SIZE = '4 SECONDS');
CREATE STREAM tumble (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'tumble', VALUE_FORMAT = 'JSON',
  WINDOW_TYPE = 'TUMBLING', WINDOW_SIZE = '6 SECONDS');
CREATE STREAM avro_hop (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'avro_hop', KEY_FORMAT = 'AVRO',
  VALUE_FORMAT = 'JSON', WINDOW_TYPE = 'HOPPING', WINDOW_SIZE = '4 SECONDS');
CREATE STREAM avro_tumble (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'avro_t', KEY_FORMAT = 'AVRO',
  VALUE_FORMAT = 'JSON', WINDOW_TYPE = 'TUMBLING', WINDOW_SIZE = '6 SECONDS');
"""


def catalog() -> Catalog:
    result = Catalog()
    for statement in parse(SOURCES):
        assert isinstance(statement, statements.CreateSource)
        result = result.with_source(create_source(statement, result, {}))
    return result


def planned(sql: str, properties: Mapping[str, str] | None = None) -> Planned:
    (statement,) = parse(sql)
    target: Target
    match statement:
        case statements.CreateAs():
            target, query = (
                NewSource(statement.kind, statement.name, statement.properties),
                statement.query,
            )
        case statements.InsertInto():
            target, query = ExistingStream(statement.target, statement.properties), statement.query
        case statements.SelectStatement() if statement.query is not None:
            target, query = Client(), statement.query
        case _:
            raise AssertionError(statement)
    return plan_query(
        query,
        catalog(),
        target=target,
        properties=properties or {},
        functions=builtin_catalogue(),
        script=sql,
    )


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for below in inputs(node):
        yield from nodes(below)
