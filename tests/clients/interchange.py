"""Payloads that others write are read as they read them, and the other way round: random schemas of
Avro with fastavro and Avro's Java library, and of Protobuf with Google's libraries for Python and
Java.

    python -m tests.clients.interchange --schemas 5000
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import io
import itertools
import json
import random
import struct
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from millstream.catalog.formats import SCHEMA_ID
from millstream.formats.avro_schema import parse_avro
from millstream.formats.avro_types import sql_type_of
from millstream.formats.codec import read_payload, write_payload
from millstream.formats.payload import Layout, Subject
from millstream.formats.proto_schema import parse_proto
from millstream.formats.proto_types import sql_type_of as proto_sql_type
from millstream.formats.registered import PREFIX, prefix_of
from millstream.log.embedded import EmbeddedLog
from millstream.model.python_values import counted
from millstream.model.schema import Column, Role
from millstream.model.schema_text import SchemaText
from millstream.model.types import Array, Field, Map, SqlType, Struct
from millstream.schemas.embedded import EmbeddedRegistry
from tests.clients.java_libraries import JavaLibraries
from tests.conformance.messages import messages_of
from tests.unit.formats.test_avro import records, schemas, with_names
from tests.unit.formats.test_avro_columns import UNIONS, plain

ROWS = 3
"""The records of each schema."""


class Ours:
    """What Millstream reads and writes, with a registry for all schemas."""

    def __init__(self) -> None:
        self.con = duckdb.connect()
        self.schemas = EmbeddedRegistry(EmbeddedLog.open(":memory:"), "schemas", lambda: 0)

    def layout(self, form: str, text: str, kind: Struct) -> Layout:
        """The columns of a schema, which is registered."""
        own = self.schemas.register(str(time.monotonic_ns()), SchemaText(form, text)).id
        return Layout(
            tuple(Column(each.name, each.type, Role.VALUE) for each in kind.fields),
            tuple(range(len(kind.fields))),
            properties={SCHEMA_ID: str(own)},
            subject=Subject(self.schemas, "s", "S", is_key=False),
        )

    def read(self, form: str, layout: Layout, contents: Sequence[bytes]) -> list[pa.Array]:
        """The columns of payloads, given without the id of their schema."""
        prefix = prefix_of(int(layout.properties[SCHEMA_ID]))
        payload = pa.array([prefix + each for each in contents], pa.binary())
        found = read_payload(self.con, payload, layout, form)
        assert not found.bad, found.bad
        return list(found.columns)

    def written(self, form: str, layout: Layout, columns: list[pa.Array]) -> list[bytes]:
        """Payloads of columns, without the id of their schema."""
        found = write_payload(self.con, columns, layout, form, len(columns[0]))
        assert not found.bad, found.bad
        return [each[PREFIX:] for each in found.payload.to_pylist()]


def rows_of(columns: Sequence[pa.Array], layout: Layout) -> list[list[Any]]:
    """The values of rows, the entries of maps in an order."""
    lists = [counted(column).to_pylist() for column in columns]
    kinds = [column.type for column in layout.columns]
    return [
        [ordered(value, kind) for value, kind in zip(row, kinds, strict=True)]
        for row in zip(*lists, strict=True)
    ]


def ordered(value: Any, kind: SqlType) -> Any:
    """A value with the entries of its maps in an order."""
    match kind:
        case _ if value is None:
            return None
        case Array(element):
            return [ordered(each, element) for each in value]
        case Map(_, member):
            pairs = value.items() if isinstance(value, dict) else value
            return sorted(
                ((key, ordered(each, member)) for key, each in pairs), key=lambda pair: pair[0]
            )
        case Struct(fields):
            return {each.name: ordered(value[each.name], each.type) for each in fields}
    return value


# ---- Avro ------------------------------------------------------------------------------------

LOGICAL: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ({"type": "int", "logicalType": "date"}, st.integers(-(2**31), 2**31 - 1)),
    ({"type": "int", "logicalType": "time-millis"}, st.integers(0, 86_399_999)),
    ({"type": "long", "logicalType": "timestamp-millis"}, st.integers(-(2**53), 2**53)),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: n.to_bytes(5, "big", signed=True)),
    ),
    (
        {"type": "fixed", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2},
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: n.to_bytes(5, "big", signed=True)),
    ),
]


@st.composite
def avro_batches(draw: st.DrawFn) -> tuple[Any, list[Any], bool]:
    """A schema, values of it, and whether it has a field of several types, which are not
    written."""
    schema, value = draw(records())
    fields = list(schema["fields"])
    more: dict[str, st.SearchStrategy[Any]] = {}
    for number, (kind, values) in enumerate(draw(st.lists(st.sampled_from(LOGICAL), max_size=3))):
        named = {**kind, "name": f"d{number}"} if kind["type"] == "fixed" else kind
        nullable = draw(st.booleans())
        fields.append({"name": f"l{number}", "type": ["null", named] if nullable else named})
        more[f"l{number}"] = st.none() | values if nullable else values
    several = draw(st.integers(0, 3)) == 0
    if several:
        fields.append({"name": "u", "type": draw(st.sampled_from(UNIONS))})
        more["u"] = {
            "null": st.sampled_from([None, 5, "text"]),
            "string": st.sampled_from([None, "t", [1, -2]]),
            "boolean": st.sampled_from([True, b"b", {"x": None}, {"x": 3}]),
        }[fields[-1]["type"][0]]
    values = [{**value, **{name: draw(each) for name, each in more.items()}} for _ in range(ROWS)]
    return {**schema, "fields": fields}, values, several


@st.composite
def avro_keys(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    """A schema of any kind, as those of keys, and values of it."""
    schema, values = draw(schemas())
    return with_names(schema, itertools.count()), [draw(values) for _ in range(ROWS)]


def avro_value(value: Any, schema: Any) -> Any:
    """A value of fastavro, logical types as those below them, as Millstream has it."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) == 1 or value is None:
            return None if value is None else avro_value(value, others[0])
        (chosen,) = [each for each in others if _is_of(value, each)]
        found = avro_value(value, chosen)
        return {_named(each): found if each is chosen else None for each in others}
    kind = schema["type"] if isinstance(schema, dict) else schema
    match schema.get("logicalType") if isinstance(schema, dict) else None, kind:
        case "time-millis", _:
            moment = datetime.datetime.min + datetime.timedelta(milliseconds=value)
            return moment.time()
        case "timestamp-millis", _:
            return value * 1_000
        case "decimal", _:
            return decimal.Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-2)
        case _, "record":
            return {f["name"]: avro_value(value[f["name"]], f["type"]) for f in schema["fields"]}
        case _, "array":
            return [avro_value(each, schema["items"]) for each in value]
        case _, "map":
            return {name: avro_value(each, schema["values"]) for name, each in value.items()}
    return value


def _named(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema.get("name", schema["type"]))
    return str(schema)


def _is_of(value: Any, schema: Any) -> bool:
    kinds: dict[str, type] = {"int": int, "string": str, "array": list, "boolean": bool}
    kinds |= {"bytes": bytes, "record": dict}
    kind = schema["type"] if isinstance(schema, dict) else schema
    return type(value) is kinds[kind]


def by_fastavro(schema: Any, values: Sequence[Any]) -> list[bytes]:
    """Values as fastavro writes them."""
    parsed, found = fastavro.parse_schema(plain(schema)), []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        found.append(out.getvalue())
    return found


def of_fastavro(schema: Any, payloads: Sequence[bytes]) -> list[Any]:
    """Payloads as fastavro reads them."""
    parsed = fastavro.parse_schema(plain(schema))
    return [fastavro.schemaless_reader(io.BytesIO(each), parsed, None) for each in payloads]


def check_avro(ours: Ours, java: JavaLibraries, drawn: tuple[Any, list[Any], bool]) -> None:
    """Read what fastavro and Java write, and give them what is written."""
    schema, values, several = drawn
    text = json.dumps(schema)
    kind = sql_type_of(parse_avro(text))
    assert isinstance(kind, Struct)
    layout = ours.layout("AVRO", text, kind)
    theirs = by_fastavro(schema, values)
    by_java = java.avro(json.dumps(plain(schema)), theirs)

    def rows(found: Sequence[Any]) -> list[list[Any]]:
        made = [avro_value(value, schema) for value in found]
        return [[ordered(row[each.name], each.type) for each in kind.fields] for row in made]

    expected = rows(of_fastavro(schema, theirs))
    for payloads in (theirs, by_java):
        columns = ours.read("AVRO", layout, payloads)
        assert rows_of(columns, layout) == expected
    if several:
        return
    written = ours.written("AVRO", layout, columns)
    again = java.avro(json.dumps(plain(schema)), written)
    for payloads in (written, again):
        assert rows(of_fastavro(schema, payloads)) == expected


def check_avro_key(ours: Ours, java: JavaLibraries, drawn: tuple[Any, list[Any]]) -> None:
    """The same for a value that is in no record."""
    schema, values = drawn
    text = json.dumps(schema)
    kind = sql_type_of(parse_avro(text))
    assert kind is not None
    layout = replace(ours.layout("AVRO", text, Struct((Field("K", kind),))), wrapped=False)
    theirs = by_fastavro(schema, values)
    expected = [[ordered(avro_value(each, schema), kind)] for each in of_fastavro(schema, theirs)]
    for payloads in (theirs, java.avro(text, theirs)):
        columns = ours.read("AVRO", layout, payloads)
        assert rows_of(columns, layout) == expected
    written = ours.written("AVRO", layout, [columns[0].drop_null()])
    for payloads in (written, java.avro(text, written)):
        found = [avro_value(each, schema) for each in of_fastavro(schema, payloads)]
        there = [each for each in expected if each[0] is not None]
        assert [[ordered(each, kind)] for each in found] == there


# ---- Protobuf --------------------------------------------------------------------------------

INTEGERS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), (-(2**31), 2**31 - 1)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), (-(2**63), 2**63 - 1)),
    **dict.fromkeys(("uint32", "fixed32"), (0, 2**32 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), (0, 2**63 - 1)),
}
SCALARS = (*INTEGERS, "double", "float", "bool", "string", "bytes")
IMPORTED = {
    "Value": "google/protobuf/wrappers.proto",
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
    "google.type.Date": "google/type/date.proto",
}
"""By a name that they define."""
WRAPPERS = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")


def proto_text(rng: random.Random) -> str:
    """A file with a message of any fields."""
    numbers = itertools.count(1)
    made = _message(rng, "M", numbers, 0)
    imports = "".join(f'import "{file}"; ' for word, file in IMPORTED.items() if word in made)
    return f'syntax = "proto3"; package p; {imports}\n{made}'


def _message(rng: random.Random, name: str, numbers: Any, depth: int) -> str:
    parts = [f"message {name} {{ enum Kind {{ ZERO = 0; ONE = 1; LESS = -2; }}"]
    for place in range(rng.randint(1, 5)):
        number = place * rng.choice([1, 1, 20]) + 1 + 100 * place
        field = f"f{place} = {number};"
        drawn = rng.random()
        if drawn < 0.1:
            key = rng.choice(["string", "int32", "bool", "fixed64", "sint64"])
            parts.append(f"map<{key}, {_type(rng)}> {field}")
        elif drawn < 0.25 and depth < 3:
            inner = f"N{next(numbers)}"
            label = rng.choice(["", "repeated "])
            parts += [_message(rng, inner, numbers, depth + 1), f"{label}{inner} {field}"]
        elif drawn < 0.35:
            parts.append(
                f"oneof c{place} {{ {_type(rng)} {field} {_type(rng)} g{place} = 9{place}; }}"
            )
        else:
            label = rng.choice(["", "", "optional ", "repeated "])
            packed = " [packed = false]" if rng.random() < 0.1 and label == "repeated " else ""
            kind = rng.choice(SCALARS[:13]) if packed else _type(rng)
            parts.append(f"{label}{kind} {field[:-1]}{packed};")
    return " ".join([*parts, "}"])


def _type(rng: random.Random) -> str:
    drawn = rng.random()
    if drawn < 0.7:
        return rng.choice(SCALARS)
    if drawn < 0.8:
        return "Kind"
    if drawn < 0.9:
        return f"google.protobuf.{rng.choice(WRAPPERS)}Value"
    return rng.choice(["google.protobuf.Timestamp", "google.type.Date"])


def fill(rng: random.Random, message: Any) -> None:
    """Give a message values."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.2:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            for _ in range(rng.randint(0, 3)):
                at = _scalar(rng, key)
                if value.message_type is None:
                    getattr(message, field.name)[at] = _scalar(rng, value)
                else:
                    fill_one(rng, getattr(message, field.name)[at])
        elif field.is_repeated:
            for _ in range(rng.randint(0, 3)):
                if field.message_type is None:
                    getattr(message, field.name).append(_scalar(rng, field))
                else:
                    fill_one(rng, getattr(message, field.name).add())
        elif field.message_type is None:
            setattr(message, field.name, _scalar(rng, field))
        else:
            getattr(message, field.name).SetInParent()
            fill_one(rng, getattr(message, field.name))


def fill_one(rng: random.Random, message: Any) -> None:
    """Give a message that may be a value of its own one that Millstream can have."""
    match message.DESCRIPTOR.full_name:
        case "google.protobuf.Timestamp":
            message.seconds, message.nanos = (
                rng.randint(-(2**40), 2**40),
                rng.randrange(10**6) * 1000,
            )
        case "google.type.Date":
            message.year, message.month, message.day = rng.randint(1, 9999), rng.randint(1, 12), 28
        case _:
            fill(rng, message)


def _scalar(rng: random.Random, field: FieldDescriptor) -> Any:
    name = {number: name for name, number in _TYPES.items()}[field.type]
    match name:
        case "double":
            return rng.choice([0.0, -0.0, rng.random(), 1e300])
        case "float":
            return struct.unpack("<f", struct.pack("<f", rng.choice([0.0, rng.random(), -1e30])))[0]
        case "bool":
            return rng.random() < 0.5
        case "string":
            return "".join(rng.choices("aé√😀", k=rng.randint(0, 3)))
        case "bytes":
            return rng.randbytes(rng.randint(0, 3))
        case "enum":
            return rng.choice([0, 1, -2])
    low, high = INTEGERS[name]
    return rng.choice([max(low, each) for each in (0, 1, -1, 300)] + [low, high])


_TYPES = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def proto_row(message: Any) -> dict[str, Any]:
    """A message of Google's as Millstream has it."""
    return {field.name: _proto_field(message, field) for field in message.DESCRIPTOR.fields}


def _proto_field(message: Any, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of = field.message_type.fields_by_name["value"]
        return [(_text(key), _proto_value(each, of)) for key, each in value.items()]
    if field.is_repeated:
        return [_proto_value(each, field) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _proto_value(value, field)


def _text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _proto_value(value: Any, field: FieldDescriptor) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if field.message_type is None:
        return value
    match field.message_type.full_name:
        case "google.protobuf.Timestamp":
            return value.seconds * 1_000_000 + value.nanos // 1_000
        case "google.type.Date":
            of_day = datetime.date(value.year or 1, value.month or 1, value.day or 1)
            return (of_day - datetime.date(1970, 1, 1)).days if value.year else _YEAR_0
        case name if name.startswith("google.protobuf."):
            return value.value
    return proto_row(value)


_YEAR_0 = -719_528
"""The days of a date whose parts are all missing."""


def check_protobuf(ours: Ours, java: JavaLibraries, seed: int) -> None:
    """Read what Google's libraries for Python and Java write, and give them what is written."""
    rng = random.Random(seed)
    text = proto_text(rng)
    (known,) = messages_of(text, ())
    made = message_factory.GetMessageClass(known)
    messages = [made() for _ in range(ROWS)]
    for message in messages:
        fill(rng, message)
    kind = proto_sql_type(parse_proto(text).messages[0])
    assert isinstance(kind, Struct)
    layout = ours.layout("PROTOBUF", text, kind)
    theirs = [each.SerializeToString() for each in messages]
    by_java = java.protobuf(known, theirs)
    rows = [proto_row(message) for message in messages]
    expected = [[ordered(row[each.name], each.type) for each in kind.fields] for row in rows]
    for payloads in (theirs, by_java):
        columns = ours.read("PROTOBUF", layout, [b"\0" + each for each in payloads])
        assert rows_of(columns, layout) == expected, text
    if _has_other_keys(known):
        return
    written = [each[1:] for each in ours.written("PROTOBUF", layout, columns)]
    for payloads in (written, java.protobuf(known, written)):
        # What is absent and what is its zero are the same to a column.
        found = [proto_row(made.FromString(each)) for each in payloads]
        assert [
            [ordered(row[each.name], each.type) for each in kind.fields] for row in found
        ] == expected, text


def _has_other_keys(message: Descriptor) -> bool:
    """Whether a map has keys that are no texts, which no column writes."""
    for field in message.fields:
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            key = field.message_type.fields_by_name["key"]
            if key.type != FieldDescriptor.TYPE_STRING:
                return True
        elif _has_other_keys(field.message_type):
            return True
    return False


# ---- the command -----------------------------------------------------------------------------


def check_all(java: JavaLibraries, schemas: int) -> None:
    """Check so many random schemas of each kind."""
    ours = Ours()
    drawn = settings(
        max_examples=schemas,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @drawn
    @given(avro_batches())
    def avro(batch: tuple[Any, list[Any], bool]) -> None:
        check_avro(ours, java, batch)

    @drawn
    @given(st.integers(0, 2**40))
    def protobuf(seed: int) -> None:
        check_protobuf(ours, java, seed)

    @drawn
    @given(avro_keys())
    def key(batch: tuple[Any, list[Any]]) -> None:
        check_avro_key(ours, java, batch)

    avro()
    key()
    protobuf()


def main(arguments: list[str] | None = None) -> int:
    """Check, and say how many schemas that were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemas", type=int, default=1_000, help="of each kind")
    given_options = parser.parse_args(arguments)
    began = time.process_time()
    with JavaLibraries() as java:
        check_all(java, given_options.schemas)
    used = time.process_time() - began
    print(
        f"{given_options.schemas} records of Avro, as many keys and as many messages of Protobuf,"
        f" {ROWS} values each,"
        " with fastavro, Google's library and those of Java, both ways: all alike"
        f" ({used:.0f} CPU s)"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
