"""SQL types from the annotations of Python functions, and the values between the two.

| annotation | type |
|---|---|
| bool, int, float, str, bytes | BOOLEAN, BIGINT, DOUBLE, STRING, BYTES |
| date, time, datetime | DATE, TIME, TIMESTAMP |
| list[X], dict[K, X] | ARRAY<X>, MAP<K, X> |
| a dataclass, NamedTuple, TypedDict, msgspec.Struct, pydantic model | STRUCT with its fields |
| X \\| None | X, which may be NULL |
| Annotated[X, "DECIMAL(10, 2)"] | the type that the text says |
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from millstream.functions.signatures import parse_signature

Convert = Callable[[Any], Any]
_PLAIN = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bytes: "BYTES",
    dt.date: "DATE",
    dt.time: "TIME",
    dt.datetime: "TIMESTAMP",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """What an annotation says of a value. `text`: its SQL type; `optional`: it may be None; `load`
    makes the value from lists and dicts, and `dump` these from it, None where it is the same."""

    text: str
    optional: bool = False
    load: Convert | None = None
    dump: Convert | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class AnnotatedFunction:
    """A function of Python as one of SQL. `parameters` are their names; `nulls`: whether it is
    called for NULLs."""

    name: str
    parameters: tuple[str, ...]
    signature: str
    function: Callable[..., Any]
    nulls: bool


def annotated(function: Callable[..., Any], *, rows: bool = False) -> AnnotatedFunction:
    """What the annotations of a function say; with `rows` it returns many values, as a generator
    does. Raises TypeError for a function without a name or with other annotations."""
    name = str(getattr(function, "__name__", ""))
    if not name.isidentifier():
        raise TypeError(
            f"{function!r} has no name that SQL could call: define it with def, or give it one with"
            " millstream.udf('NAME', 'DOUBLE -> BOOLEAN', …)"
        )
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} is async: calls that wait are for a millstream.AsyncProcessor")
    hints = _hints(function, name)
    parameters = tuple(inspect.signature(function).parameters.values())
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wrong = next((each.name for each in parameters if each.kind not in plain), None)
    if wrong is not None:
        raise TypeError(f"{name}: {wrong} is no plain parameter, and SQL gives only such")
    taken = [_shape(hints, each.name, f"parameter {each.name} of {name}") for each in parameters]
    if rows and "return" in hints:
        hints["return"] = _element(hints["return"], name)
    made = _shape(hints, "return", f"the result of {name}")
    shown = ", ".join(
        f"{shape.text} {each.name.upper()}" for shape, each in zip(taken, parameters, strict=True)
    )
    return AnnotatedFunction(
        name.upper(),
        tuple(each.name for each in parameters),
        f"{shown} -> {made.text}",
        _adapted(function, taken, made, rows=rows),
        any(shape.optional for shape in taken),
    )


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"{name}: an annotation cannot be found: {error}") from error


def _shape(hints: Mapping[str, Any], name: str, what: str) -> Shape:
    if name not in hints:
        raise TypeError(f"{what} has no annotation, such as float, which says its type in SQL")
    try:
        return shape_of(hints[name])
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None


def _element(annotation: Any, name: str) -> Any:
    """The type of the rows of a function that returns many."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Iterable) and arguments:
        return arguments[0]
    raise TypeError(f"the result of {name}: rows are annotated as Iterator[str], list[int], …")


def _adapted(
    function: Callable[..., Any], taken: Sequence[Shape], made: Shape, *, rows: bool
) -> Callable[..., Any]:
    """The function for lists and dicts. Where it may be called for NULLs, those that a parameter
    does not take give NULL."""
    loads = [shape.load for shape in taken]
    optional = any(shape.optional for shape in taken)
    if not (any(loads) or made.dump or optional):
        return function
    dump = None if made.dump is None else _unless_none(made.dump)

    def called(*values: Any) -> Any:
        given = zip(values, taken, strict=True)
        if optional and any(value is None and not shape.optional for value, shape in given):
            return () if rows else None
        result = function(*map(_converted, loads, values))
        if dump is None:
            return result
        return [dump(each) for each in result] if rows else dump(result)

    return called


def _converted(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _unless_none(convert: Convert) -> Convert:
    return partial(_converted, convert)


def shape_of(annotation: Any, around: tuple[type, ...] = ()) -> Shape:
    """The shape of an annotation; `around`: the rows that it is within. Raises TypeError for one
    that no type of SQL fits."""
    if isinstance(annotation, type) and annotation in _PLAIN:
        return Shape(_PLAIN[annotation])
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(annotation, around)
    if origin in (Union, types.UnionType):
        others = [each for each in arguments if each is not type(None)]
        if len(others) == 1:
            return dataclasses.replace(shape_of(others[0], around), optional=True)
    elif isinstance(origin, type) and issubclass(origin, Mapping) and len(arguments) == 2:
        return _map(shape_of(arguments[0], around), shape_of(arguments[1], around))
    elif isinstance(origin, type) and issubclass(origin, Sequence) and len(arguments) == 1:
        return _array(shape_of(arguments[0], around))
    elif isinstance(annotation, type) and (names := fields_of(annotation)) is not None:
        return _row(annotation, names, around)
    if annotation is Decimal:
        raise TypeError('a Decimal needs its digits, as Annotated[Decimal, "DECIMAL(10, 2)"]')
    raise TypeError(f"{annotation!r} is no type that SQL has; Annotated[X, 'STRING'] names one")


def _annotated(annotation: Any, around: tuple[type, ...]) -> Shape:
    inner, *extras = get_args(annotation)
    named = next((each for each in extras if isinstance(each, str)), None)
    if named is None:
        return shape_of(inner, around)
    try:
        text = str(parse_signature(f"-> {named}").result)
    except (ValueError, IndexError):
        raise TypeError(f"{named!r} is no type of SQL") from None
    plain = inner in _PLAIN or inner is Decimal
    return Shape(text) if plain else dataclasses.replace(shape_of(inner, around), text=text)


def _array(element: Shape) -> Shape:
    def each(convert: Convert) -> Convert:
        return lambda values: [_converted(convert, value) for value in values]

    return Shape(
        f"ARRAY<{element.text}>",
        load=None if element.load is None else each(element.load),
        dump=None if element.dump is None else each(element.dump),
    )


def _map(key: Shape, item: Shape) -> Shape:
    if key.load is not None or key.dump is not None:
        raise TypeError("the key of a dict cannot be a row")

    def each(convert: Convert) -> Convert:
        return lambda values: {k: _converted(convert, value) for k, value in values.items()}

    return Shape(
        f"MAP<{key.text}, {item.text}>",
        load=None if item.load is None else each(item.load),
        dump=None if item.dump is None else each(item.dump),
    )


def fields_of(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a class whose instances are rows; None for another class."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    if is_typeddict(kind):
        return tuple(kind.__annotations__)
    # Of msgspec.Struct, pydantic.BaseModel and NamedTuple.
    for attribute in ("__struct_fields__", "model_fields", "_fields"):
        if isinstance(names := getattr(kind, attribute, None), tuple | dict) and names:
            return tuple(names)
    return None


def _row(kind: type, names: Sequence[str], around: tuple[type, ...]) -> Shape:
    if kind in around:
        raise TypeError(f"{kind.__name__} is within itself, and no type of SQL is")
    hints = get_type_hints(kind, include_extras=True)
    shapes = {name: shape_of(hints[name], (*around, kind)) for name in names}
    text = ", ".join(f"{name.upper()} {shape.text}" for name, shape in shapes.items())
    columns = [(name, name.upper(), shape) for name, shape in shapes.items()]

    def load(value: Mapping[str, Any]) -> Any:
        return kind(**{name: _converted(s.load, value.get(field)) for name, field, s in columns})

    def dump(made: Any) -> dict[str, Any]:
        get = made.get if isinstance(made, Mapping) else partial(getattr, made)
        return {field: _converted(s.dump, get(name)) for name, field, s in columns}

    return Shape(f"STRUCT<{text}>", load=load, dump=dump)
