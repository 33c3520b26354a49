"""The folds of the aggregates that summarise: sums of lists, variance, correlation, frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.functions.fold import (
    Array,
    Floats,
    Ints,
    integers,
    numbers,
    present,
    python_fold,
    sequential_count,
    sequential_sum,
    signed,
    starts_of,
    weighted_sum,
)

Diffs = np.ndarray[Any, Any]
Constants = Sequence[Any]
HISTOGRAM_LIMIT = 1000


def _before(group: Ints, after: Any, seeds: Any) -> Any:
    """The value before each row, from those after each row and those before the batch."""
    previous = np.concatenate([after[:1], after[:-1]])
    starts = starts_of(group, len(seeds))
    filled = starts[:-1][np.diff(starts) > 0]
    previous[filled] = seeds[group[filled]]
    return previous


def variance_fold(
    group: Ints, diffs: Diffs, args: Sequence[Array], seeds: Sequence[Array], constants: Constants
) -> tuple[Array, ...]:
    """State (count, sum, sum of squared deviations), updated as by Youngs and Cramer (1971).

    To remove a value, ksqlDB adds it to count and sum a second time and subtracts, which rounds
    differently from a direct subtraction.
    """
    weight, values = present(diffs, args[0]), numbers(args[0])
    count_seeds, sum_seeds = integers(seeds[0]), numbers(seeds[1])
    count = sequential_count(group, weight, count_seeds)
    total = weighted_sum(group, weight, values, sum_seeds)
    leaving = weight < 0
    n = np.where(leaving, _before(group, count, count_seeds), count).astype(float)
    s = np.where(leaving, _before(group, total, sum_seeds) + values, total)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = values * (n + leaving) - s
        terms = np.where(n > 1, apart * apart / (n * (n - 1)), 0.0)
    deviations = weighted_sum(group, weight, terms, numbers(seeds[2]))
    return pa.array(count), pa.array(total), pa.array(deviations)


def correlation_fold(
    group: Ints, diffs: Diffs, args: Sequence[Array], seeds: Sequence[Array], constants: Constants
) -> tuple[Array, ...]:
    """State (count, sums of x, y, x*x, y*y, x*y)."""
    weight = present(diffs, *args)
    x, y = numbers(args[0]), numbers(args[1])
    sums = [
        weighted_sum(group, weight, terms, numbers(seed))
        for terms, seed in zip((x, y, x * x, y * y, x * y), seeds[1:], strict=True)
    ]
    count = sequential_count(group, weight, integers(seeds[0]))
    return pa.array(count), *map(pa.array, sums)


def sum_list_fold(
    group: Ints, diffs: Diffs, args: Sequence[Array], seeds: Sequence[Array], constants: Constants
) -> tuple[Array, ...]:
    """SUM_LIST(ARRAY<DOUBLE>): state (sum), every element added in order."""
    lengths = pc.fill_null(pc.list_value_length(args[0]), 0)
    lengths = np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
    elements = args[0].flatten()
    owner = np.repeat(group, lengths)
    weight = present(np.repeat(diffs, lengths), elements)
    initial: Floats = numbers(seeds[0])
    running = sequential_sum(owner, signed(weight, numbers(elements)), initial)
    ends = np.cumsum(lengths)
    begin = starts_of(owner, len(initial))[:-1][group]
    result = initial[group]
    reached = ends > begin
    result[reached] = running[ends[reached] - 1]
    return (pa.array(result),)


def _attr_step(
    state: dict[str, tuple[Any, int]], diff: int, values: tuple[Any, ...], constants: Constants
) -> dict[str, tuple[Any, int]]:
    key = repr(values[0])
    count = state.get(key, (None, 0))[1] + diff
    if count > 0:
        state[key] = (values[0], count)
    else:
        state.pop(key, None)
    return state


def _attr_thaw(stored: list[dict[str, Any]]) -> dict[str, tuple[Any, int]]:
    state: dict[str, tuple[Any, int]] = {}
    for entry in stored:
        _attr_step(state, entry["n"], (entry["v"],), ())
    return state


attr_fold = python_fold(
    lambda _: {},
    _attr_step,
    _attr_thaw,
    lambda state: [{"v": value, "n": count} for value, count in state.values()],
    lambda state: next(iter(state.values()))[0] if len(state) == 1 else None,
)
"""ATTR: state (value if there is one, counts)."""


def _distinct_step(
    state: set[Any], diff: int, values: tuple[Any, ...], constants: Constants
) -> set[Any]:
    if diff > 0 and values[0] is not None:
        state.add(values[0])
    return state


count_distinct_fold = python_fold(lambda _: set(), _distinct_step, set, list, len)
"""COUNT_DISTINCT: state (count, the values)."""


def _histogram_step(
    state: dict[str, int], diff: int, values: tuple[Any, ...], constants: Constants
) -> dict[str, int]:
    key = values[0]
    if key is None or (key not in state and (diff < 0 or len(state) >= HISTOGRAM_LIMIT)):
        return state
    count = state.get(key, 0) + diff
    if count > 0:
        state[key] = count
    else:
        del state[key]
    return state


histogram_fold = python_fold(lambda _: {}, _histogram_step, dict, lambda state: list(state.items()))
"""HISTOGRAM: state (counts by value)."""


def _insert(ranked: list[Any], key: Any, entry: Any, keys: list[Any], size: int) -> list[Any]:
    """Inserts an entry behind those that are not smaller, and keeps the first `size`."""
    place = next((i for i, other in enumerate(keys) if other < key), len(keys))
    return [*ranked[:place], entry, *ranked[place:]][:size]


def _top_step(
    state: list[Any], diff: int, values: tuple[Any, ...], constants: Constants
) -> list[Any]:
    if diff <= 0 or values[0] is None:
        return state
    return _insert(state, values[0], values[0], state, constants[-1])


def _top_distinct_step(
    state: list[Any], diff: int, values: tuple[Any, ...], constants: Constants
) -> list[Any]:
    return state if values[0] in state else _top_step(state, diff, values, constants)


def _top_rows_step(
    state: list[Any], diff: int, values: tuple[Any, ...], constants: Constants
) -> list[Any]:
    if diff <= 0 or values[0] is None:
        return state
    entry = {"sort_col": values[0]} | {f"col{i}": v for i, v in enumerate(values[1:])}
    keys = [row["sort_col"] for row in state]
    return _insert(state, values[0], entry, keys, constants[-1])


top_fold = python_fold(lambda _: [], _top_step, list, list)
top_distinct_fold = python_fold(lambda _: [], _top_distinct_step, list, list)
top_rows_fold = python_fold(lambda _: [], _top_rows_step, list, list)
