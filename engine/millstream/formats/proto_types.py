"""Protobuf's messages as values, their types of SQL, and the messages of columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from millstream.catalog.formats import NULLS
from millstream.formats.schema_error import SchemaError
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    SqlType,
    Struct,
)

DEFAULT_NAME = "ConnectDefault1"
DECIMAL_DIGITS = 64
"""The precision of a decimal whose schema does not say it."""


class Label(Enum):
    """How often a field occurs. `OPTIONAL`: a NULL can be told from a zero."""

    SINGULAR = "SINGULAR"
    OPTIONAL = "OPTIONAL"
    REPEATED = "REPEATED"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar type, by its name in the language."""

    name: str


@dataclass(frozen=True, slots=True)
class Enumerated:
    """An enum: names by number."""

    names: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A message of one scalar, which may be missing: google.protobuf.Int32Value and the like."""

    of: Scalar


@dataclass(frozen=True, slots=True)
class Known:
    """A message that is a value of its own: a `SqlType` of times, or a DECIMAL."""

    type: SqlType


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map."""

    key: Scalar
    value: ProtoType


@dataclass(frozen=True, slots=True)
class Recursion:
    """The message of this name, within itself."""

    name: str


@dataclass(frozen=True, slots=True)
class Unrepeatable:
    """A list or map within another one, which no field can have: only that there is none is
    written."""

    type: SqlType


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field of a message. `choice`: the name of the `oneof` that it belongs to, if any;
    `required`: it has the label of proto2."""

    number: int
    name: str
    type: ProtoType
    label: Label = Label.SINGULAR
    choice: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """A message, by its full name."""

    name: str
    fields: tuple[ProtoField, ...]


ProtoType = Scalar | Enumerated | Wrapper | Known | MapOf | Message | Recursion | Unrepeatable
SCALARS: Mapping[str, SqlType] = {
    "double": DOUBLE,
    "float": DOUBLE,
    "int32": INTEGER,
    "sint32": INTEGER,
    "sfixed32": INTEGER,
    "uint32": BIGINT,
    "fixed32": BIGINT,
    "int64": BIGINT,
    "uint64": BIGINT,
    "sint64": BIGINT,
    "fixed64": BIGINT,
    "sfixed64": BIGINT,
    "bool": BOOLEAN,
    "string": STRING,
    "bytes": BYTES,
}
_OF_COLUMNS: Mapping[SqlType, str] = {
    BOOLEAN: "bool",
    INTEGER: "int32",
    BIGINT: "int64",
    DOUBLE: "double",
    STRING: "string",
    BYTES: "bytes",
}
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def sql_type_of(kind: ProtoType, label: Label = Label.SINGULAR) -> SqlType | None:
    """The type of a field; None for what no column can have."""
    if label is Label.REPEATED:
        element = sql_type_of(kind)
        return None if element is None else Array(element)
    match kind:
        case Scalar(name):
            return SCALARS[name]
        case Wrapper(Scalar(name)):
            return SCALARS[name]
        case Enumerated():
            return STRING
        case Known(known) | Unrepeatable(known):
            return known
        case MapOf(_, value):
            member = sql_type_of(value)
            return None if member is None else Map(STRING, member)
        case Message(_, fields):
            found = [(field.name, sql_type_of(field.type, field.label)) for field in fields]
            known_fields = tuple(Field(name, each) for name, each in found if each is not None)
            return Struct(known_fields) if known_fields else None
        case Recursion():
            return None


def message_of(
    columns: Sequence[tuple[str, SqlType]], name: str, properties: Mapping[str, str]
) -> Message:
    """The message of columns: its fields are numbered in their order. Scalars of records have no
    NULL, unless the properties have a representation for it; those within maps and arrays never
    have. Raises SchemaError for what Protobuf cannot have."""
    return _message(columns, name, properties.get(NULLS, "").upper(), [1])


def _message(
    columns: Sequence[tuple[str, SqlType]], name: str, nulls: str, count: list[int]
) -> Message:
    fields = []
    for number, (column, kind) in enumerate(columns, start=1):
        made, label = _of_column(kind, f"{name}.", nulls, count)
        fields.append(ProtoField(number, column, made, label))
    return Message(name, tuple(fields))


def _of_column(kind: SqlType, space: str, nulls: str, count: list[int]) -> tuple[ProtoType, Label]:
    match kind:
        case Array(element):
            if isinstance(element, Array | Map):
                return Unrepeatable(element), Label.REPEATED
            return _of_type(element, space, nulls, count), Label.REPEATED
        case Map(key, member):
            of = _of_type(key, space, "", count)
            if not isinstance(of, Scalar):
                raise SchemaError(f"Protobuf has no maps with keys of type {key}")
            if isinstance(member, Array | Map):
                return MapOf(of, Unrepeatable(member)), Label.SINGULAR
            return MapOf(of, _of_type(member, space, nulls, count)), Label.SINGULAR
    made = _of_type(kind, space, nulls, count)
    if isinstance(made, Scalar):
        if nulls == "WRAPPER":
            return Wrapper(made), Label.SINGULAR
        return made, Label.OPTIONAL if nulls == "OPTIONAL" else Label.SINGULAR
    return made, Label.SINGULAR


def _of_type(kind: SqlType, space: str, nulls: str, count: list[int]) -> ProtoType:
    match kind:
        case Struct(fields):
            count[0] += 1
            columns = [(field.name, field.type) for field in fields]
            return _message(columns, f"{space}ConnectDefault{count[0]}", nulls, count)
        case Decimal() | _ if kind in (DATE, TIME, TIMESTAMP) or isinstance(kind, Decimal):
            return Known(kind)
        case _ if kind in _OF_COLUMNS:
            return Scalar(_OF_COLUMNS[kind])
    raise SchemaError(f"Protobuf has no type for {kind}")


_KNOWN_NAMES: Mapping[SqlType, tuple[str, str]] = {
    DATE: ("google.type.Date", "google/type/date.proto"),
    TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}
_WRAPPERS = {
    "bool": "BoolValue",
    "int32": "Int32Value",
    "int64": "Int64Value",
    "double": "DoubleValue",
    "string": "StringValue",
    "bytes": "BytesValue",
}


def proto_text(message: Message) -> str:
    """A message as a file of the language. Raises SchemaError for names that it does not have."""
    space, _, name = message.name.rpartition(".")
    imports: set[str] = set()
    body = _printed(message, name, "", imports)
    lines = ['syntax = "proto3";']
    if space:
        lines += [f"package {space};"]
    lines += [""]
    if imports:
        lines += [*(f'import "{each}";' for each in sorted(imports)), ""]
    return "\n".join([*lines, *body]) + "\n"


def _printed(message: Message, name: str, indent: str, imports: set[str]) -> list[str]:
    if not all(map(_NAME.fullmatch, name.split("."))):
        raise SchemaError(f"{name!r} is no name of Protobuf")
    lines, nested = [f"{indent}message {name} {{"], []
    for field in message.fields:
        if not _NAME.fullmatch(field.name):
            raise SchemaError(f"{field.name!r} is no name of Protobuf")
        lines.append(f"{indent}  {_declared(field, imports)}")
        inner = field.type.value if isinstance(field.type, MapOf) else field.type
        if isinstance(inner, Message):
            own = inner.name.rpartition(".")[2]
            nested += ["", *_printed(inner, own, f"{indent}  ", imports)]
    return [*lines, *nested, f"{indent}}}"]


def _declared(field: ProtoField, imports: set[str]) -> str:
    label = {Label.OPTIONAL: "optional ", Label.REPEATED: "repeated "}.get(field.label, "")
    options = ""
    inner = field.type.value if isinstance(field.type, MapOf) else field.type
    if isinstance(inner, Known) and isinstance(inner.type, Decimal):
        imports |= {"confluent/meta.proto"}
        params = (("precision", inner.type.precision), ("scale", inner.type.scale))
        listed = ", ".join(f'{{ value: "{value}", key: "{key}" }}' for key, value in params)
        options = f" [(confluent.field_meta) = {{ params: [{listed}] }}]"
    return f"{label}{_named(field.type, imports)} {field.name} = {field.number}{options};"


def _named(kind: ProtoType, imports: set[str]) -> str:
    match kind:
        case Scalar(name):
            return name
        case Wrapper(Scalar(name)):
            imports |= {"google/protobuf/wrappers.proto"}
            return f"google.protobuf.{_WRAPPERS[name]}"
        case Known(Decimal()):
            imports |= {"confluent/type/decimal.proto"}
            return "confluent.type.Decimal"
        case Known(known):
            name, file = _KNOWN_NAMES[known]
            imports |= {file}
            return name
        case MapOf(key, value):
            return f"map<{key.name}, {_named(value, imports)}>"
        case Message(name):
            return name.rpartition(".")[2]
        case Unrepeatable(of):
            raise SchemaError(f"Protobuf cannot repeat a field of type {of}")
    raise SchemaError(f"{kind} is no type of columns")
