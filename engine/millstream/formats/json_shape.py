"""Shapes of JSON records, which allow reading a whole batch at once without examining each field.

DuckDB reads JSON fast but leniently: it rounds 1.7 to 2, reads `true` as 1, and uses the first of
equal fields. A *shape* is learnt from a sample record: the order and spelling of its fields, as a
regular expression in which each field may hold only text that DuckDB reads exactly. Records that
match it are read by DuckDB, all others one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.formats.json_proof import (
    Pairs,
    any_value,
    list_of,
    map_of,
    name_token,
    proof,
    readers,
    scalar_proof,
)
from millstream.formats.json_tokens import GAP, PLAIN_TEXT, TEXT, NoShapeError, scalar_token
from millstream.formats.json_value import first_value
from millstream.formats.payload import Layout
from millstream.model.physical import physical_names
from millstream.model.schema import Column
from millstream.model.types import Array, Decimal, Field, Map, Primitive, SqlType, Struct

_CARRIERS: Mapping[SqlType, str] = {
    Primitive.BOOLEAN: "BOOLEAN",
    Primitive.INTEGER: "INTEGER",
    Primitive.BIGINT: "BIGINT",
    Primitive.DOUBLE: "DOUBLE",
    Primitive.STRING: "VARCHAR",
    Primitive.BYTES: "VARCHAR",
    Primitive.DATE: "INTEGER",
    Primitive.TIME: "BIGINT",
    Primitive.TIMESTAMP: "BIGINT",
}
_CONVERTED = frozenset((Primitive.BYTES, Primitive.DATE, Primitive.TIME, Primitive.TIMESTAMP))
WHOLE = frozenset(
    (Primitive.INTEGER, Primitive.BIGINT, Primitive.DATE, Primitive.TIME, Primitive.TIMESTAMP)
)
"""Types whose values are whole numbers in JSON."""
_VARIANTS_MAX = 6
_DECODER = json.JSONDecoder(object_pairs_hook=Pairs)


@dataclass(frozen=True, slots=True)
class Names:
    """The JSON field that each column or STRUCT field is read from."""

    fields: Mapping[str, str] = field(default_factory=dict)
    inner: Mapping[str, Names] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlatField:
    """A field that is neither object nor array: whether a sample has a text there, the column that
    reads it and its type (None if none does). `pattern` matches its valid values (of a text,
    without the quotes). `declared`: the type of the column that the field belongs to, for which its
    value must be valid, requested or not."""

    name: str
    quoted: bool
    column: str
    type: SqlType | None
    pattern: str
    declared: SqlType | None = None


@dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes that agree on the names of fields. `pattern` matches the records that have one;
    `compact` those of them without white space and escapes, in three quarters of the time.
    `leading` finds one that other bytes follow, as the group `first`. `fields` are those of the
    only shape in their order; empty where there are several shapes or a field is nested."""

    pattern: str
    compact: str
    leading: str
    names: Names
    fields: tuple[FlatField, ...] = ()


def learn_shapes(samples: Iterable[bytes], layout: Layout) -> Shapes | None:
    """The shapes of sample records; None if none of them can be read fast."""
    patterns: dict[str, Any] = {}
    names = Names()
    seen: set[object] = set()
    for sample in samples:
        try:
            record = first_value(sample, _DECODER)
            likeness = _likeness(record)
            if likeness in seen:
                continue
            if likeness is not None:
                seen.add(likeness)
            if layout.wrapped:
                pattern, found = _object(record, layout.columns, set(layout.wanted))
            elif layout.wanted:
                pattern, found = _value(record, layout.columns[0].type)
            else:
                pattern, found = proof(record, layout.columns[0].type), Names()
            names = _merge(names, found)
        except (NoShapeError, ValueError, RecursionError):
            continue
        patterns.setdefault(pattern, record)
        if len(patterns) == _VARIANTS_MAX:
            break
    if not patterns:
        return None
    flat = layout.wrapped and len(patterns) == 1
    fields = _flat_fields(next(iter(patterns.values())), layout, names) if flat else ()
    first = f"{GAP}(?:{'|'.join(patterns)})"
    pattern = f"^{first}{GAP}$"
    # Names of fields are escaped in a pattern, so that no placeholder in them is replaced.
    compact = pattern.replace(GAP, "").replace(TEXT, PLAIN_TEXT)
    return Shapes(pattern, compact, f"^(?P<first>{first})", names, fields)


def _likeness(record: Any) -> tuple[tuple[str, type], ...] | None:
    """Flat records of one likeness have one shape: of a value that is not nested, a shape has the
    kind alone. None for other records."""
    if not isinstance(record, Pairs):
        return None
    if any(isinstance(value, list | tuple) for _, value in record):
        return None
    return tuple((name, type(value)) for name, value in record)


def _flat_fields(record: Pairs, layout: Layout, names: Names) -> tuple[FlatField, ...]:
    wanted = {names.fields[c.name]: c for c in layout.picked if c.name in names.fields}
    declared = readers([name for name, _ in record], layout.columns)
    fields = []
    for index, (name, value) in enumerate(record):
        column = wanted.get(name)
        if isinstance(value, tuple | list) or (column and _is_nested(column.type)):
            return ()
        quoted = isinstance(value, str)
        own = layout.columns[declared[index]].type if index in declared else None
        if column:
            pattern = f"^(?:null|{scalar_token(column.type).strip(chr(34))})$"
        elif quoted:
            pattern = f"^(?:{scalar_proof(own, quoted=True)})$"
        else:
            pattern = f"^(?:null|{scalar_proof(own, quoted=False)})$"
        fields.append(
            FlatField(
                name,
                quoted,
                column.name if column else "",
                column.type if column else None,
                pattern,
                own,
            )
        )
    return tuple(fields)


def _is_nested(sql_type: SqlType) -> bool:
    return isinstance(sql_type, Array | Map | Struct)


def carrier(layout: Layout, names: Names) -> str | None:
    """The structure with which `from_json_strict` reads the requested columns; None without any."""
    try:
        if not layout.wrapped:
            return json.dumps(carrier_type(layout.columns[0].type, names))
        columns = [column for column in layout.picked if column.name in names.fields]
        spelt = _distinct([names.fields[column.name] for column in columns])
        types = (
            carrier_type(column.type, names.inner.get(column.name, Names())) for column in columns
        )
        return json.dumps(dict(zip(spelt, types, strict=True)))
    except NoShapeError:
        return None


def carrier_type(sql_type: SqlType, names: Names) -> str:
    """The DuckDB type in which a value is read: fields as they are spelt, times as plain
    numbers."""
    match sql_type:
        case Decimal(precision, scale):
            return f"DECIMAL({precision}, {scale})"
        case Array(element):
            return f"{carrier_type(element, names)}[]"
        case Map(_, member):
            return f"MAP(VARCHAR, {carrier_type(member, names)})"
        case Struct(members):
            return f"STRUCT({', '.join(_carried_fields(members, names))})"
    return _CARRIERS[sql_type]


def _carried_fields(members: Sequence[Field], names: Names) -> Iterable[str]:
    # A field that no sample has is in no record: any unused name will do.
    spelt = [names.fields.get(member.name, f"\x01{index}") for index, member in enumerate(members)]
    for member, name in zip(members, _distinct(spelt), strict=True):
        yield f'"{name}" {carrier_type(member.type, names.inner.get(member.name, Names()))}'


def _distinct(spelt: Sequence[str]) -> Sequence[str]:
    # DuckDB's structs treat names that differ only by case as equal.
    if not spelt or physical_names(spelt) != tuple(spelt):
        raise NoShapeError
    return spelt


def _object(record: Any, columns: Sequence[Column | Field], wanted: set[int]) -> tuple[str, Names]:
    if not isinstance(record, Pairs):
        raise NoShapeError
    places = readers([key for key, _ in record], columns)
    fields, inner, parts = {}, {}, []
    for index, (key, value) in enumerate(record):
        column = columns[places[index]] if index in places else None
        if column is None:
            pattern = any_value(value)
        elif places[index] in wanted:
            pattern, inside = _value(value, column.type)
            fields[column.name], inner[column.name] = key, inside
        else:
            pattern = proof(value, column.type)
        parts.append(f"{name_token(key)}{GAP}:{GAP}{pattern}")
    between = f"{GAP},{GAP}"
    return rf"\{{{GAP}{between.join(parts)}{GAP}\}}", Names(fields, inner)


def _value(value: Any, sql_type: SqlType) -> tuple[str, Names]:
    match sql_type:
        case Struct(members):
            _plain_only(member.type for member in members)
            if value is None:
                return "null", Names()
            pattern, names = _object(value, members, set(range(len(members))))
            return f"(?:null|{pattern})", names
        case Array(element):
            if value is not None and (not isinstance(value, list) or isinstance(value, Pairs)):
                raise NoShapeError
            pattern, names = _members(value or (), element)
            return f"(?:null|{list_of(pattern)})", names
        case Map(_, member):
            if value is not None and not isinstance(value, Pairs):
                raise NoShapeError
            pattern, names = _members([item for _, item in value or ()], member)
            return f"(?:null|{map_of(pattern)})", names
    return f"(?:null|{scalar_token(sql_type)})", Names()


def _members(values: Sequence[Any], sql_type: SqlType) -> tuple[str, Names]:
    _plain_only((sql_type,))
    patterns: dict[str, None] = {}
    names = Names()
    for value in values if len(values) else (None,):
        pattern, found = _value(value, sql_type)
        patterns[pattern] = None
        names = _merge(names, found)
    if len(patterns) > _VARIANTS_MAX:
        raise NoShapeError
    return f"(?:{'|'.join(patterns)})", names


def _plain_only(types: Iterable[SqlType]) -> None:
    # A value with another carrier type is converted only if it is a column of its own.
    if any(sql_type in _CONVERTED for sql_type in types):
        raise NoShapeError


def _merge(left: Names, right: Names) -> Names:
    for name, spelt in right.fields.items():
        if left.fields.get(name, spelt) != spelt:
            raise NoShapeError
    inner = dict(left.inner)
    for name, names in right.inner.items():
        inner[name] = _merge(inner[name], names) if name in inner else names
    return Names({**left.fields, **right.fields}, inner)
