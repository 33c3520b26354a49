"""Avro read and written by columns in compiled code is that of one by one."""

from __future__ import annotations

import decimal
import functools
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats import avro
from millstream.formats.avro_read_columns import compiled_reader
from millstream.formats.avro_schema import parse_avro
from millstream.formats.avro_types import sql_type_of
from millstream.formats.avro_write_columns import compiled_writer
from millstream.formats.library import compiled_formats
from millstream.formats.payload import Layout, Read, Subject
from millstream.formats.registered import prefix_of
from millstream.formats.registered_rows import ResolvedSchema, read_by_schema, write_by_schema
from millstream.log.embedded import EmbeddedLog
from millstream.model.python_values import counted
from millstream.model.schema import Column, Role
from millstream.model.schema_text import SchemaText
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    STRING,
    Array,
    Decimal,
    Field,
    Map,
    SqlType,
    Struct,
)
from millstream.schemas.embedded import EmbeddedRegistry
from tests.draws import draws
from tests.unit.formats.test_avro import records, written

LOGICAL: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ({"type": "int", "logicalType": "date"}, st.integers(-(2**31), 2**31 - 1)),
    ({"type": "int", "logicalType": "time-millis"}, st.integers(-1, 86_400_000)),
    ({"type": "long", "logicalType": "timestamp-millis"}, st.integers(-(2**63), 2**63 - 1)),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        st.one_of(st.binary(max_size=4), st.binary(min_size=14, max_size=20)),
    ),
    (
        {"type": "fixed", "name": "d", "size": 5, "logicalType": "decimal", "precision": 9},
        st.binary(min_size=5, max_size=5),
    ),
]
"""Logical types, with values of the types below: also such that no column can have."""


UNIONS: list[Any] = [
    ["null", "int", "string"],
    ["string", {"type": "array", "items": "long"}, "null"],
    [
        *("boolean", "bytes"),
        {"type": "record", "name": "one", "fields": [{"name": "x", "type": ["null", "int"]}]},
    ],
]
"""Types of several, which are structs with a field for each."""


def plain(schema: Any) -> Any:
    """A schema without its logical types."""
    if isinstance(schema, list):
        return [plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: plain(each) for name, each in schema.items() if name != "logicalType"}


@st.composite
def batches(draw: st.DrawFn, unions: int = 1) -> tuple[Any, list[bytes | None]]:
    """A schema, and payloads of it; some of them are broken."""
    schema, _ = draw(records())
    fields = schema["fields"]
    for number, (kind, _) in enumerate(draw(st.lists(st.sampled_from(LOGICAL), max_size=2))):
        named = {**kind, "name": f"d{number}"} if "name" in kind else kind
        nullable = draw(st.booleans())
        fields = [*fields, {"name": f"l{number}", "type": ["null", named] if nullable else named}]
    for number, kind in enumerate(draw(st.lists(st.sampled_from(UNIONS), max_size=unions))):
        fields = [*fields, {"name": f"u{number}", "type": kind}]
    schema = {**schema, "fields": fields}
    payloads: list[bytes | None] = []
    for _ in range(draw(st.integers(1, 5))):
        value = draw(_values_of(schema))
        content = bytearray(written(plain(schema), value))
        if content and draw(st.integers(0, 3)) == 0:
            content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
        if draw(st.integers(0, 9)) == 0:
            del content[draw(st.integers(0, len(content))) :]
        payloads.append(None if draw(st.integers(0, 9)) == 0 else bytes(content))
    return schema, payloads


def _values_of(schema: Any) -> st.SearchStrategy[Any]:
    """Values of a schema of `records`."""
    if isinstance(schema, list):
        return st.one_of(*map(_values_of, schema))
    kind = schema["type"] if isinstance(schema, dict) else schema
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    for known, values in LOGICAL:
        if logical is not None and known["logicalType"] == logical and known["type"] == kind:
            return values
    match kind:
        case "record":
            return st.fixed_dictionaries(
                {f["name"]: _values_of(f["type"]) for f in schema["fields"]}
            )
        case "array":
            return st.lists(_values_of(schema["items"]), max_size=3)
        case "map":
            return st.dictionaries(
                st.text("ab", max_size=2), _values_of(schema["values"]), max_size=3
            )
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "fixed":
            return st.binary(min_size=schema["size"], max_size=schema["size"])
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "int":
            return st.integers(-(2**31), 2**31 - 1)
        case "long":
            return st.integers(-(2**63), 2**63 - 1)
        case "float":
            return st.floats(width=32, allow_nan=False)
        case "double":
            return st.floats(allow_nan=False)
        case "bytes":
            return st.binary(max_size=5)
        case "string":
            return st.text(st.characters(codec="utf-8"), max_size=5)
    raise AssertionError(kind)


def varied(draw: st.DrawFn, kind: SqlType) -> SqlType:
    """The type of a schema, or another one that a column may have instead."""
    match kind:
        case Array(element):
            return Array(varied(draw, element))
        case Map(key, member):
            return Map(key, varied(draw, member))
        case Struct(fields):
            kept = [f for f in fields if draw(st.integers(0, 4))] or list(fields)
            made = [Field(f.name.upper(), varied(draw, f.type)) for f in kept]
            more = [Field("MORE", BIGINT)] if draw(st.integers(0, 4)) == 0 else []
            return Struct(tuple(draw(st.permutations([*made, *more]))))
        case Decimal(precision, scale) if draw(st.integers(0, 4)) == 0:
            return Decimal(precision + 2, scale + 1)
    if kind == INTEGER and draw(st.booleans()):
        return BIGINT
    if kind in (INTEGER, BIGINT, BOOLEAN) and draw(st.integers(0, 9)) == 0:
        return STRING
    return kind


def read(
    schemas: EmbeddedRegistry,
    columns: list[tuple[str, SqlType]],
    wanted: tuple[int, ...],
    payload: pa.BinaryArray,
    *,
    compiled: bool,
    wrapped: bool = True,
) -> Read:
    layout = Layout(
        tuple(Column(name, kind, Role.VALUE) for name, kind in columns),
        wanted,
        wrapped,
        subject=Subject(schemas, "s", "S", is_key=False),
    )
    if not compiled:
        return read_by_schema(payload, layout, "AVRO", avro.read_values)
    return read_by_schema(payload, layout, "AVRO", avro.read_values, compiled_reader)


def shown(found: Read) -> str:
    columns = [counted(column).to_pylist() for column in found.columns]
    assert all(column.validate(full=True) is None for column in found.columns)
    return repr((columns, sorted(found.bad.items())))


@functools.cache
def registry() -> EmbeddedRegistry:
    """One for all examples: a log takes longer to open than an example to run."""
    return EmbeddedRegistry(EmbeddedLog.open(":memory:"), "schemas", lambda: 0)


def registered(schemas: EmbeddedRegistry, schema: Any) -> int:
    """The id of a schema, under a subject of its own."""
    text = json.dumps(schema)
    return schemas.register(f"s-{text}", SchemaText("AVRO", text)).id


needs_library = pytest.mark.skipif(compiled_formats() is None, reason="it was not built")


@needs_library
@settings(max_examples=draws(500), deadline=None)
@given(batches(), st.data())
def test_it_reads_what_is_read_one_by_one(
    drawn: tuple[Any, list[bytes | None]], data: st.DataObject
) -> None:
    schema, contents = drawn
    kind = sql_type_of(parse_avro(json.dumps(schema)))
    if not isinstance(kind, Struct):
        return
    schemas = registry()
    own = registered(schemas, schema)
    data_of = st.composite(lambda draw: varied(draw, kind))()
    chosen = data.draw(data_of)
    assert isinstance(chosen, Struct)
    columns = [(field.name, field.type) for field in chosen.fields]
    wanted = tuple(n for n in range(len(columns)) if data.draw(st.integers(0, 5)))
    payloads = [None if each is None else prefix_of(own) + each for each in contents]
    payloads.insert(data.draw(st.integers(0, len(payloads))), b"\1other")
    sliced = pa.array([b"before", *payloads, b"after"], pa.binary())[1:-1]
    arguments = (schemas, columns, wanted, sliced)
    assert shown(read(*arguments, compiled=True)) == shown(read(*arguments, compiled=False))


@needs_library
@settings(max_examples=draws(500), deadline=None)
@given(batches(unions=0), st.data())
def test_it_writes_what_is_written_one_by_one(
    drawn: tuple[Any, list[bytes | None]], data: st.DataObject
) -> None:
    schema, contents = drawn
    kind = sql_type_of(parse_avro(json.dumps(schema)))
    if not isinstance(kind, Struct):
        return
    schemas = registry()
    own = registered(schemas, schema)
    fields = data.draw(st.permutations(kind.fields))
    columns = [(field.name.upper(), field.type) for field in fields]
    payload = pa.array([None if c is None else prefix_of(own) + c for c in contents], pa.binary())
    wanted = tuple(range(len(columns)))
    # Rows that could not be read are NULL, which most schemas do not take.
    found = read(schemas, columns, wanted, payload, compiled=False).columns
    into = data.draw(st.sampled_from([schema, with_defaults(schema)]))
    start = data.draw(st.integers(0, len(payload)))
    arrays = [column[start:] for column in found]
    resolved = own, ResolvedSchema("AVRO", json.dumps(into))
    layout = Layout(tuple(Column(name, each, Role.VALUE) for name, each in columns))
    plain_found = write_by_schema(arrays, layout, resolved, avro.write_values)
    compiled = write_by_schema(arrays, layout, resolved, avro.write_values, compiled_writer)
    assert compiled.payload.to_pylist() == plain_found.payload.to_pylist()
    assert dict(compiled.bad) == dict(plain_found.bad)


def with_defaults(schema: Any) -> Any:
    """A record that has a default for plain fields, and one field more."""
    defaults = {"boolean": True, "int": 7, "long": 8, "string": "none", "double": 0.5}
    fields = [
        {**each, "default": defaults[each["type"]]}
        if isinstance(each["type"], str) and each["type"] in defaults
        else each
        for each in schema["fields"]
    ]
    more = {"name": "more", "type": ["null", "int"], "default": None}
    return {**schema, "fields": [more, *fields]}


@needs_library
def test_values_that_only_one_by_one_can_be_written() -> None:
    text = json.dumps(
        {
            "type": "record",
            "name": "r",
            "fields": [
                {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
                {
                    "name": "d",
                    "type": [
                        {
                            "type": "fixed",
                            "name": "f",
                            "size": 1,
                            "logicalType": "decimal",
                            "precision": 5,
                        },
                        "null",
                    ],
                },
            ],
        }
    )
    columns = (("E", STRING), ("D", Decimal(5, 0)))
    layout = Layout(tuple(Column(name, kind, Role.VALUE) for name, kind in columns))
    arrays = [
        pa.array(["A", "C", None, "B", "B"]),
        pa.array([*map(decimal.Decimal, (1, 2, 3, 200)), None], pa.decimal128(5, 0)),
    ]
    schema = 7, ResolvedSchema("AVRO", text)
    found = write_by_schema(arrays, layout, schema, avro.write_values, compiled_writer)
    assert found.payload.to_pylist() == [
        *(prefix_of(7) + b"\0\0\1", None, None, None, prefix_of(7) + b"\2\2"),
    ]
    assert {row: reason.split(",")[0] for row, reason in found.bad.items()} == {
        1: "e is 'C'",
        2: "e is NULL",
        3: "d is 200",
    }


@needs_library
@pytest.mark.parametrize(
    ("text", "kind", "content"),
    [
        ('"long"', BIGINT, b"\x04"),
        ('["null", "string"]', STRING, b"\x02\x04ab"),
        ('["null", "string"]', STRING, b"\0"),
        ('{"type": "array", "items": "int"}', Array(INTEGER), b"\x03\x04\2\4\0"),
        ('{"type": "map", "values": "int"}', Map(STRING, INTEGER), b"\x04\x02a\x02\x02a\x04\0"),
        ('{"type": "array", "items": "int"}', Array(INTEGER), b"\xfe\xff\xff\xff\x0f"),
        ('"string"', STRING, b"\x04\xed\xa0"),
        ('"string"', STRING, b"\x06\xed\xa0\x80"),
        ('"long"', BIGINT, b"\xff" * 9 + b"\x03"),
    ],
)
def test_values_that_are_not_in_a_record(text: str, kind: SqlType, content: bytes) -> None:
    schemas = EmbeddedRegistry(EmbeddedLog.open(":memory:"), "schemas", lambda: 0)
    own = schemas.register("s", SchemaText("AVRO", text)).id
    payload = pa.array([prefix_of(own) + content, None], pa.binary())
    arguments = (schemas, [("V", kind)], (0,), payload)
    found = [read(*arguments, compiled=each, wrapped=False) for each in (True, False)]
    assert shown(found[0]) == shown(found[1])


@needs_library
def test_payloads_of_several_schemas_and_bad_ones_keep_their_places() -> None:
    schemas = EmbeddedRegistry(EmbeddedLog.open(":memory:"), "schemas", lambda: 0)
    ids = [schemas.register(name, SchemaText("AVRO", f'"{name}"')).id for name in ("int", "long")]
    contents = [(ids[n % 2], bytes([2 * n])) for n in range(20)]
    payloads: list[bytes | None] = [prefix_of(one) + content for one, content in contents]
    payloads[3], payloads[7], payloads[8] = None, prefix_of(ids[1]), b"\1"
    payload = pa.array(payloads, pa.binary())
    found = read(schemas, [("V", BIGINT)], (0,), payload, compiled=True, wrapped=False)
    assert found.columns[0].to_pylist() == [None if n in (3, 7, 8) else n for n in range(20)]
    assert sorted(found.bad) == [7, 8]


@needs_library
def test_the_types_that_are_compiled() -> None:
    """Without this, all would be read one by one and nobody would notice."""
    text = json.dumps(
        {
            "type": "record",
            "name": "r",
            "fields": [
                {"name": "a", "type": ["null", "long"]},
                {"name": "b", "type": {"type": "map", "values": ["null", "string"]}},
                {"name": "c", "type": {"type": "enum", "name": "e", "symbols": ["X"]}},
                {"name": "skipped", "type": ["null", "int", "string"], "default": None},
                {"name": "d", "type": ["null", "int", "string"], "default": None},
            ],
        }
    )
    either = Struct((Field("int", INTEGER), Field("string", STRING)))
    kinds = (("A", BIGINT), ("B", Map(STRING, STRING)), ("C", STRING), ("D", either))
    schema = ResolvedSchema("AVRO", text)
    assert compiled_reader(schema, kinds, True, (0, 1, 2, 3)) is not None
    assert compiled_reader(schema, (("A", STRING),), True, (0,)) is None
    assert compiled_writer(schema, kinds[:3], True) is not None
