"""Avro's types as those of SQL, and the schemas of columns, as Kafka Connect and ksqlDB have
them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from millstream.formats.avro_schema import (
    ENTRY_OF,
    MAP_ENTRY,
    AvroField,
    AvroType,
    Enumeration,
    Fixed,
    Items,
    Logical,
    Plain,
    Record,
    Recursion,
    Union,
    Values,
)
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
    Primitive,
    SqlType,
    Struct,
)

VALUE_NAME = "io.confluent.ksql.avro_schemas.KsqlDataSourceSchema"
"""The name of the record of values, unless one is given."""
_PLAIN: dict[str, SqlType] = {
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": BIGINT,
    "float": DOUBLE,
    "double": DOUBLE,
    "bytes": BYTES,
    "string": STRING,
}
_TIMES = {"date": DATE, "time-millis": TIME, "timestamp-millis": TIMESTAMP}
_WRITTEN: dict[Primitive, Any] = {
    BOOLEAN: "boolean",
    INTEGER: "int",
    BIGINT: "long",
    DOUBLE: "double",
    STRING: "string",
    BYTES: "bytes",
}
_NAMED_BY_CONNECT = {
    DATE: ("int", "date", "Date"),
    TIME: ("int", "time-millis", "Time"),
    TIMESTAMP: ("long", "timestamp-millis", "Timestamp"),
}
_START, _REST = re.compile("[A-Za-z_]"), re.compile("[A-Za-z0-9_]*")


def key_name(source: str) -> str:
    """The name of the record of the keys of a stream or table, unless one is given."""
    words = re.split("[^A-Za-z0-9]+", source.lower())
    return f"io.confluent.ksql.avro_schemas.{''.join(map(str.capitalize, words))}Key"


def sql_type_of(schema: AvroType) -> SqlType | None:
    """The type of what is read by a schema; None for what no column can have."""
    match schema:
        case Plain(name):
            return _PLAIN.get(name)
        case Fixed():
            return BYTES
        case Logical(_, "decimal", precision, scale):
            return Decimal(precision, scale)
        case Logical(_, name):
            return _TIMES[name]
        case Enumeration():
            return STRING
        case Items(Record(is_entry=True) as entry):
            return _map_of(entry)
        case Items(item):
            element = sql_type_of(item)
            return None if element is None else Array(element)
        case Values(value):
            member = sql_type_of(value)
            return None if member is None else Map(STRING, member)
        case Union(branches):
            return _of_branches([branch for branch in branches if branch != Plain("null")])
        case Record(_, fields):
            return _struct(fields)
        case Recursion():
            return None


def branch_name(branch: AvroType) -> str:
    """The name of the field for a branch of a union, among several."""
    match branch:
        case Plain(name):
            return name
        case Fixed(name) | Enumeration(name) | Record(name) | Recursion(name):
            return name.rpartition(".")[2]
        case Logical(of):
            return branch_name(of)
        case Items():
            return "array"
        case Values():
            return "map"
        case Union():
            raise SchemaError("a union is directly within a union")


def _map_of(entry: Record) -> SqlType | None:
    key, member = (sql_type_of(_field_of(entry, name).type) for name in ("key", "value"))
    return None if key is None or member is None else Map(STRING, member)


def _field_of(record: Record, name: str) -> AvroField:
    return next(field for field in record.fields if field.name == name)


def _of_branches(branches: Sequence[AvroType]) -> SqlType | None:
    if len(branches) == 1:
        return sql_type_of(branches[0])
    return _struct([AvroField(branch_name(branch), branch) for branch in branches])


def _struct(fields: Sequence[AvroField]) -> SqlType | None:
    found = [(field.name, sql_type_of(field.type)) for field in fields]
    known = tuple(Field(name, kind) for name, kind in found if kind is not None)
    return Struct(known) if known else None


def avro_text(columns: Sequence[tuple[str, SqlType]], name: str, *, wrapped: bool) -> str:
    """The schema of columns: a record with this full name, or the type of the one column. Raises
    SchemaError for names that Avro does not have."""
    if wrapped:
        made = _root(columns, name)
    else:
        ((_, kind),) = columns
        if isinstance(kind, Struct):
            made = _root([(field.name, field.type) for field in kind.fields], name)
        else:
            made = _of_type(kind, name)
    return json.dumps(made, separators=(",", ":"))


def _root(columns: Sequence[tuple[str, SqlType]], name: str) -> dict[str, Any]:
    """The outermost record, whose namespace is that of all others."""
    made, space = _record(columns, name), name.rpartition(".")[0]
    if not space:
        return made
    return {"type": "record", "name": made["name"], "namespace": space} | made


def _record(columns: Sequence[tuple[str, SqlType]], name: str) -> dict[str, Any]:
    fields = [
        {
            "name": _checked(field),
            "type": _nullable(_of_type(kind, f"{name}_{field}")),
            "default": None,
        }
        for field, kind in columns
    ]
    own = name.rpartition(".")[2]
    return {"type": "record", "name": own, "fields": fields, "connect.name": name}


def _checked(name: str) -> str:
    if not _START.match(name):
        raise SchemaError(f"Illegal initial character: {name}")
    if not _REST.fullmatch(name):
        raise SchemaError(f"Illegal character in: {name}")
    return name


def _nullable(made: Any) -> list[Any]:
    return ["null", made]


def _of_type(kind: SqlType, name: str) -> Any:
    match kind:
        case Decimal(precision, scale):
            return {
                "type": "bytes",
                "scale": scale,
                "precision": precision,
                "connect.version": 1,
                "connect.parameters": {
                    "scale": str(scale),
                    "connect.decimal.precision": str(precision),
                },
                "connect.name": "org.apache.kafka.connect.data.Decimal",
                "logicalType": "decimal",
            }
        case Array(element):
            return {"type": "array", "items": _nullable(_of_type(element, name))}
        case Map(key, member):
            return {"type": "array", "items": _entry(key, member, name)}
        case Struct(fields):
            return _record([(field.name, field.type) for field in fields], name)
        case Primitive() if kind in _NAMED_BY_CONNECT:
            base, logical, connect = _NAMED_BY_CONNECT[kind]
            return {
                "type": base,
                "connect.version": 1,
                "connect.name": f"org.apache.kafka.connect.data.{connect}",
                "logicalType": logical,
            }
        case Primitive() if kind in _WRITTEN:
            return _WRITTEN[kind]
    raise SchemaError(f"Avro has no type for {kind}")


def _entry(key: SqlType, member: SqlType, name: str) -> dict[str, Any]:
    """The entries of a map: Avro's own maps have no keys that may be NULL."""
    made = _record([("key", key), ("value", member)], name)
    del made["connect.name"]
    return {**made, ENTRY_OF: MAP_ENTRY}
