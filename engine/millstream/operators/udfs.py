"""Conversions that DuckDB cannot express exactly, as vectorised Python functions.

Only unusual values reach them: numbers that Java writes with an exponent, decimals of more digits
than an integer of DuckDB has.
"""

from __future__ import annotations

import decimal
import inspect
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from millstream.functions.attempts import forgiving
from millstream.functions.function import Catalogue
from millstream.model.expressions import Expression
from millstream.model.java_number import JAVA_DOUBLE, PLAIN_NUMBER, java_double, plain_number
from millstream.operators.scalar import PythonFunction, python_functions
from millstream.operators.sql import DECIMAL_FUNCTIONS

_CONTEXT = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP)
_Operation = Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal]


def register_expressions(
    con: duckdb.DuckDBPyConnection,
    expressions: Iterable[Expression],
    catalogue: Catalogue,
    known: set[str],
) -> None:
    """Registers the Python functions that these expressions call, and those that any compiled
    expression may call, with the database of a connection; all its cursors share them.

    `known`: the names already registered with the database; updated here. To query them takes
    DuckDB longer than all the rest of starting a small query.
    """
    for function in needed_functions(expressions, catalogue):
        if function.name not in known:
            register(con, function)
            known.add(function.name)


def needed_functions(
    expressions: Iterable[Expression], catalogue: Catalogue
) -> tuple[PythonFunction, ...]:
    """The Python functions that the compiled text of these expressions may call."""
    wanted = {function for item in expressions for function in python_functions(item, catalogue)}
    return (*_BUILTIN, *wanted)


def register(con: duckdb.DuckDBPyConnection, function: PythonFunction) -> None:
    """Registers one function; it is called for NULL arguments too."""
    # DuckDB has no TRY around calls that it may not repeat.
    made = function.function if function.deterministic else forgiving(function.function)
    con.create_function(
        function.name,
        _fixed(made, len(function.parameters)),
        [con.sqltype(parameter) for parameter in function.parameters],
        con.sqltype(function.result),
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
        # Otherwise DuckDB evaluates a call in a filter and once more above it.
        side_effects=not function.deterministic,
    )


@cache
def _fixed(function: Callable[..., pa.Array], count: int) -> Callable[..., pa.Array]:
    """The function with the signature that DuckDB inspects, also for a variable number of
    arguments.

    Referenced for ever: DuckDB frees it with the cursor that registered it, although the database
    continues to call it.
    """

    def called(*columns: Any) -> pa.Array:
        return function(*columns)

    kind = inspect.Parameter.POSITIONAL_ONLY
    parameters = [inspect.Parameter(f"a{place}", kind) for place in range(count)]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


def _java_doubles(values: Any) -> pa.Array:
    texts = [None if value is None else java_double(value) for value in values.to_pylist()]
    return pa.array(texts, pa.string())


def _plain_numbers(values: Any) -> pa.Array:
    texts = [None if value is None else plain_number(value) for value in values.to_pylist()]
    return pa.array(texts, pa.string())


def _rowwise(operation: _Operation, left: Any, right: Any, scale: Any) -> pa.Array:
    """Exact results at a scale, as text; a row without a result gets a text that is not a number,
    so that the cast around the call fails for that row only."""

    def one(a: str | None, b: str | None, digits: int) -> str | None:
        if a is None or b is None:
            return None
        try:
            exact = operation(decimal.Decimal(a), decimal.Decimal(b))
        except (decimal.DivisionByZero, decimal.InvalidOperation):
            return "no result"
        return format(exact.quantize(decimal.Decimal(1).scaleb(-digits), context=_CONTEXT), "f")

    rows = zip(left.to_pylist(), right.to_pylist(), scale.to_pylist(), strict=True)
    return pa.array([one(*row) for row in rows], pa.string())


_OPERATIONS: dict[str, _Operation] = {
    "+": _CONTEXT.add,
    "-": _CONTEXT.subtract,
    "*": _CONTEXT.multiply,
    "/": _CONTEXT.divide,
    "%": _CONTEXT.remainder,
}
_TEXTS = ("VARCHAR", "VARCHAR", "INTEGER")
_BUILTIN = (
    PythonFunction(JAVA_DOUBLE, _java_doubles, ("DOUBLE",), "VARCHAR"),
    PythonFunction(PLAIN_NUMBER, _plain_numbers, ("VARCHAR",), "VARCHAR"),
    *(
        PythonFunction(name, partial(_rowwise, _OPERATIONS[operator]), _TEXTS, "VARCHAR")
        for operator, name in DECIMAL_FUNCTIONS.items()
    ),
)
