"""CREATE STREAM and CREATE TABLE with columns."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Format, Source
from millstream.model.errors import ConflictError, StatementError
from millstream.plan.define import alter_source, create_source, create_type, drop_type
from millstream_parser import parse, statements


def created(
    sql: str, catalog: Catalog | None = None, properties: Mapping[str, str] | None = None
) -> Source:
    (statement,) = parse(sql)
    assert isinstance(statement, statements.CreateSource)
    return create_source(statement, catalog or Catalog(), properties or {}, text=sql)


def test_a_stream() -> None:
    stream = created(
        "CREATE STREAM s (v INT, at_ STRING, k STRING KEY, h BYTES HEADER('x'), "
        "`c d` ARRAY<DOUBLE>) "
        "WITH (KAFKA_TOPIC = 'in', VALUE_FORMAT = 'delimited', VALUE_DELIMITER = ';', "
        "TIMESTAMP = 'at_', TIMESTAMP_FORMAT = 'yyyy');"
    )
    assert stream.schema.names == ("K", "V", "AT_", "H", "c d")
    assert stream.key_format == Format("KAFKA")
    assert stream.value_format == Format("DELIMITED", None, {"delimiter": ";"})
    assert stream.timestamp is not None and stream.timestamp.name == "AT_"
    assert stream.statement.startswith("CREATE STREAM")


def test_default_formats_of_the_session() -> None:
    defaults = {
        "ksql.persistence.default.format.key": "json",
        "ksql.persistence.default.format.value": "json",
        "ksql.persistence.wrap.single.values": "false",
    }
    stream = created("CREATE STREAM s (v INT) WITH (KAFKA_TOPIC = 's');", None, defaults)
    assert (stream.key_format, stream.value_format) == (Format("JSON"), Format("JSON", False))


def test_custom_types_are_expanded() -> None:
    (made,) = parse("CREATE TYPE pair AS STRUCT<a INT, b INT>;")
    assert isinstance(made, statements.CreateType)
    catalog = create_type(made, Catalog())
    stream = created("CREATE STREAM s (p pair) WITH (KAFKA_TOPIC='s', FORMAT='JSON');", catalog)
    assert str(stream.schema) == "`P` STRUCT<`A` INTEGER, `B` INTEGER>"
    with pytest.raises(ConflictError, match="already registered"):
        create_type(made, catalog)
    assert not drop_type(statements.DropType("PAIR"), catalog).types


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("STREAM s (v INT) WITH (VALUE_FORMAT='JSON')", 'Missing required property "KAFKA_TOPIC"'),
        ("STREAM s (v INT) WITH (KAFKA_TOPIC='s')", "missing the 'VALUE_FORMAT' property"),
        ("STREAM s WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON')", "No columns supplied."),
        ("TABLE t (k INT, v INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON')",
         "Tables require a PRIMARY KEY"),
        ("STREAM s (v INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON', WINDOW_TYPE='SESSION')",
         "Windowed sources require a key column."),
        ("TABLE t (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON',"
         " RETENTION_MS=1000)", "RETENTION_MS. Non-windowed tables do not support retention."),
        ("STREAM s (v INT, v INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON')", "Duplicate column names"),
    ],
)  # fmt: skip
def test_refused(sql: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        created(f"CREATE {sql};")
    assert message in str(caught.value)


def test_records_of_windowed_tables_and_streams_may_be_kept_for_a_time() -> None:
    window = "WINDOW_TYPE='SESSION', RETENTION_MS=1000"
    for kind, key, more in (("TABLE", "PRIMARY KEY", window), ("STREAM", "KEY", "RETENTION_MS=1")):
        sql = f"CREATE {kind} x (k INT {key}, v INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON', {more});"
        assert created(sql).schema.names == ("K", "V")


def test_replacing_and_altering() -> None:
    properties = "WITH (KAFKA_TOPIC='s', FORMAT='JSON');"
    catalog = Catalog().with_source(created(f"CREATE STREAM s (v INT) {properties}"))
    with pytest.raises(ConflictError, match="already exists"):
        created(f"CREATE STREAM s (v INT) {properties}", catalog)
    wider = created(f"CREATE OR REPLACE STREAM s (v INT, w INT) {properties}", catalog)
    assert wider.schema.names == ("V", "W")
    with pytest.raises(StatementError, match="not supported on source streams"):
        created(f"CREATE OR REPLACE SOURCE STREAM s (v INT) {properties}", catalog)
    (altered,) = parse("ALTER STREAM s ADD COLUMN x INT, ADD y STRING;")
    assert isinstance(altered, statements.AlterSource)
    assert alter_source(altered, catalog).schema.names == ("V", "X", "Y")
