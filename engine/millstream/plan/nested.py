"""Typing of arrays, maps and structs: constructing and accessing them."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.model.expressions import (
    Expression,
    FieldOf,
    Literal,
    MakeArray,
    MakeMap,
    MakeStruct,
    Subscript,
)
from millstream.model.nearest import did_you_mean
from millstream.model.types import NULL, Array, Field, Map, SqlType, Struct, is_numeric
from millstream.plan import wordings
from millstream.plan.coercion import Item, unify
from millstream.plan.literals import is_null
from millstream.plan.types import struct_of


def make_array(items: Sequence[Item]) -> MakeArray:
    """`ARRAY[…]` with its elements brought to one type."""
    if not items:
        raise wordings.EMPTY_ARRAY()
    element, converted = unify(items)
    _not_all_null(element, "an array with all NULL elements")
    return MakeArray(converted, Array(element))


def make_map(keys: Sequence[Item], values: Sequence[Item]) -> MakeMap:
    """`MAP(k := v, …)` with keys of one type and values of one type."""
    if not keys:
        raise wordings.EMPTY_MAP()
    key, some_keys = unify(keys)
    value, some_values = unify(values)
    _not_all_null(key, "a map with all NULL keys")
    _not_all_null(value, "a map with all NULL values")
    return MakeMap(tuple(zip(some_keys, some_values, strict=True)), Map(key, value))


def make_struct(fields: Sequence[tuple[str, Expression]]) -> MakeStruct:
    """`STRUCT(f := v, …)`; raises StatementError for a name that occurs twice."""
    kind = struct_of([Field(name, expression.type) for name, expression in fields])
    return MakeStruct(tuple(fields), kind)


def subscript(base: Item, index: Item, source: str) -> Subscript:
    """`base[index]`: an element of an array or the value of a key of a map."""
    kind = index.expression.type
    match base.expression.type:
        case Array(element):
            if not is_numeric(kind) and not is_null(index.expression):
                raise wordings.INDEX_TYPE(source=source, index=index.source, kind=kind)
            return Subscript(base.expression, index.expression, element)
        case Map(key, value):
            _, (_, converted) = unify([Item(Literal(None, key), ""), index])
            if converted.type != key:
                raise wordings.MAP_INDEX_TYPE(
                    source=base.source, key=key, index=index.source, kind=kind
                )
            return Subscript(base.expression, converted, value)
        case other:
            raise wordings.SUBSCRIPT_IMPOSSIBLE(source=source, type=other)


def field_of(base: Item, name: str) -> FieldOf:
    """`base->name`; raises StatementError where there is no such field."""
    struct = base.expression.type
    if not isinstance(struct, Struct):
        raise wordings.STRUCT_NEEDED(struct=struct, source=base.source, name=name)
    field = struct.field(name)
    if field is None:
        names = (known.name for known in struct.fields)
        raise wordings.FIELD_MISSING(
            name=name,
            source=base.source,
            hint=did_you_mean(name, names, f"It has the type {struct}."),
        )
    return FieldOf(base.expression, name, field.type)


def _not_all_null(kind: SqlType, what: str) -> None:
    if kind is NULL:
        raise wordings.ELEMENTS_OF_NULL(what=what)
