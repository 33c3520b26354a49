"""Writes Avro's binary encoding, a value at a time."""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable, Sequence
from typing import Any

from millstream.formats.avro_schema import (
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
from millstream.formats.avro_types import sql_type_of
from millstream.formats.conversion import place_of
from millstream.formats.schema_error import SchemaError
from millstream.formats.zigzag import put_long
from millstream.model.errors import RecordError
from millstream.model.physical import physical_names
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
    Map,
    SqlType,
    Struct,
)

Write = Callable[[Any, bytearray], None]
"""Appends a value to a payload. Raises RecordError for one that cannot be written."""
_CONTEXT = decimal.Context(prec=400)
_NUMBERS = (INTEGER, BIGINT, DOUBLE)
_FITTING: dict[str, Sequence[SqlType]] = {
    "boolean": (BOOLEAN,),
    "int": (INTEGER,),
    "long": (INTEGER, BIGINT),
    "float": _NUMBERS,
    "double": _NUMBERS,
    "bytes": (BYTES,),
    "string": (STRING,),
}
"""The types of columns that a plain type of Avro can hold."""
_TIMES = {"date": DATE, "time-millis": TIME, "timestamp-millis": TIMESTAMP}


def avro_writer(
    schema: AvroType, columns: Sequence[tuple[str, SqlType]], *, wrapped: bool
) -> Callable[[Sequence[Any], bytearray], None]:
    """Appends the values of columns to a payload. Raises SchemaError where the schema cannot have
    these columns."""
    if not wrapped:
        ((name, kind),) = columns
        write_one = _writer(schema, kind, name)
        return lambda values, out: write_one(values[0], out)
    record = schema
    if isinstance(record, Union):
        raise SchemaError("the schema is a union, not a record")
    if not isinstance(record, Record):
        raise SchemaError("the schema is not a record")
    return _fields(record, columns, "")


def writes(schema: AvroType, kind: SqlType) -> bool:
    """Whether values of a type can be written by a schema."""
    try:
        _writer(schema, kind, "")
    except SchemaError:
        return False
    return True


def default_of(field: AvroField) -> bytes:
    """What is written for a field that no column has. Raises SchemaError if it has no default."""
    made = bytearray()
    _left_out(field, field.name)(None, made)
    return bytes(made)


def _writer(schema: AvroType, kind: SqlType, path: str) -> Write:
    """Writes values of a type, NULL among them. `path`: the name of the column or field."""
    match schema, kind:
        case Union(branches), _:
            return _union(branches, kind, path)
        case Plain(name), _ if kind in _FITTING.get(name, ()):
            return _required(path, _PLAIN[name])
        case Fixed(_, size), _ if kind == BYTES:
            return _required(path, _fixed(size, path))
        case Logical(name=name), Decimal() if name == "decimal":
            return _required(path, _decimal(schema, path))
        case Logical(name=name), _ if kind == _TIMES.get(name):
            return _required(path, _TIMED[name])
        case Enumeration(), _ if kind == STRING:
            return _required(path, _symbol(schema.symbols, path))
        case Items(Record(is_entry=True) as entry), Map():
            return _required(path, _entries(entry, kind, path))
        case Items(item), Array(element):
            return _required(path, _items(_writer(item, element, path)))
        case Values(value), Map(_, member):
            return _required(path, _values(_writer(value, member, path)))
        case Record(), Struct(fields):
            names = physical_names(field.name for field in fields)
            write = _fields(schema, [(field.name, field.type) for field in fields], path)
            return _required(path, lambda value, out: write([value[name] for name in names], out))
    raise SchemaError(f"{path} is {kind}, and the schema has {_shown(schema)} there")


def _shown(schema: AvroType) -> str:
    if isinstance(schema, Recursion):
        return f"{schema.name} within itself"
    found = sql_type_of(schema)
    return "null" if found is None else str(found)


def _required(path: str, write: Write) -> Write:
    def required(value: Any, out: bytearray) -> None:
        if value is None:
            raise RecordError(f"{path} is NULL, which the schema does not allow")
        write(value, out)

    return required


def _union(branches: tuple[AvroType, ...], kind: SqlType, path: str) -> Write:
    """The first branch that has the type."""
    null = next((n for n, branch in enumerate(branches) if branch == Plain("null")), None)
    for number, branch in enumerate(branches):
        if number == null:
            continue
        try:
            write = _writer(branch, kind, path)
        except SchemaError:
            continue
        return _nullable(number, write, null, path)
    raise SchemaError(f"{path} is {kind}, and the schema has {_shown(Union(branches))} there")


def _nullable(number: int, write: Write, null: int | None, path: str) -> Write:
    def nullable(value: Any, out: bytearray) -> None:
        if value is not None:
            put_long(number, out)
            write(value, out)
        elif null is not None:
            put_long(null, out)
        else:
            raise RecordError(f"{path} is NULL, which the schema does not allow")

    return nullable


def _put_bytes(content: bytes, out: bytearray) -> None:
    put_long(len(content), out)
    out += content


def _put_float(value: float, out: bytearray) -> None:
    try:
        out += struct.pack("<f", value)
    except OverflowError:
        out += struct.pack("<f", float("inf") if value > 0 else float("-inf"))


_PLAIN: dict[str, Write] = {
    "boolean": lambda value, out: out.append(1 if value else 0),
    "int": put_long,
    "long": put_long,
    "float": _put_float,
    "double": lambda value, out: out.extend(struct.pack("<d", value)),
    "bytes": _put_bytes,
    "string": lambda value, out: _put_bytes(value.encode(), out),
}


def _milliseconds(value: Any, out: bytearray) -> None:
    put_long(value // 1000, out)


def _time(value: Any, out: bytearray) -> None:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    put_long(seconds * 1000 + value.microsecond // 1000, out)


_TIMED: dict[str, Write] = {
    "date": put_long,
    "time-millis": _time,
    "timestamp-millis": _milliseconds,
}


def _fixed(size: int, path: str) -> Write:
    def fixed(value: bytes, out: bytearray) -> None:
        if len(value) != size:
            raise RecordError(f"{path} has {len(value)} bytes, and the schema {size}")
        out += value

    return fixed


def _decimal(schema: Logical, path: str) -> Write:
    scale, limit = schema.scale, 10**schema.precision
    size = schema.of.size if isinstance(schema.of, Fixed) else None

    def number(value: decimal.Decimal, out: bytearray) -> None:
        scaled = value.scaleb(scale, _CONTEXT)
        whole = int(scaled)
        if whole != scaled or not -limit < whole < limit:
            raise RecordError(
                f"{path} is {value}, which does not fit into"
                f" DECIMAL({schema.precision}, {scale}) of the schema"
            )
        # As few bytes as hold the number and its sign, as Java has it.
        length = ((~whole if whole < 0 else whole).bit_length() + 8) // 8
        if size is not None and length > size:
            raise RecordError(f"{path} is {value}, which does not fit into {size} bytes")
        digits = whole.to_bytes(size or length, "big", signed=True)
        if size is None:
            _put_bytes(digits, out)
        else:
            out += digits

    return number


def _symbol(symbols: Sequence[str], path: str) -> Write:
    numbers = {symbol: number for number, symbol in enumerate(symbols)}

    def symbol(value: str, out: bytearray) -> None:
        if value not in numbers:
            raise RecordError(f"{path} is '{value}', which is no symbol of the schema")
        put_long(numbers[value], out)

    return symbol


def _items(write: Write) -> Write:
    def items(values: Sequence[Any], out: bytearray) -> None:
        if values:
            put_long(len(values), out)
            for value in values:
                write(value, out)
        out.append(0)

    return items


def _values(write: Write) -> Write:
    def pair(entry: tuple[str, Any], out: bytearray) -> None:
        _put_bytes(entry[0].encode(), out)
        write(entry[1], out)

    return _items(pair)


def _entries(entry: Record, kind: Map, path: str) -> Write:
    return _items(_fields(entry, [("key", kind.key), ("value", kind.value)], path))


def _fields(
    record: Record, columns: Sequence[tuple[str, SqlType]], path: str
) -> Callable[[Sequence[Any], bytearray], None]:
    """Writes the fields of a record: columns by their names in any case, defaults, and NULL."""
    places: dict[str, int] = {}
    writes: list[tuple[int | None, Write]] = []
    for field in record.fields:
        name = f"{path}.{field.name}" if path else field.name
        place = place_of(field.name, [column for column, _ in columns])
        if place is None:
            writes.append((None, _left_out(field, name)))
            continue
        places[columns[place][0]] = place
        write = _writer(field.type, columns[place][1], name)
        if field.has_default and not _has_null(field.type):
            write = _or_default(write, _left_out(field, name))
        writes.append((place, write))
    missing = next((name for name, _ in columns if name not in places), None)
    if missing is not None:
        raise SchemaError(f"the schema has no field {missing}")

    def fields(values: Sequence[Any], out: bytearray) -> None:
        for place, write in writes:
            write(None if place is None else values[place], out)

    return fields


def _has_null(schema: AvroType) -> bool:
    return isinstance(schema, Union) and Plain("null") in schema.branches


def _or_default(write: Write, default: Write) -> Write:
    """Writes the default of a field that has no NULL."""
    return lambda value, out: (default if value is None else write)(value, out)


def _left_out(field: AvroField, path: str) -> Write:
    """Writes a field that no column has: its default, or NULL."""
    made = bytearray()
    if field.has_default:
        _put_default(field.type, field.default, made, path)
    elif isinstance(field.type, Union) and Plain("null") in field.type.branches:
        put_long(field.type.branches.index(Plain("null")), made)
    else:
        raise SchemaError(f"the schema needs {path}, which no column has")
    content = bytes(made)
    return lambda _, out: out.extend(content)


def _put_default(schema: AvroType, given: Any, out: bytearray, path: str) -> None:
    """A default, which is JSON; that of a union is of its first branch."""
    try:
        _put_json(schema, given, out)
    except (TypeError, ValueError, KeyError, AttributeError, struct.error):
        raise SchemaError(f"the default of {path} is not of its type") from None


def _put_json(schema: AvroType, given: Any, out: bytearray) -> None:
    match schema:
        case Union(branches):
            out.append(0)
            _put_json(branches[0], given, out)
        case Plain("null"):
            if given is not None:
                raise ValueError("not null")
        case Plain("bytes"):
            _put_bytes(given.encode("latin-1"), out)
        case Plain(name):
            _PLAIN[name](given, out)
        case Logical(of):
            _put_json(of, given, out)
        case Fixed():
            out += given.encode("latin-1")
        case Enumeration(_, symbols):
            put_long(symbols.index(given), out)
        case Items(item):
            _items(lambda value, inner: _put_json(item, value, inner))(given, out)
        case Values(value):
            pairs = list(given.items())
            _values(lambda each, inner: _put_json(value, each, inner))(pairs, out)
        case Record(_, fields):
            for field in fields:
                _put_json(field.type, given.get(field.name, field.default), out)
        case Recursion():
            raise ValueError("a default within itself")
