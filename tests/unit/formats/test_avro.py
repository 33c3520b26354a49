"""Avro's encoding and schemas, compared with fastavro."""

from __future__ import annotations

import decimal
import io
import itertools
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats.avro import read_values
from millstream.formats.avro_read import avro_reader
from millstream.formats.avro_schema import parse_avro
from millstream.formats.avro_types import avro_text, key_name, sql_type_of
from millstream.formats.avro_write import avro_writer
from millstream.formats.protobuf_wire import varint
from millstream.formats.registered import prefix_of
from millstream.formats.registered_rows import ResolvedSchema
from millstream.formats.schema_error import SchemaError
from millstream.model.errors import RecordError
from millstream.model.types import (
    BIGINT,
    INTEGER,
    STRING,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
)
from tests.draws import draws
from tests.unit.formats.columns import COLUMNS

Drawn = tuple[Any, st.SearchStrategy[Any]]
"""A schema, and what it can have."""
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
PLAIN: list[Drawn] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=5)),
    ("string", TEXTS),
    ({"type": "int", "logicalType": "unknown"}, st.integers(0, 9)),
]


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Drawn:
    """A schema with the values of its type."""
    kind = draw(
        st.sampled_from(
            ["plain"]
            if depth == 0
            else ["plain", "array", "map", "record", "nullable", "enum", "fixed"]
        )
    )
    name = "named"
    match kind:
        case "array":
            item, values = draw(schemas(depth - 1))
            return {"type": "array", "items": item}, st.lists(values, max_size=3)
        case "map":
            item, values = draw(schemas(depth - 1))
            return {"type": "map", "values": item}, st.dictionaries(TEXTS, values, max_size=3)
        case "record":
            fields = draw(st.lists(schemas(depth - 1), min_size=1, max_size=3))
            listed = [{"name": f"f{n}", "type": each} for n, (each, _) in enumerate(fields)]
            values = st.fixed_dictionaries({f"f{n}": v for n, (_, v) in enumerate(fields)})
            return {"type": "record", "name": name, "fields": listed}, values
        case "nullable":
            item, values = draw(schemas(0))
            branches = draw(st.permutations(["null", item]))
            return list(branches), st.none() | values
        case "enum":
            symbols = ["A", "B", "C"]
            return {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
        case "fixed":
            return {"type": "fixed", "name": name, "size": 3}, st.binary(min_size=3, max_size=3)
    return draw(st.sampled_from(PLAIN))


@st.composite
def records(draw: st.DrawFn) -> tuple[Any, Any]:
    fields = draw(st.lists(schemas(), min_size=1, max_size=4))
    listed = [{"name": f"f{n}", "type": each} for n, (each, _) in enumerate(fields)]
    value = {f"f{n}": draw(values) for n, (_, values) in enumerate(fields)}
    schema = {"type": "record", "name": "root", "fields": listed}
    return with_names(schema, itertools.count()), value


def with_names(schema: Any, numbers: Iterator[int]) -> Any:
    """The schema with another name for each type that has one."""
    if isinstance(schema, list):
        return [with_names(each, numbers) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: with_names(each, numbers) for name, each in schema.items()}
    return {**made, "name": f"n{next(numbers)}"} if schema.get("name") == "named" else made


def as_read(value: Any, schema: Any) -> Any:
    """A value of fastavro as ours: maps are pairs."""
    if value is None:
        return None
    if isinstance(schema, list):
        return as_read(value, next(each for each in schema if each != "null"))
    match schema["type"] if isinstance(schema, dict) else schema:
        case "record":
            return {f["name"]: as_read(value[f["name"]], f["type"]) for f in schema["fields"]}
        case "array":
            return [as_read(each, schema["items"]) for each in value]
        case "map":
            return [(name, as_read(each, schema["values"])) for name, each in value.items()]
    return value


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@settings(max_examples=draws(500), deadline=None)
@given(records())
def test_what_fastavro_writes_is_read(drawn: tuple[Any, Any]) -> None:
    schema, value = drawn
    read = avro_reader(parse_avro(json.dumps(schema)))
    assert read(b"12345" + written(schema, value), 5) == as_read(value, schema)


@settings(max_examples=draws(500), deadline=None)
@given(records())
def test_fastavro_reads_what_is_written(drawn: tuple[Any, Any]) -> None:
    schema, value = drawn
    parsed = parse_avro(json.dumps(schema))
    kind = sql_type_of(parsed)
    assert isinstance(kind, Struct)
    write = avro_writer(parsed, [(f.name, f.type) for f in kind.fields], wrapped=True)
    out = bytearray()
    write([as_read(value[f["name"]], f["type"]) for f in schema["fields"]], out)
    found: Any = fastavro.schemaless_reader(
        io.BytesIO(bytes(out)), fastavro.parse_schema(schema), None
    )
    assert found == value


@settings(max_examples=draws(300), deadline=None)
@given(records(), st.data())
def test_broken_bytes_are_no_crash(drawn: tuple[Any, Any], data: st.DataObject) -> None:
    schema, value = drawn
    content = bytearray(written(schema, value))
    for _ in range(data.draw(st.integers(1, 4))):
        if content:
            place = data.draw(st.integers(0, len(content) - 1))
            content[place] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    read = avro_reader(parse_avro(json.dumps(schema)))
    try:
        read(bytes(content), 0)
    except RecordError as error:
        assert error.message


def zigzag(number: int) -> bytes:
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, 2**62),
        ({"type": "long", "logicalType": "timestamp-millis"}, -(2**63)),
        ({"type": "int", "logicalType": "time-millis"}, 86_400_000),
        ({"type": "int", "logicalType": "time-millis"}, -1),
    ],
)
def test_times_that_no_column_can_have_are_bad_records(kind: Any, number: int) -> None:
    with pytest.raises(RecordError, match=str(number)):
        avro_reader(parse_avro(json.dumps(kind)))(zigzag(number), 0)


def test_a_key_of_a_map_is_not_null() -> None:
    fields = [{"name": "key", "type": ["null", "string"]}, {"name": "value", "type": "int"}]
    entry = {"type": "record", "name": "MapEntry", "fields": fields}
    schema = ResolvedSchema("AVRO", json.dumps({"type": "array", "items": entry}))
    read = read_values(schema, (("M", Map(STRING, INTEGER)),), False)
    assert read(prefix_of(1) + b"\x04\x02\x02a\x02\x02\x02a\x04\0") == [[("a", 2)]], (
        "the last one counts"
    )
    with pytest.raises(RecordError, match="a key of a map is NULL"):
        read(prefix_of(1) + b"\x02\0\x02\0")


def test_lengths_are_bounded_by_the_record() -> None:
    nulls = avro_reader(parse_avro('{"type": "array", "items": "null"}'))
    huge = bytes([0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F])
    for schema in ('{"type": "array", "items": "null"}', '"bytes"', '"string"'):
        with pytest.raises(RecordError):
            avro_reader(parse_avro(schema))(huge + b"\0", 0)
    assert nulls(b"\4\0", 0) == [None, None]
    assert nulls(b"\3\2\0", 0) == [None, None], "a block with its size"


def test_the_schema_of_columns_is_read_as_them() -> None:
    schema = parse_avro(avro_text(COLUMNS, "io.my.Root", wrapped=True))
    assert sql_type_of(schema) == Struct(tuple(Field(*column) for column in COLUMNS))
    fastavro.parse_schema(json.loads(avro_text(COLUMNS, "io.my.Root", wrapped=True)))
    for name, kind in COLUMNS:
        bare = parse_avro(avro_text([(name, kind)], "io.my.Root", wrapped=False))
        assert sql_type_of(bare) == kind


def test_logical_types_are_those_of_connect() -> None:
    read = avro_reader(parse_avro('{"type": "int", "logicalType": "time-millis"}'))
    assert read(b"\2", 0) == 1000
    number = parse_avro('{"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}')
    assert avro_reader(number)(b"\4\xff\x9c", 0) == decimal.Decimal("-1.00")
    assert sql_type_of(number) == Decimal(4, 2)
    micros = parse_avro('{"type": "long", "logicalType": "timestamp-micros"}')
    assert sql_type_of(micros) == BIGINT


def test_unions_of_several_types_are_structs() -> None:
    schema = parse_avro('["null", "int", "string", {"type": "array", "items": "int"}]')
    assert sql_type_of(schema) == Struct(
        (Field("int", INTEGER), Field("string", STRING), Field("array", Array(INTEGER)))
    )
    assert avro_reader(schema)(b"\4\2a", 0) == {"int": None, "string": "a", "array": None}


def test_records_within_themselves_have_no_column() -> None:
    tree = {
        "type": "record",
        "name": "tree",
        "fields": [
            {"name": "v", "type": "int"},
            {"name": "left", "type": ["null", "tree"], "default": None},
        ],
    }
    schema = parse_avro(json.dumps(tree))
    assert sql_type_of(schema) == Struct((Field("v", INTEGER),))
    value = {"v": 1, "left": {"v": 2, "left": None}}
    assert avro_reader(schema)(written(tree, value), 0) == {"v": 1}
    content = b"\2\2" * 10_000
    with pytest.raises(RecordError, match=r"nested too deeply|cut off"):
        avro_reader(schema)(content, 0)


def test_what_no_column_has_is_its_default_or_null() -> None:
    fields = [
        {"name": "a", "type": "int"},
        {"name": "b", "type": "string", "default": "x"},
        {"name": "c", "type": ["null", "int"]},
        {"name": "d", "type": {"type": "map", "values": "int"}, "default": {"k": 1}},
    ]
    text = {"type": "record", "name": "r", "fields": fields}
    write = avro_writer(parse_avro(json.dumps(text)), [("A", INTEGER)], wrapped=True)
    out = bytearray()
    write([5], out)
    read = fastavro.schemaless_reader(io.BytesIO(bytes(out)), fastavro.parse_schema(text), None)
    assert read == {"a": 5, "b": "x", "c": None, "d": {"k": 1}}
    with pytest.raises(RecordError, match="a is NULL, which the schema does not allow"):
        write([None], bytearray())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ('"nothing"', "no type nothing"),
        ('{"type": "record", "name": "r"}', "has no fields"),
        ('{"type": "record", "name": "r", "fields": [{"name": "a"}]}', "has no type"),
        ('{"type": "fixed", "name": "f", "size": -1}', "no whole number"),
        ('[["null"]]', "directly within a union"),
        ("5", "is no type"),
        ('{"type": "array", "items": ' * 200 + '"int"' + "}" * 200, "levels deep"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_texts_that_are_no_schemas(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        parse_avro(text)


@pytest.mark.parametrize(
    ("schema", "kind", "reason"),
    [
        ('"int"', BIGINT, "V is BIGINT, and the schema has INTEGER there"),
        ('"string"', INTEGER, "V is INTEGER, and the schema has STRING there"),
        ('{"type": "array", "items": "int"}', Array(STRING), "STRING, and the schema has INT"),
    ],
)
def test_columns_that_a_schema_cannot_have(schema: str, kind: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        avro_writer(parse_avro(schema), [("V", kind)], wrapped=False)


def test_types_that_double_at_each_name_are_refused() -> None:
    """A schema of forty lines would be a type with more fields than there is memory for."""
    made: Any = "int"
    for level in range(40):
        fields = [{"name": "a", "type": made}, {"name": "b", "type": f"r{level - 1}"}]
        made = {"type": "record", "name": f"r{level}", "fields": fields[: 2 if level else 1]}
    with pytest.raises(SchemaError, match="more than 10000 types"):
        parse_avro(json.dumps(made))


def test_names() -> None:
    assert key_name("my_orders") == "io.confluent.ksql.avro_schemas.MyOrdersKey"
    with pytest.raises(SchemaError, match="Illegal character in: a-b"):
        avro_text([("a-b", INTEGER)], "x.Y", wrapped=True)
