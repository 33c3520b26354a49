"""Functions in Python: `udf`, `udaf` and `udtf` make entries for the catalogue from a signature
and plain Python callables.

Values are Python's: int, float, str, bytes, bool, Decimal, date, time, datetime; ARRAY is a list,
MAP and STRUCT are dicts, NULL is None. An exception is a failing row: it goes to the processing
log, and the value is NULL (a table function then gives no rows). Functions are called once or
more often for a row and must give the same value each time.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any, overload

import pyarrow as pa

from millstream.functions.fold import python_fold
from millstream.functions.function import (
    AggregateFunction,
    AggregateVariant,
    ScalarFunction,
    TableFunction,
    Variant,
)
from millstream.functions.signatures import parse_signature, type_of
from millstream.model.errors import StatementError
from millstream.model.physical import arrow_type, duckdb_type, physical_names
from millstream.model.types import Array, Map, SqlType, Struct

UserFunction = ScalarFunction | AggregateFunction | TableFunction


@overload
def udf(
    name: str,
    signature: str,
    function: Callable[..., Any],
    *,
    nulls: bool = False,
    arrow: bool = False,
    deterministic: bool = True,
    description: str = "",
) -> ScalarFunction: ...


@overload
def udf(
    name: str,
    signature: str,
    *,
    nulls: bool = False,
    arrow: bool = False,
    deterministic: bool = True,
    description: str = "",
) -> Callable[[Callable[..., Any]], ScalarFunction]: ...


def udf(
    name: str,
    signature: str,
    function: Callable[..., Any] | None = None,
    *,
    nulls: bool = False,
    arrow: bool = False,
    deterministic: bool = True,
    description: str = "",
) -> ScalarFunction | Callable[[Callable[..., Any]], ScalarFunction]:
    """A function of one row, e.g. `udf("INITIALS", "STRING -> STRING", initials)`; without the
    function it is a decorator for one.

    `nulls`: it is called where an argument is NULL, too; otherwise the result is NULL there.
    `arrow`: it takes a `pyarrow.Array` for each argument and returns one, for many rows at once;
    one without parameters takes the number of rows. The type of the result may not depend on the
    arguments. Raises StatementError for a signature that cannot be read.
    """
    if function is None:
        return lambda given: udf(
            name,
            signature,
            given,
            nulls=nulls,
            arrow=arrow,
            deterministic=deterministic,
            description=description or inspect.getdoc(given) or "",
        )
    count, result = _read(name, signature)
    make = _by_batch if arrow else _by_row
    variant = Variant(signature, python=make(function, count, result))
    return ScalarFunction(
        name.upper(),
        "USER",
        (variant,),
        description,
        (),
        null_propagates=not nulls,
        deterministic=deterministic,
    )


def udtf(
    name: str, signature: str, function: Callable[..., Any], *, description: str = ""
) -> TableFunction:
    """A function from one row to many: `function` returns an iterable of values, one for each row.
    `signature` gives the type of one of them."""
    count, element = _read(name, signature)
    rows = _by_row(lambda *values: list(function(*values)), count, Array(element))
    return TableFunction(name.upper(), signature, "", description, python=(rows,))


def udaf(
    name: str,
    signature: str,
    *,
    initial: Callable[..., Any],
    add: Callable[..., Any],
    remove: Callable[..., Any] | None = None,
    result: Callable[[Any], Any] | None = None,
    state: str = "",
    description: str = "",
) -> AggregateFunction:
    """A function of many rows.

    `initial(*constants)` is the state of an empty group, the constants being the arguments that
    the signature marks LITERAL; `add(state, *values)` returns the state with one more row,
    `remove` with one less: without it the function is refused on tables. `result(state)` is the
    value, `state` the SQL type of the state; without them the state is the value. Not for session
    windows, whose states have to be merged.
    """
    parse = parse_signature(signature)
    kind = "{t}" if not state else duckdb_type(type_of(state))
    shape = _definite(state or str(parse.result))

    def step(now: Any, diff: int, values: tuple[Any, ...], _: Sequence[Any]) -> Any:
        change = add if diff > 0 else remove
        return now if change is None else change(now, *values)

    fold = python_fold(
        lambda given: initial(*given),
        step,
        copy.deepcopy if shape is None else lambda stored: _given(stored, arrow_type(shape)),
        copy.deepcopy if shape is None else lambda now: _kept(now, shape),
        result,
    )
    variant = AggregateVariant(
        signature,
        (kind,) if result is None else ("{t}", kind),
        "{s0}",
        fold=fold,
        undo=remove is not None,
    )
    return AggregateFunction(name.upper(), (variant,), description)


def _definite(text: str) -> SqlType | None:
    try:
        return type_of(text)
    except ValueError:
        return None


def _read(name: str, signature: str) -> tuple[int, SqlType]:
    """The number of parameters and the type of the result."""
    try:
        parsed = parse_signature(signature)
        return len(parsed.parameters), type_of(str(parsed.result))
    except (ValueError, IndexError) as error:
        raise StatementError(
            f"The signature of {name} cannot be used: {signature}",
            detail=str(error),
            hint="Write it like 'STRING, INTEGER -> STRING'; the result is a definite type.",
        ) from error


def _by_row(
    function: Callable[..., Any], parameters: int, result: SqlType
) -> Callable[..., pa.Array]:
    """An Arrow function that calls a Python one for each row."""

    def run(*columns: Any) -> pa.Array:
        # Without parameters there is a column nonetheless: it tells the number of rows.
        given = [_values(column) for column in columns] if parameters else []
        rows = zip(*given, strict=True) if parameters else [()] * len(columns[0])
        return pa.array([_kept(function(*row), result) for row in rows], arrow_type(result))

    return run


def _by_batch(
    function: Callable[..., Any], parameters: int, result: SqlType
) -> Callable[..., pa.Array]:
    """An Arrow function checked: as many values of the type as there are rows."""

    def run(*columns: Any) -> pa.Array:
        rows = len(columns[0])
        made = function(*columns) if parameters else function(rows)
        if isinstance(made, pa.ChunkedArray):
            made = made.combine_chunks()
        if len(made) != rows:
            raise ValueError(f"the function returned {len(made)} values for {rows} rows")
        return made.cast(arrow_type(result))

    return run


def _values(column: Any) -> list[Any]:
    return [_given(value, column.type) for value in column.to_pylist()]


def _given(value: Any, kind: Any) -> Any:
    """A value of an Arrow type as a user sees it."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_map(kind):
        return {_given(k, kind.key_type): _given(v, kind.item_type) for k, v in value}
    if pa.types.is_struct(kind):
        fields = (kind.field(place) for place in range(kind.num_fields))
        return {field.name: _given(value[field.name], field.type) for field in fields}
    return [_given(item, kind.value_type) for item in value]


def _kept(value: Any, kind: SqlType) -> Any:
    """A user's value as Arrow takes it."""
    if value is None:
        return None
    match kind:
        case Array(element):
            return [_kept(item, element) for item in value]
        case Map(key, item):
            return [(_kept(k, key), _kept(v, item)) for k, v in value.items()]
        case Struct(fields):
            names = physical_names(field.name for field in fields)
            pairs = zip(names, fields, strict=True)
            return {name: _kept(value.get(field.name), field.type) for name, field in pairs}
    return value
