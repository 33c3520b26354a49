"""The Python values that stores and output columns accept, by SQL type."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from functools import cache, partial
from typing import Any, assert_never

from millstream.model.types import Array, Decimal, Lambda, Map, Primitive, SqlType, Struct

Accept = Callable[[Any], Any]
"""Returns a value as it is stored; raises ValueError for one that is not of the type."""

_PLAIN: dict[Primitive, type] = {
    Primitive.BOOLEAN: bool,
    Primitive.INTEGER: int,
    Primitive.BIGINT: int,
    Primitive.DOUBLE: float,
    Primitive.STRING: str,
    Primitive.BYTES: bytes,
    Primitive.DATE: dt.date,
    Primitive.TIME: dt.time,
    Primitive.TIMESTAMP: dt.datetime,
}
_BITS = {Primitive.INTEGER: 31, Primitive.BIGINT: 63}
_EXACT = decimal.Context(prec=100, traps=[decimal.InvalidOperation])


def is_ordered(kind: SqlType) -> bool:
    """Whether a store can have keys of the type. Not DOUBLE: NaN is not equal to itself."""
    return isinstance(kind, Decimal) or (kind in _PLAIN and kind is not Primitive.DOUBLE)


def class_of(kind: SqlType) -> type:
    """The class of the values of an ordered type."""
    return _PLAIN[kind] if isinstance(kind, Primitive) else decimal.Decimal


def is_mutable(kind: SqlType) -> bool:
    """Whether Python's values of a type can be changed in place."""
    return isinstance(kind, Array | Map | Struct)


@cache
def accept(kind: SqlType) -> Accept:
    """Accepts the values of a type, None among them, as what is read back later: an int as the
    float of a DOUBLE, a tuple as a list, a struct with all of its fields. Lists and dicts are
    copied. A bool is no number, and a datetime no date."""
    match kind:
        case Primitive():
            return _quick(kind, _PLAIN[kind])
        case Decimal():
            return partial(_decimal, kind)
        case Array(element):
            return partial(_array, kind, accept(element))
        case Map(key, item):
            return partial(_map, kind, accept(key), accept(item))
        case Struct(fields):
            return partial(_struct, kind, {field.name: accept(field.type) for field in fields})
        case Lambda():
            raise TypeError(f"{kind} is not the type of a value")
    assert_never(kind)


def _quick(kind: Primitive, wanted: type) -> Accept:
    """`_primitive` with a short way for the values that most programs give."""
    if kind in _BITS:
        end = 1 << _BITS[kind]

        def whole(value: Any) -> Any:
            within = type(value) is int and -end <= value < end
            return value if within else _primitive(kind, wanted, value)

        return whole
    if kind is Primitive.TIMESTAMP:
        return partial(_primitive, kind, wanted)

    def plain(value: Any) -> Any:
        return value if type(value) is wanted else _primitive(kind, wanted, value)

    return plain


def _primitive(kind: Primitive, wanted: type, value: Any) -> Any:
    if value is None:
        return None
    if type(value) is not wanted:
        value = _converted(kind, wanted, value)
    if kind in _BITS:
        end = 1 << _BITS[kind]
        if not -end <= value < end:
            raise ValueError(f"{value!r} is too large for {kind}")
    elif kind is Primitive.TIMESTAMP and value.tzinfo is not None:
        raise ValueError(f"{value!r} has a time zone: {kind} is in UTC, without tzinfo")
    return value


def _converted(kind: Primitive, wanted: type, value: Any) -> Any:
    """An instance of a subclass, or an int for a DOUBLE."""
    number = isinstance(value, int) and not isinstance(value, bool)
    if kind is Primitive.DOUBLE and (number or isinstance(value, float)):
        return float(value)
    if kind in _BITS and number:
        return int(value)
    if kind is Primitive.STRING and isinstance(value, str):
        return str(value)
    plain = wanted is not int and isinstance(value, wanted)
    if not plain or (kind is Primitive.DATE and isinstance(value, dt.datetime)):
        raise _refused(kind, value)
    return value


def _decimal(kind: Decimal, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, decimal.Decimal | int):
        raise _refused(kind, value)
    given = decimal.Decimal(value)
    if not given.is_finite():
        raise ValueError(f"{value!r} is not a number of {kind}")
    exact = given.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=_EXACT)
    if exact != given or len(exact.as_tuple().digits) > kind.precision:
        raise ValueError(f"{value!r} has more digits than {kind}")
    return exact


def _array(kind: Array, element: Accept, value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise _refused(kind, value)
    return [element(item) for item in value]


def _map(kind: Map, key: Accept, item: Accept, value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict) or None in value:
        raise _refused(kind, value)
    return {key(k): item(v) for k, v in value.items()}


def _struct(kind: Struct, fields: dict[str, Accept], value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _refused(kind, value)
    unknown = [name for name in value if name not in fields]
    if unknown:
        raise ValueError(f"there is no field {unknown[0]!r} in {kind}")
    return {name: field(value.get(name)) for name, field in fields.items()}


def _refused(kind: SqlType, value: Any) -> ValueError:
    return ValueError(f"{value!r} is a {type(value).__name__}: {kind} takes {_wanted(kind)}")


def _wanted(kind: SqlType) -> str:
    match kind:
        case Primitive():
            return f"a {_PLAIN[kind].__name__}"
        case Decimal():
            return "a Decimal"
        case Array():
            return "a list"
        case Map() | Struct():
            return "a dict"
        case Lambda():
            return "a function"
    assert_never(kind)
