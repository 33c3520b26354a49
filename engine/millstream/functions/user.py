"""User functions in Python: `udf`, `udaf` and `udtf` create entries of the catalogue from a
signature and plain Python callables.

Values are Python objects: int, float, str, bytes, bool, Decimal, date, time, datetime; ARRAY is a
list, MAP and STRUCT are dicts, NULL is None. An exception is a failing row: it goes to the
processing log, and the value is NULL (a table function then returns no rows). Functions may be
called several times for a row and must return the same value each time.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from millstream.functions.annotations import annotated
from millstream.functions.fold import python_fold
from millstream.functions.function import (
    AggregateFunction,
    AggregateVariant,
    ProcessorFunction,
    ScalarFunction,
    TableFunction,
    Variant,
)
from millstream.functions.signatures import parse_signature, type_of
from millstream.functions.user_values import by_batch, by_row, kept_by_arrow, seen_by_user
from millstream.model import refusals
from millstream.model.physical import arrow_type, duckdb_type
from millstream.model.types import Array, SqlType

UserFunction = ScalarFunction | AggregateFunction | TableFunction | ProcessorFunction


@overload
def udf(
    name: Callable[..., Any], *, deterministic: bool = True, description: str = ""
) -> ScalarFunction: ...


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
    signature: str | None = None,
    *,
    nulls: bool = False,
    arrow: bool = False,
    deterministic: bool = True,
    description: str = "",
) -> Callable[[Callable[..., Any]], ScalarFunction]: ...


def udf(
    name: str | Callable[..., Any],
    signature: str | None = None,
    function: Callable[..., Any] | None = None,
    *,
    nulls: bool = False,
    arrow: bool = False,
    deterministic: bool = True,
    description: str = "",
) -> ScalarFunction | Callable[[Callable[..., Any]], ScalarFunction]:
    """A function of one row, e.g. `udf("INITIALS", "STRING -> STRING", initials)`; without the
    function it is a decorator for one.

    `udf(initials)` alone, also as a decorator without a call, takes the name and the types from the
    function: its parameters and its result are annotated (`functions.annotations` lists the types;
    one that may be None is called for NULLs, too).

    `nulls`: it is also called where an argument is NULL; otherwise the result is NULL there.
    `arrow`: it takes a `pyarrow.Array` for each argument and returns one, for many rows at once;
    one without parameters takes the number of rows. `deterministic`: equal arguments return equal
    results. A function that is not deterministic is called once for each row. If it fails for a
    batch, it is called again row by row, and then its own value is NULL, not that of the enclosing
    expression. The type of the result must not depend on the arguments. Raises StatementError for a
    signature that cannot be read, and TypeError for annotations that have no types.
    """
    options = _Options(nulls, arrow, deterministic, description)
    if not isinstance(name, str):
        return _annotated_scalar(None, name, options)
    if function is not None and signature is not None:
        return _scalar(name, signature, function, options)
    if signature is None:
        return lambda given: _annotated_scalar(name, given, options)
    return lambda given: _scalar(
        name, signature, given, replace(options, description=_description(options, given))
    )


@dataclass(frozen=True, slots=True)
class _Options:
    """See `udf`."""

    nulls: bool
    arrow: bool
    deterministic: bool
    description: str


def _description(options: _Options, function: Callable[..., Any]) -> str:
    return options.description or inspect.getdoc(function) or ""


def _annotated_scalar(
    name: str | None, function: Callable[..., Any], options: _Options
) -> ScalarFunction:
    if options.arrow or options.nulls:
        raise TypeError(
            "nulls and arrow need a signature: with annotations, X | None is a parameter for NULLs,"
            " and there are no Arrow arrays"
        )
    known = annotated(function)
    options = replace(options, nulls=known.nulls, description=_description(options, function))
    made = _scalar(name or known.name, known.signature, known.function, options)
    return replace(made, origin=function)


def _scalar(
    name: str, signature: str, function: Callable[..., Any], options: _Options
) -> ScalarFunction:
    count, result = _read(name, signature)
    make = by_batch if options.arrow else by_row
    variant = Variant(
        signature,
        python=make(function, count, result),
        deterministic=options.deterministic,
    )
    return ScalarFunction(
        name.upper(),
        "USER",
        (variant,),
        options.description,
        (),
        null_propagates=not options.nulls,
    )


@overload
def udtf(name: Callable[..., Any], *, description: str = "") -> TableFunction: ...


@overload
def udtf(
    name: str,
    signature: str,
    function: Callable[..., Any],
    *,
    arrow: bool = False,
    description: str = "",
) -> TableFunction: ...


@overload
def udtf(
    name: str, signature: str, *, arrow: bool = False, description: str = ""
) -> Callable[[Callable[..., Any]], TableFunction]: ...


def udtf(
    name: str | Callable[..., Any],
    signature: str = "",
    function: Callable[..., Any] | None = None,
    *,
    arrow: bool = False,
    description: str = "",
) -> TableFunction | Callable[[Callable[..., Any]], TableFunction]:
    """A function from one row to many: `function` returns an iterable of values, one for each row.
    `signature` has the type of one of them. Without the function it is a decorator for one.

    `udtf(words)` alone takes the name and the types from an annotated function, such as
    `def words(line: str) -> Iterator[str]`; see `udf`.

    `arrow`: it takes a `pyarrow.Array` for each argument and returns an array of lists.
    """
    if not isinstance(name, str):
        known = annotated(name, rows=True)
        described = description or inspect.getdoc(name) or ""
        made = udtf(known.name, known.signature, known.function, description=described)
        return replace(made, origin=name)
    if function is None:
        return lambda given: udtf(
            name,
            signature,
            given,
            arrow=arrow,
            description=description or inspect.getdoc(given) or "",
        )
    count, element = _read(name, signature)
    if arrow:
        rows = by_batch(function, count, Array(element))
    else:
        rows = by_row(lambda *values: list(function(*values)), count, Array(element))
    return TableFunction(name.upper(), signature, "", description, python=(rows,))


@overload
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
) -> AggregateFunction: ...


@overload
def udaf(
    name: str,
    signature: str,
    *,
    initial: Callable[..., Any],
    remove: Callable[..., Any] | None = None,
    result: Callable[[Any], Any] | None = None,
    state: str = "",
    description: str = "",
) -> Callable[[Callable[..., Any]], AggregateFunction]: ...


def udaf(
    name: str,
    signature: str,
    *,
    initial: Callable[..., Any],
    add: Callable[..., Any] | None = None,
    remove: Callable[..., Any] | None = None,
    result: Callable[[Any], Any] | None = None,
    state: str = "",
    description: str = "",
) -> AggregateFunction | Callable[[Callable[..., Any]], AggregateFunction]:
    """A function of many rows; without `add` it is a decorator for that function.

    `initial(*constants)` is the state of an empty group, the constants being the arguments that the
    signature marks LITERAL; `add(state, *values)` returns the state with one more row, `remove` the
    state with one less; without `remove` the function is refused on tables. `result(state)` is the
    value, `state` the SQL type of the state; without them the state is the value. Not for session
    windows, whose states have to be merged.
    """
    if add is None:
        return lambda given: udaf(
            name,
            signature,
            initial=initial,
            add=given,
            remove=remove,
            result=result,
            state=state,
            description=description or inspect.getdoc(given) or "",
        )
    parse = parse_signature(signature)
    kind = "{t}" if not state else duckdb_type(type_of(state))
    shape = _definite(state or str(parse.result))

    def step(now: Any, diff: int, values: tuple[Any, ...], _: Sequence[Any]) -> Any:
        change = add if diff > 0 else remove
        return now if change is None else change(now, *values)

    fold = python_fold(
        lambda given: initial(*given),
        step,
        copy.deepcopy if shape is None else lambda stored: seen_by_user(stored, arrow_type(shape)),
        copy.deepcopy if shape is None else lambda now: kept_by_arrow(now, shape),
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


def reducer(function: Callable[..., Any]) -> AggregateFunction:
    """The aggregate that combines the values of a group two at a time, by a function with
    annotations: `def longer(left: str, right: str) -> str`. A group of one has its value; NULLs are
    left out. For a database whose queries were made by `reduce` of a chain, pass it to `connect`.
    Raises TypeError for another function."""
    known = annotated(function)
    signature = parse_signature(known.signature)
    kinds = {str(each.type) for each in signature.parameters} | {str(signature.result)}
    if len(signature.parameters) != 2 or len(kinds) != 1:
        raise TypeError(
            "reduce takes a function of two values of one type, which is that of its result:"
            f" {known.name.lower()} has ({known.signature})"
        )

    def add(state: Any, value: Any) -> Any:
        if value is None:
            return state
        return value if state is None else known.function(state, value)

    kind = kinds.pop()
    made = udaf(known.name, f"{kind} -> {kind}", initial=lambda: None, add=add)
    return replace(made, origin=function)


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
        raise refusals.SIGNATURE(
            name=name,
            signature=signature,
            detail=str(error),
            hint="Write it like 'STRING, INTEGER -> STRING'; the result is a definite type.",
        ) from error
