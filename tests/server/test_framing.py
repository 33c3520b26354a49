"""The bytes of each framing."""

from __future__ import annotations

import base64
import json

import pyarrow as pa

from millstream.model import types as t
from millstream.model.batch import DIFF
from millstream.model.schema import Column, Role, Schema
from millstream.query.rendered_rows import RenderedRows
from millstream.query.results import Change
from millstream_server.failures import RefusedError
from millstream_server.results.framing import ArrowStream, Delimited, Framing, Objects, PlainArray
from millstream_server.results.proto_message import row_message
from millstream_server.results.protobuf import ProtobufObjects
from millstream_server.results.queries import framed

SCHEMA = Schema((Column("ID", t.INTEGER, Role.KEY), Column("V", t.STRING)))
ROWS = pa.table({"ID": pa.array([1, 2], pa.int32()), "V": ["a", None]})
DELETED = pa.table(
    {
        "ID": pa.array([1, 2], pa.int32()),
        "V": pa.array([None, "x"]),
        DIFF: pa.array([-1, 1], pa.int8()),
    }
)
FAILED = RefusedError(50000, "no")


def whole(framing: Framing, *tables: pa.Table, message: str | None = None) -> bytes:
    parts = [framing.header("q1", SCHEMA), *(framing.rows(table) for table in tables)]
    return b"".join((*parts, framing.end(message)))


DESCRIBED = b'{"queryId":"q1","columnNames":["ID","V"],"columnTypes":["INTEGER","STRING"]}'


def test_delimited_has_a_value_on_each_line() -> None:
    assert whole(Delimited(), ROWS, message="Done") == DESCRIBED + b'\n[1,"a"]\n[2,null]\n'


def test_delimited_leaves_deletions_out() -> None:
    assert whole(Delimited(), DELETED) == DESCRIBED + b'\n[2,"x"]\n'


def test_the_plain_array_begins_with_the_description() -> None:
    assert whole(PlainArray(), ROWS, DELETED) == (b"[" + DESCRIBED + b',[1,"a"],[2,null],[2,"x"]]')


def test_objects_of_a_pull_query_have_no_dangling_separator() -> None:
    assert whole(Objects(pull=True), ROWS) == (
        b'[{"header":{"queryId":"q1","schema":"`ID` INTEGER KEY, `V` STRING"}},\n'
        b'{"row":{"columns":[1,"a"]}},\n'
        b'{"row":{"columns":[2,null]}}]\n'
    )
    assert whole(Objects(pull=True)).endswith(b'STRING"}}]\n')


def test_objects_of_a_push_query_end_each_row_at_once() -> None:
    framing = Objects(pull=False)
    assert framing.header("q1", SCHEMA) == (
        b'[{"header":{"queryId":"q1","schema":"`ID` INTEGER, `V` STRING"}},\n'
    )
    assert framing.rows(DELETED) == (
        b'{"row":{"columns":[1,null],"tombstone":true}},\n{"row":{"columns":[2,"x"]}},\n'
    )
    assert framing.end("Limit Reached") == b'{"finalMessage":"Limit Reached"}]\n'


def test_errors_behind_the_header() -> None:
    error = b'{"@type":"generic_error","error_code":50000,"message":"no"}'
    assert Delimited().failed(FAILED) == error + b"\n"
    assert PlainArray().failed(FAILED) == b"," + error + b"]"
    assert Objects(pull=True).failed(FAILED) == b',\n{"errorMessage":' + error + b"}]\n"
    assert Objects(pull=False).failed(FAILED) == b'{"errorMessage":' + error + b"}]\n"


def test_an_arrow_stream_reads_back() -> None:
    found = pa.ipc.open_stream(whole(ArrowStream(), ROWS, DELETED)).read_all()
    assert found.to_pylist() == [
        {"ID": 1, "V": "a"},
        {"ID": 2, "V": None},
        {"ID": 2, "V": "x"},
    ]
    assert found.schema.metadata[b"queryId"] == b"q1"


def test_protobuf_rows_lie_in_base64() -> None:
    header, first, second = json.loads(whole(ProtobufObjects(pull=True), ROWS))
    assert header["header"]["protoSchema"] == (
        'syntax = "proto3";\n\nmessage ConnectDefault1 {\n  int32 ID = 1;\n  string V = 2;\n}\n'
    )
    assert base64.b64decode(first["row"]["protobufBytes"]) == b"\x08\x01\x12\x01a"
    assert base64.b64decode(second["row"]["protobufBytes"]) == b"\x08\x02"


def test_protobuf_definitions_nest() -> None:
    kind = t.Array(t.Struct((t.Field("D", t.Decimal(4, 2)),)))
    assert row_message(Schema((Column("L", kind),))).definition == (
        'syntax = "proto3";\n\n'
        'import "confluent/type/decimal.proto";\n\n'
        "message ConnectDefault1 {\n"
        "  repeated ConnectDefault2 L = 1;\n\n"
        "  message ConnectDefault2 {\n    confluent.type.Decimal D = 1;\n  }\n"
        "}\n"
    )


def test_shared_rows_are_framed_once() -> None:
    change = Change(ROWS, RenderedRows(10_000))
    ones, others = Delimited(), Delimited()
    for framing in (ones, others):
        framing.header("q1", SCHEMA)
    assert framed(ones, change, 0) is framed(others, change, 0)
    assert framed(ones, change, 1) == b"[2,null]\n"
    objects = Objects(pull=False)
    objects.header("q1", SCHEMA)
    assert framed(objects, change, 0).startswith(b'{"row":{"columns":[1,"a"]}}')
    for arrow in (ArrowStream(), ArrowStream()):
        begin = arrow.header("q1", SCHEMA)
        sent = begin + framed(arrow, change, 0) + arrow.end(None)
        assert pa.ipc.open_stream(sent).read_all().num_rows == 2
