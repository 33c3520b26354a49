"""Conversions that DuckDB cannot say exactly, as vectorised Python functions.

Only odd values reach them: numbers that Java writes with an exponent, decimals of more digits than
an integer of DuckDB has.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

JAVA_DOUBLE = "ms_java_double"
DECIMAL_DIVIDE = "ms_decimal_divide"
DECIMAL_MULTIPLY = "ms_decimal_multiply"

_CONTEXT = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP)


def register_builtin(con: duckdb.DuckDBPyConnection) -> None:
    """Makes the functions that compiled expressions may call known to a connection, once for the
    database; cursors of the connection share them."""
    functions: list[tuple[str, Callable[..., pa.Array], list[str]]] = [
        (JAVA_DOUBLE, _java_doubles, ["DOUBLE"]),
        (DECIMAL_DIVIDE, _divide, ["VARCHAR", "VARCHAR", "INTEGER"]),
        (DECIMAL_MULTIPLY, _multiply, ["VARCHAR", "VARCHAR", "INTEGER"]),
    ]
    for name, function, parameters in functions:
        register(con, name, function, parameters, "VARCHAR")


def register(
    con: duckdb.DuckDBPyConnection,
    name: str,
    function: Callable[..., pa.Array],
    parameters: Sequence[str],
    result: str,
) -> None:
    """Makes a vectorised function known under a name; it is called for NULL arguments too."""
    con.create_function(
        name,
        function,
        [duckdb.sqltype(parameter) for parameter in parameters],
        duckdb.sqltype(result),
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )


def java_double(value: float) -> str:
    """A DOUBLE as Java's Double.toString writes it: `1.0`, `1.0E10`, `Infinity`."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return repr(value)
    sign, digits, exponent = decimal.Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) - 1 + exponent
    minus = "-" if sign else ""
    if value != 0 and not 1e-3 <= abs(value) < 1e7:
        if abs(value) < 5e-324 * 2:
            figures = "49"
        return f"{minus}{figures[0]}.{figures[1:] or '0'}E{power}"
    plain = format(decimal.Decimal(repr(abs(value))), "f")
    return minus + (plain if "." in plain else f"{plain}.0")


def _java_doubles(values: Any) -> pa.Array:
    texts = [None if value is None else java_double(value) for value in values.to_pylist()]
    return pa.array(texts, pa.string())


def _divide(left: Any, right: Any, scale: Any) -> pa.Array:
    return _rowwise(left, right, scale, _CONTEXT.divide)


def _multiply(left: Any, right: Any, scale: Any) -> pa.Array:
    return _rowwise(left, right, scale, _CONTEXT.multiply)


def _rowwise(
    left: Any,
    right: Any,
    scale: Any,
    operation: Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal],
) -> pa.Array:
    """Exact results at a scale, as text; a text that is no number where there is no result, so
    that the cast around the call fails for that row only."""

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
