"""Answers in protobuf: their bytes, and rows that a message cannot hold."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats.payload import Layout
from millstream.formats.protobuf import write_protobuf
from millstream.model.physical import arrow_type
from millstream.model.schema import Column, Schema
from millstream.model.types import DATE, DOUBLE, INTEGER, STRING, Array, Field, SqlType, Struct
from millstream_server.results.framing import PROTOBUF
from millstream_server.results.proto_message import row_message
from millstream_server.results.protobuf import ProtobufObjects
from tests.draws import draws
from tests.server.conftest import RunningServer
from tests.unit.formats.test_formats import NESTED, SCALARS, values


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("a ARRAY<INT>", "ARRAY[1, CAST(NULL AS INT)]"),
        ("m MAP<STRING, INT>", "MAP('a' := CAST(NULL AS INT))"),
        ("l ARRAY<ARRAY<INT>>", "ARRAY[ARRAY[1]]"),
        ("d ARRAY<MAP<STRING, INT>>", "ARRAY[MAP('a' := 1)]"),
    ],
)
def test_a_row_that_protobuf_cannot_hold_ends_the_answer(
    door: RunningServer, column: str, value: str
) -> None:
    name = column.split()[0]
    door.ksql(
        f"CREATE STREAM odd (k INT KEY, {column})"
        " WITH (kafka_topic='odd', value_format='JSON', partitions=1);"
        "CREATE TABLE kept AS SELECT k, LATEST_BY_OFFSET(k) AS l,"
        f" LATEST_BY_OFFSET({name}) AS v FROM odd GROUP BY k;"
        f"INSERT INTO odd (k, {name}) VALUES (1, {value}); INSERT INTO odd (k) VALUES (2);"
    )
    door.engine.drain()
    for sql in ("SELECT * FROM odd;", "SELECT * FROM odd EMIT CHANGES LIMIT 2;"):
        *_, last = json.loads(door.query(sql, PROTOBUF))
        assert "Cannot write a row as protobuf" in last["errorMessage"]["message"], sql
    for sql in ("SELECT * FROM kept WHERE k = 1;", "SELECT * FROM kept;"):
        answer = door.http.post("/query", json={"ksql": sql}, headers={"accept": PROTOBUF})
        assert "Cannot write a row as protobuf" in answer.text, sql
        assert answer.status_code in (200, 400), sql
    *_, row, _ = json.loads(door.query("SELECT k FROM odd;", PROTOBUF))
    assert base64.b64decode(row["row"]["protobufBytes"]) == b"\x08\x02"


@pytest.mark.parametrize("sql_type", [*SCALARS, *NESTED, Struct(()), Array(DOUBLE)], ids=str)
@settings(max_examples=draws(12))
@given(data=st.data())
def test_the_bytes_are_those_of_the_format_protobuf_nosr(
    sql_type: SqlType, data: st.DataObject
) -> None:
    """Two pieces of code that share nothing write the same: the library and the engine's."""
    schema = Schema((Column("k 1", STRING), Column("v", sql_type)))
    rows = data.draw(st.lists(st.tuples(values(STRING), values(sql_type)), min_size=1, max_size=5))
    columns = [
        pa.array(list(column), arrow_type(each.type))
        for column, each in zip(zip(*rows, strict=True), schema.columns, strict=True)
    ]
    framing = ProtobufObjects(pull=True)
    framing.header(None, schema)
    text = framing.rows(pa.table(columns, names=schema.names)) + framing.end(None)
    found = [
        base64.b64decode(row["row"]["protobufBytes"])
        for row in json.loads(b"[" + text.lstrip(b",\n"))
    ]
    assert found == write_protobuf(columns, Layout(schema.columns)).payload.to_pylist()


def test_names_that_protobuf_does_not_allow_are_in_the_definition_alone() -> None:
    columns = (Column("a b", INTEGER), Column("A B", INTEGER), Column("ConnectDefault2", INTEGER))
    message = row_message(Schema((*columns, Column("s", Struct((Field("f", DATE),))))))
    assert "  int32 a b = 1;\n  int32 A B = 2;\n  int32 ConnectDefault2 = 3;" in message.definition
    assert message.cls(f2=1).SerializeToString() == b"\x10\x01"


def test_lists_of_lists_are_empty_in_a_message() -> None:
    schema = Schema((Column("l", Array(Array(INTEGER))), Column("k", INTEGER)))
    framing = ProtobufObjects(pull=True)
    assert b"  repeated int32 l = 1;" in framing.header(None, schema).replace(rb"\n", b"\n")
    columns = [pa.array([[]], pa.list_(pa.list_(pa.int32()))), pa.array([2], pa.int32())]
    assert base64.b64encode(b"\x10\x02") in framing.rows(pa.table(columns, names=schema.names))
