"""Calls of scalar functions: templates filled in, Python functions named."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.functions.attempts import FAILED, VALUE, attempting
from millstream.functions.function import Catalogue, ScalarFunction, Variant
from millstream.model import refusals
from millstream.model.expressions import Call, Expression, Literal, TableCall, walk
from millstream.model.physical import duckdb_type
from millstream.model.types import INTERVAL_UNIT, Lambda
from millstream.operators.sql import call, struct

TEXT_MAX = 1 << 20
"""The most characters of the DuckDB text of one call."""

_SKIPS = re.compile(r"\b(CASE|coalesce|nullif|AND|OR)\b")
"""What makes DuckDB skip parts of a template."""
_PLACE = re.compile(r"\{(\d+|args|rest)\}")


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A vectorised function to register with DuckDB (type="arrow", null_handling="special") before
    a program runs; the types are DuckDB's. `deterministic`: equal arguments give equal results, so
    that it may be called repeatedly."""

    name: str
    function: Callable[..., pa.Array]
    parameters: tuple[str, ...]
    result: str
    deterministic: bool = True


def call_text(
    expression: Call,
    catalogue: Catalogue,
    arguments: Sequence[str],
    parts: Mapping[str, str],
    *,
    exact: bool,
    failing: Sequence[int] = (),
    absorbed: bool = False,
    depth: int = 0,
) -> str:
    """A call as DuckDB text, from the texts of its arguments and the parts of its lambdas.

    `functions.function.Variant` documents the names in templates. `failing`: the indexes of the
    arguments that may raise; each of them is computed even if the result does not need it.
    `absorbed`: NULL and a failure differ, and DuckDB may stop at the first NULL argument.
    """
    function, variant = _variant(expression, catalogue)
    if variant.python is not None and (exact or variant.sql is None):
        # The NULL checks of `_python_call` stop at the first NULL: only the first one always runs.
        checked = [place for place, item in enumerate(expression.arguments) if _may_be_null(item)]
        skipped = [place for place in failing if place not in checked[:1]]
        given, texts = bound(arguments, skipped if function.null_propagates else (), depth)
        made = _python_call(expression, function, texts, _python_name(expression))
        return with_bound(made, given, depth)
    template = variant.exact if exact and variant.exact is not None else variant.sql
    assert template is not None, f"{expression.function} has no way to be computed"
    given, arguments = bound(arguments, _skipped(template, failing, absorbed), depth)
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
        # Templates repeat their arguments: deep nesting makes a short text very long.
        raise refusals.CALL_TOO_DEEP(
            function=expression.function,
            hint="Compute its arguments in a query before.",
            code="E-SQL-LIMIT",
        )
    return with_bound(f"({text})", given, depth)


def _skipped(template: str, failing: Sequence[int], absorbed: bool) -> Sequence[int]:
    """The arguments that DuckDB may skip: not the one that the template begins with."""
    if not failing or not (absorbed or _SKIPS.search(template)):
        return ()
    found = _PLACE.search(template)
    named = found[1] if found else ""
    first = {"args": "0", "rest": "1"}.get(named, named)
    return [place for place in failing if str(place) != first]


def bound(
    arguments: Sequence[str], places: Sequence[int], depth: int
) -> tuple[list[tuple[str, str]], list[str]]:
    """Names bound to the texts of some arguments, and all arguments with these names."""
    given = [(f"a{place}", arguments[place]) for place in places]
    named = {place: f"_a{depth}.a{place}" for place in places}
    return given, [named.get(place, text) for place, text in enumerate(arguments)]


def with_bound(text: str, given: list[tuple[str, str]], depth: int) -> str:
    """`text` over arguments that are computed once, before it. A lambda is a barrier: DuckDB moves
    nothing of its list into its body."""
    if not given:
        return text
    return f"list_transform([{struct(given)}], lambda _a{depth}: {text})[1]"


def in_python(expression: Call, catalogue: Catalogue) -> bool:
    """Whether exact programs compute a call in Python."""
    return _variant(expression, catalogue)[1].python is not None


def attempt_text(expression: Call, catalogue: Catalogue, arguments: Sequence[str]) -> str:
    """The attempt of a call in Python over arguments that do not raise; NULL where the result is
    NULL without a call."""
    function, _ = _variant(expression, catalogue)
    return _python_call(expression, function, arguments, _attempt_name(expression))


def python_functions(expression: Expression, catalogue: Catalogue) -> set[PythonFunction]:
    """The Python functions that the text of an expression calls, and their attempts."""
    found: set[PythonFunction] = set()
    for node in walk(expression):
        deterministic = True
        match node:
            case Call():
                python = _variant(node, catalogue)[1].python
                deterministic = is_deterministic(node, catalogue)
                result = duckdb_type(node.type)
            case TableCall():
                python = rows_function(node, catalogue)
                result = f"{duckdb_type(node.type)}[]"
            case _:
                continue
        if python is not None:
            parameters = tuple(map(_type_text, node.arguments)) or ("INTEGER",)
            name = _python_name(node)
            found.add(PythonFunction(name, python, parameters, result, deterministic))
            if deterministic:
                attempt = f'STRUCT("{VALUE}" {result}, "{FAILED}" BOOLEAN)'
                name = _attempt_name(node)
                found.add(PythonFunction(name, attempting(python), parameters, attempt))
    return found


def rows_function(expression: TableCall, catalogue: Catalogue) -> Callable[..., pa.Array] | None:
    """The Python function that returns the rows of a table function, if it has one."""
    python = catalogue.table[expression.function].python
    return python[expression.variant] if python else None


def rows_text(expression: TableCall, arguments: Sequence[str], *, exact: bool) -> str:
    """The call of a table function in Python; where it fails, exact programs have NULL."""
    if exact:
        return f'({call(_attempt_name(expression), *(arguments or ("1",)))})."{VALUE}"'
    return call(_python_name(expression), *(arguments or ("1",)))


def is_volatile(expression: Expression, catalogue: Catalogue) -> bool:
    """Whether it is non-deterministic, in which case DuckDB has no TRY for it."""
    return any(
        isinstance(node, Call) and not is_deterministic(node, catalogue)
        for node in walk(expression)
    )


def is_deterministic(expression: Call, catalogue: Catalogue) -> bool:
    """Whether the call itself is deterministic."""
    function, variant = _variant(expression, catalogue)
    return function.deterministic and variant.deterministic


def _variant(expression: Call, catalogue: Catalogue) -> tuple[ScalarFunction, Variant]:
    function = catalogue.scalar[expression.function]
    return function, function.variants[expression.variant]


def _python_call(
    expression: Call, function: ScalarFunction, texts: Sequence[str], name: str
) -> str:
    # Without arguments DuckDB would not pass the number of rows.
    made = call(name, *(texts or ("1",)))
    checks = [
        f"{text} IS NOT NULL"
        for text, argument in zip(texts, expression.arguments, strict=True)
        if _may_be_null(argument)
    ]
    if not (function.null_propagates and checks):
        return made
    return f"CASE WHEN {' AND '.join(checks)} THEN {made} END"


def _may_be_null(argument: Expression) -> bool:
    return not isinstance(argument, Literal) or argument.value is None


def _python_name(expression: Call | TableCall) -> str:
    """One name for each instance of a generic function."""
    types = ", ".join(_type_text(item) for item in (*expression.arguments, expression))
    digest = hashlib.sha256(types.encode()).hexdigest()[:8]
    return f"ms_{expression.function.lower()}_{expression.variant}_{digest}"


def _attempt_name(expression: Call | TableCall) -> str:
    return f"{_python_name(expression)}_attempt"


def _type_text(expression: Expression) -> str:
    kind = expression.type
    if kind is INTERVAL_UNIT or isinstance(kind, Lambda):
        return "VARCHAR"
    return duckdb_type(kind)
