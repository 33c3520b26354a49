"""Reads Avro's binary encoding, a value at a time.

What a schema reads is of the type that `avro_types` gives it; fields of other types are skipped.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable
from typing import Any

from millstream.formats.avro_schema import (
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
from millstream.formats.avro_types import branch_name, sql_type_of
from millstream.formats.json_rows import temporal
from millstream.formats.zigzag import read_long
from millstream.model.errors import RecordError
from millstream.model.types import Primitive

At = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value of a payload from a place on; returns it, and where the next one begins. Raises
RecordError, or IndexError where the payload ends too early."""
_CUT_OFF = "the Avro value is cut off"
_CONTEXT = decimal.Context(prec=400)


def avro_reader(schema: AvroType) -> Callable[[bytes, int], Any]:
    """Reads the value of a payload that begins at a place. Raises RecordError."""
    read = _reader(schema, {})

    def value(payload: bytes, at: int) -> Any:
        try:
            return read(payload, at)[0]
        except (IndexError, struct.error):
            raise RecordError(_CUT_OFF) from None
        except RecursionError:
            raise RecordError("the Avro value is nested too deeply") from None
        except UnicodeDecodeError as error:
            raise RecordError(f"a string of the Avro value is not UTF-8: {error}") from error

    return value


def _reader(schema: AvroType, records: dict[str, At]) -> At:
    """`records`: the readers of the records around, for those within themselves."""
    match schema:
        case Plain(name):
            return _PLAIN[name]
        case Fixed(_, size):
            return lambda payload, at: (_taken(payload, at, size), at + size)
        case Logical():
            return _logical(schema)
        case Enumeration(_, symbols):
            return _chosen([_constant(each) for each in symbols])
        case Items(Record(is_entry=True) as entry):
            return _entries(_reader(entry, records))
        case Items(item):
            return _items(_reader(item, records))
        case Values(value):
            return _items(_pair(_reader(value, records)))
        case Union(branches):
            return _union(branches, records)
        case Record():
            return _record(schema, records)
        case Recursion(name):
            return lambda payload, at: records[name](payload, at)


def _int(payload: bytes, at: int) -> tuple[int, int]:
    number, at = read_long(payload, at)
    if not -(1 << 31) <= number < 1 << 31:
        raise RecordError(f"{number} is no int of Avro")
    return number, at


def _taken(payload: bytes, at: int, size: int) -> bytes:
    if size < 0 or at + size > len(payload):
        raise RecordError(_CUT_OFF)
    return payload[at : at + size]


def _bytes(payload: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_long(payload, at)
    return _taken(payload, at, size), at + size


def _string(payload: bytes, at: int) -> tuple[str, int]:
    content, at = _bytes(payload, at)
    return content.decode(), at


def _boolean(payload: bytes, at: int) -> tuple[bool, int]:
    if payload[at] > 1:
        raise RecordError(f"{payload[at]} is no boolean of Avro")
    return payload[at] == 1, at + 1


_PLAIN: dict[str, At] = {
    "null": lambda _, at: (None, at),
    "boolean": _boolean,
    "int": _int,
    "long": read_long,
    "float": lambda payload, at: (struct.unpack_from("<f", payload, at)[0], at + 4),
    "double": lambda payload, at: (struct.unpack_from("<d", payload, at)[0], at + 8),
    "bytes": _bytes,
    "string": _string,
}


def _logical(schema: Logical) -> At:
    read = _reader(schema.of, {})
    if schema.name == "date":
        return read
    if schema.name != "decimal":
        kind = Primitive.TIME if schema.name == "time-millis" else Primitive.TIMESTAMP

        def time(payload: bytes, at: int) -> tuple[int, int]:
            milliseconds, at = read(payload, at)
            return temporal(milliseconds, kind), at

        return time
    scale = schema.scale

    def number(payload: bytes, at: int) -> tuple[decimal.Decimal, int]:
        digits, at = read(payload, at)
        whole = decimal.Decimal(int.from_bytes(digits, "big", signed=True))
        return whole.scaleb(-scale, _CONTEXT), at

    return number


def _chosen(readers: list[At]) -> At:
    """What the number before it chooses."""

    def read(payload: bytes, at: int) -> tuple[Any, int]:
        number, at = read_long(payload, at)
        if not 0 <= number < len(readers):
            raise RecordError(f"the Avro value chooses number {number} of {len(readers)}")
        return readers[number](payload, at)

    return read


def _constant(value: str) -> At:
    return lambda _, at: (value, at)


def _union(branches: tuple[AvroType, ...], records: dict[str, At]) -> At:
    others = [branch for branch in branches if branch != Plain("null")]
    readers = [_reader(branch, records) for branch in branches]
    if len(others) < 2:
        return _chosen(readers)
    names = [branch_name(branch) for branch in others if sql_type_of(branch) is not None]
    named = [
        read if branch == Plain("null") else _alternative(branch_name(branch), names, read)
        for branch, read in zip(branches, readers, strict=True)
    ]
    return _chosen(named)


def _alternative(name: str, names: list[str], read: At) -> At:
    def alternative(payload: bytes, at: int) -> tuple[dict[str, Any], int]:
        value, at = read(payload, at)
        return {each: value if each == name else None for each in names}, at

    return alternative


def _items(read: At) -> At:
    def items(payload: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        while True:
            count, at = read_long(payload, at)
            if count < 0:
                # The size of the block in bytes, for those who skip it.
                _, at = read_long(payload, at)
                count = -count
            if count == 0:
                return found, at
            # Items may have no bytes at all; so many of them would be an attack on the memory.
            if len(found) + count > len(payload):
                raise RecordError(f"an array of {count} items is longer than the record")
            for _ in range(count):
                value, at = read(payload, at)
                found.append(value)

    return items


def _pair(read: At) -> At:
    def pair(payload: bytes, at: int) -> tuple[tuple[str, Any], int]:
        key, at = _string(payload, at)
        value, at = read(payload, at)
        return (key, value), at

    return pair


def _entries(read: At) -> At:
    """The entries of a map, which are records."""
    items = _items(read)

    def entries(payload: bytes, at: int) -> tuple[list[tuple[Any, Any]], int]:
        found, at = items(payload, at)
        return [(each["key"], each["value"]) for each in found], at

    return entries


def _record(schema: Record, records: dict[str, At]) -> At:
    readers: list[tuple[str | None, At]] = []

    def record(payload: bytes, at: int) -> tuple[dict[str, Any], int]:
        found = {}
        for name, read in readers:
            value, at = read(payload, at)
            if name is not None:
                found[name] = value
        return found, at

    within = {**records, schema.name: record}
    for field in schema.fields:
        name = None if sql_type_of(field.type) is None else field.name
        readers.append((name, _reader(field.type, within)))
    return record
