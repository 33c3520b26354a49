"""Python functions in two forms.

A function over Arrow arrays raises as soon as one of its rows fails: DuckDB's statement fails then,
as with any other expression. Its *attempt* never raises: it gives a struct for each row, of the
value and whether the row failed. Exact programs use attempts, so that one bad row does not make
DuckDB's TRY call the function again for each row by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import pyarrow as pa

VALUE, FAILED = "value", "failed"
"""The fields of an attempt."""


class RowFunction:
    """An Arrow function from a Python one over single rows.

    `computing` gives the Python function for a batch of so many rows. Where an argument is NULL the
    result is NULL without a call, unless `nulls`. Equal rows are computed once, if `once`. `given`
    makes the list of values of a column, `made` the array of a list of results; it gets the columns
    as well.
    """

    def __init__(
        self,
        computing: Callable[[int], Callable[..., Any]],
        made: Callable[[list[Any], Sequence[Any]], Any],
        *,
        given: Callable[[Any], list[Any]],
        nulls: bool,
        once: bool,
    ) -> None:
        self._computing = computing
        self._made = made
        self._given = given
        self._nulls = nulls
        self._once = once

    def __call__(self, *columns: Any) -> Any:
        """The results; raises what the Python function raises."""
        return self._made(self._results(self._computing(len(columns[0])), columns), columns)

    def attempt(self, *columns: Any) -> Any:
        """The attempt of each row."""
        compute = self._computing(len(columns[0]))
        wrong = object()

        def tried(*row: Any) -> Any:
            try:
                return compute(*row)
            except Exception:
                return wrong

        results = self._results(tried, columns)
        failed = [result is wrong for result in results]
        values = [None if result is wrong else result for result in results]
        return _struct(self._made(values, columns), failed)

    def _results(self, compute: Callable[..., Any], columns: Sequence[Any]) -> list[Any]:
        rows = zip(*map(self._given, columns), strict=True)
        nulls = self._nulls
        if not self._once:
            return [None if not nulls and None in row else compute(*row) for row in rows]
        known: dict[str, Any] = {}
        results: list[Any] = []
        for row in rows:
            if not nulls and None in row:
                results.append(None)
                continue
            key = repr(row)
            if key not in known:
                known[key] = compute(*row)
            results.append(known[key])
        return results


def _struct(values: Any, failed: Sequence[bool]) -> pa.StructArray:
    return pa.StructArray.from_arrays([values, pa.array(failed, pa.bool_())], [VALUE, FAILED])


@cache
def attempting(function: Callable[..., Any]) -> Callable[..., pa.StructArray]:
    """The attempt of any Arrow function. One that is no `RowFunction`, or whose results do not fit
    the type, is called once more row by row where it fails."""
    return partial(_attempted, function)


def _attempted(function: Callable[..., Any], *columns: Any) -> pa.StructArray:
    try:
        if isinstance(function, RowFunction):
            return function.attempt(*columns)
        return _struct(_whole(function(*columns)), [False] * len(columns[0]))
    except Exception:
        return _by_single_rows(function, columns)


def _by_single_rows(function: Callable[..., Any], columns: Sequence[Any]) -> pa.StructArray:
    made: list[Any] = []
    for at in range(len(columns[0])):
        try:
            made.append(_whole(function(*(column.slice(at, 1) for column in columns))))
        except Exception:
            made.append(None)
    kind = next((item.type for item in made if item is not None), pa.null())
    values = pa.concat_arrays([pa.nulls(1, kind) if item is None else item for item in made])
    return _struct(values, [item is None for item in made])


def _whole(values: Any) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


@cache
def forgiving(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with NULL for each row that it fails for."""
    attempt = attempting(function)

    def called(*columns: Any) -> Any:
        return attempt(*columns).field(VALUE)

    return called
