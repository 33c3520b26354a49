"""Shorthand for the tables of this folder.

Conventions of the templates: no braces except placeholders; lambda parameters start with an
underscore and no template puts an argument inside a lambda body that it could capture; a failing
row raises through a cast of its message to a number, since DuckDB's `error()` cannot stand inside
TRY.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from millstream.functions.attempts import RowFunction
from millstream.functions.function import Example, ScalarFunction, Variant


def function(
    name: str,
    category: str,
    variants: Sequence[Variant | tuple[str, str]],
    description: str,
    examples: Sequence[tuple[str, str]],
    *,
    null_propagates: bool = True,
    deterministic: bool = True,
    check: Callable[[Sequence[Any]], None] | None = None,
) -> ScalarFunction:
    """A row of the catalogue; a variant may be just (signature, DuckDB template)."""
    return ScalarFunction(
        name,
        category,
        tuple(v if isinstance(v, Variant) else Variant(v[0], v[1]) for v in variants),
        description,
        tuple(Example(expression, result) for expression, result in examples),
        null_propagates,
        deterministic,
        check,
    )


def let(name: str, value: str, body: str) -> str:
    """SQL that computes `value` once and calls it `name` in `body`."""
    return f"list_transform([{value}], lambda {name}: {body})[1]"


def joined(texts: str, delimiter: str) -> str:
    """SQL of a list of texts joined into one; the delimiter need not be a constant."""
    whole = "list_reduce(_t, lambda _a, _b: _a || _s || _b)"
    some = let("_t", texts, f"CASE WHEN len(_t) = 0 THEN '' ELSE {whole} END")
    return let("_s", delimiter, some)


def rowwise(
    compute: Callable[..., Any],
    result: Any = None,
    *,
    nulls: bool = False,
    given: Callable[[Any], Any] | None = None,
    made: Callable[[Any], Any] | None = None,
) -> Callable[..., Any]:
    """An Arrow function from a Python one, for what neither SQL nor Arrow can express.

    A row for which `compute` raises fails. The result is NULL where an argument is NULL, unless
    `nulls`. Equal rows are computed once per call. `result` is the Arrow type; None: that of the
    first argument. `given` changes the columns before, `made` the results afterwards.
    """
    return per_batch(lambda rows: compute, result, nulls=nulls, given=given, made=made)


def per_batch(
    computing: Callable[[int], Callable[..., Any]],
    result: Any = None,
    *,
    nulls: bool = False,
    given: Callable[[Any], Any] | None = None,
    made: Callable[[Any], Any] | None = None,
) -> Callable[..., Any]:
    """As `rowwise`, of a function that is made for each batch of so many rows."""

    def values(column: Any) -> list[Any]:
        found: list[Any] = (column if given is None else given(column)).to_pylist()
        return found

    def array(results: list[Any], columns: Sequence[Any]) -> Any:
        whole = pa.array(results, type=columns[0].type if result is None else result)
        return whole if made is None else made(whole)

    return RowFunction(computing, array, given=values, nulls=nulls, once=True)
