"""Calls of scalar functions: templates filled in, Python functions named."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.functions.function import Catalogue, ScalarFunction, Variant
from millstream.model.errors import StatementError
from millstream.model.expressions import Call, Expression, Literal, TableCall, walk
from millstream.model.physical import duckdb_type
from millstream.model.types import INTERVAL_UNIT, Lambda
from millstream.operators.sql import call

TEXT_MAX = 1 << 20
"""Characters of the DuckDB text of one call."""


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A vectorised function to register with DuckDB (type="arrow", null_handling="special")
    before a program runs; the types are DuckDB's."""

    name: str
    function: Callable[..., pa.Array]
    parameters: tuple[str, ...]
    result: str


def call_text(
    expression: Call,
    catalogue: Catalogue,
    arguments: Sequence[str],
    parts: Mapping[str, str],
    *,
    exact: bool,
) -> str:
    """A call as DuckDB text, from the texts of its arguments and the parts of its lambdas.

    What templates may name is told in `functions.function.Variant`.
    """
    function, variant = _variant(expression, catalogue)
    if variant.python is not None and (exact or variant.sql is None):
        return _python_call(expression, function, arguments)
    template = variant.exact if exact and variant.exact is not None else variant.sql
    assert template is not None, f"{expression.function} has no way to be computed"
    types = {f"t{place}": _type_text(item) for place, item in enumerate(expression.arguments)}
    text = template.format(
        *arguments,
        args=", ".join(arguments),
        rest=", ".join(arguments[1:]),
        t=duckdb_type(expression.type),
        **types,
        **parts,
    )
    if len(text) > TEXT_MAX:
        # Templates repeat their arguments: nested deep enough, a short text gets very long.
        raise StatementError(
            f"The call of {expression.function} is nested too deep to be computed.",
            hint="Compute its arguments in a query before.",
            code="E-SQL-LIMIT",
        )
    return f"({text})"


def python_functions(expression: Expression, catalogue: Catalogue) -> set[PythonFunction]:
    """The Python functions that the text of an expression calls."""
    found: set[PythonFunction] = set()
    for node in walk(expression):
        match node:
            case Call():
                python = _variant(node, catalogue)[1].python
                result = duckdb_type(node.type)
            case TableCall():
                python = rows_function(node, catalogue)
                result = f"{duckdb_type(node.type)}[]"
            case _:
                continue
        if python is not None:
            parameters = tuple(map(_type_text, node.arguments)) or ("INTEGER",)
            found.add(PythonFunction(_python_name(node), python, parameters, result))
    return found


def rows_function(expression: TableCall, catalogue: Catalogue) -> Callable[..., pa.Array] | None:
    """The Python function that gives the rows of a table function, if it is one."""
    python = catalogue.table[expression.function].python
    return python[expression.variant] if python else None


def rows_text(expression: TableCall, arguments: Sequence[str]) -> str:
    """The call of a table function in Python."""
    return call(_python_name(expression), *(arguments or ("1",)))


def is_volatile(expression: Expression, catalogue: Catalogue) -> bool:
    """Whether it gives another value each time, for which DuckDB has no TRY."""
    return any(
        isinstance(node, Call) and not catalogue.scalar[node.function].deterministic
        for node in walk(expression)
    )


def _variant(expression: Call, catalogue: Catalogue) -> tuple[ScalarFunction, Variant]:
    function = catalogue.scalar[expression.function]
    return function, function.variants[expression.variant]


def _python_call(expression: Call, function: ScalarFunction, texts: Sequence[str]) -> str:
    # Without arguments DuckDB would not tell how many rows there are.
    made = call(_python_name(expression), *(texts or ("1",)))
    checks = [
        f"{text} IS NOT NULL"
        for text, argument in zip(texts, expression.arguments, strict=True)
        if not (isinstance(argument, Literal) and argument.value is not None)
    ]
    if not (function.null_propagates and checks):
        return made
    return f"CASE WHEN {' AND '.join(checks)} THEN {made} END"


def _python_name(expression: Call | TableCall) -> str:
    """One name for each instance of a generic function."""
    types = ", ".join(_type_text(item) for item in (*expression.arguments, expression))
    digest = hashlib.sha256(types.encode()).hexdigest()[:8]
    return f"ms_{expression.function.lower()}_{expression.variant}_{digest}"


def _type_text(expression: Expression) -> str:
    kind = expression.type
    if kind is INTERVAL_UNIT or isinstance(kind, Lambda):
        return "VARCHAR"
    return duckdb_type(kind)
