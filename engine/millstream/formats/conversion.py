"""Converts the values of a schema to those of columns, as ksqlDB does for its formats of the
registry: by the names of fields in any case, with wider numbers, and texts of scalars.

Values of both sides are as `payload` has them in Python: a DATE is days, a TIME and a TIMESTAMP are
microseconds, a MAP is pairs, and a STRUCT a dict, by the names of the schema on one side and by
physical names on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millstream.formats.json_rows import fit_decimal
from millstream.model.errors import RecordError
from millstream.model.java_number import java_double
from millstream.model.physical import physical_names
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    Array,
    Decimal,
    Field,
    Map,
    SqlType,
    Struct,
)

Convert = Callable[[Any], Any]
_SCALARS = (BOOLEAN, INTEGER, BIGINT, DOUBLE)


def converted(given: SqlType, wanted: SqlType) -> Convert | None:
    """Converts a value that is not NULL from the type of a schema to that of a column. None if
    there is no such conversion. It raises RecordError for a value that does not fit."""
    match given, wanted:
        case Decimal(), Decimal():
            return _to_decimal(wanted)
        case Array(item), Array(element):
            inner = _of_nullable(converted(item, element))
            return None if inner is None else lambda items: [inner(one) for one in items]
        case Map(key, member), Map(wanted_key, wanted_member):
            return _of_pairs(converted(key, wanted_key), converted(member, wanted_member))
        case Struct(), Struct():
            return _to_struct(given, wanted)
        case _ if given == wanted:
            return _same
        case _ if wanted == STRING and given in _SCALARS:
            return _to_text(given)
        case _ if (given, wanted) == (INTEGER, BIGINT):
            return _same
    return None


def columns_from(
    given: SqlType, columns: Sequence[tuple[str, SqlType]], *, wrapped: bool
) -> Callable[[Any], list[Any]]:
    """Converts a whole record to the values of columns. A column that the schema does not have is
    NULL. Raises RecordError where the schema cannot have these columns at all."""
    if not wrapped:
        ((name, wanted),) = columns
        one = _of_nullable(_required(name, given, wanted))
        return lambda value: [one(value)]
    if not isinstance(given, Struct):
        raise RecordError(f"the schema is {given}, not a record with fields")
    fields = [field_of(given, name) for name, _ in columns]
    pairs = [
        None if field is None else (field.name, _of_nullable(_required(name, field.type, wanted)))
        for field, (name, wanted) in zip(fields, columns, strict=True)
    ]

    def values(record: Mapping[str, Any]) -> list[Any]:
        return [None if pair is None else pair[1](record[pair[0]]) for pair in pairs]

    return values


def _required(name: str, given: SqlType, wanted: SqlType) -> Convert:
    found = converted(given, wanted)
    if found is None:
        raise RecordError(f"column {name} is {wanted}, and the schema has {given} there")
    return found


def place_of(name: str, names: Sequence[str]) -> int | None:
    """Where a name is among others: the same one, or else the last that differs in case only."""
    if name in names:
        return names.index(name)
    folded = [place for place, each in enumerate(names) if each.upper() == name.upper()]
    return folded[-1] if folded else None


def field_of(struct: Struct, name: str) -> Field | None:
    """The field of a column."""
    place = place_of(name, [field.name for field in struct.fields])
    return None if place is None else struct.fields[place]


def _same(value: Any) -> Any:
    return value


def _of_nullable(convert: Convert | None) -> Convert:
    assert convert is not None
    if convert is _same:
        return _same
    return lambda value: None if value is None else convert(value)


def _of_pairs(key: Convert | None, member: Convert | None) -> Convert | None:
    if key is None or member is None:
        return None
    of_key, of_member = _of_nullable(key), _of_nullable(member)

    def of_pairs(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        # Of equal keys the last one counts.
        found = {of_key(name): of_member(value) for name, value in pairs}
        if None in found:
            raise RecordError("a key of a map is NULL")
        return list(found.items())

    return of_pairs


def _to_struct(given: Struct, wanted: Struct) -> Convert | None:
    pairs: list[tuple[str, str, Convert] | None] = []
    names = physical_names(field.name for field in wanted.fields)
    for field, name in zip(wanted.fields, names, strict=True):
        found = field_of(given, field.name)
        if found is None:
            pairs.append(None)
            continue
        convert = converted(found.type, field.type)
        if convert is None:
            return None
        pairs.append((name, found.name, _of_nullable(convert)))
    missing = [name for name, pair in zip(names, pairs, strict=True) if pair is None]
    present = [pair for pair in pairs if pair is not None]

    def struct(value: Mapping[str, Any]) -> dict[str, Any]:
        made = {name: convert(value[source]) for name, source, convert in present}
        return made | dict.fromkeys(missing)

    return struct


def _to_text(given: SqlType) -> Convert:
    if given == BOOLEAN:
        return lambda value: "true" if value else "false"
    if given == DOUBLE:
        return java_double
    return str


def _to_decimal(wanted: Decimal) -> Convert:
    return lambda value: fit_decimal(value, wanted.precision, wanted.scale)
