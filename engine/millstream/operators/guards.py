"""Expressions whose failure is NULL: the texts of exact programs."""

from __future__ import annotations

from collections.abc import Callable

from millstream.functions.function import Catalogue
from millstream.model.expressions import Call, ColumnRef, Expression, LambdaRef, walk
from millstream.operators.expressions import compile_expression
from millstream.operators.scalar import is_deterministic, is_volatile
from millstream.operators.sql import guarded
from millstream.plan.rewrite import substitute

_HOISTED = "_volatile"


def guarded_text(
    expression: Expression,
    catalogue: Catalogue,
    columns: Callable[[str], str],
    *,
    compiled: Callable[..., str] = compile_expression,
    shape: str = "%s",
) -> str:
    """`shape` with the exact text of an expression (made by `compiled`), NULL where that fails.

    DuckDB has no TRY for calls that give another value each time, such as RANDOM(). They are
    computed before, once a row; those over parameters of a lambda go without a guard.
    """
    calls: list[Call] = []

    def hoisted(part: Expression) -> Expression | None:
        if not isinstance(part, Call) or not is_volatile(part, catalogue):
            return None
        if is_deterministic(part, catalogue) or _reads_parameters(part):
            return None
        calls.append(part)
        return ColumnRef(f"{_HOISTED}{len(calls) - 1}", part.type)

    def lookup(name: str) -> str:
        return name if name.startswith(_HOISTED) else columns(name)

    stable = substitute(expression, hoisted)
    text = shape % compiled(stable, catalogue, exact=True, columns=lookup)
    if not is_volatile(stable, catalogue):
        text = guarded(text)
    for place, call in enumerate(calls):
        value = compile_expression(call, catalogue, exact=True, columns=columns)
        text = f"list_transform([{value}], lambda {_HOISTED}{place}: {text})[1]"
    return text


def _reads_parameters(call: Call) -> bool:
    return any(isinstance(part, LambdaRef) for part in walk(call))
