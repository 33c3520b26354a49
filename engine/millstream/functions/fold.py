"""Folds: running aggregates whose state SQL windows cannot compute exactly.

A fold is `fold(group, diffs, args, seeds, constants) -> states`:

* `group`: int64, one dense group id per row, ascending; the rows of one group are in `$seq` order;
* `diffs`: int8, +1 for a row to add, -1 for one to remove, 0 for one without effect;
* `args`: one Arrow array per argument column, a value per row;
* `seeds`: one Arrow array per state column, a value per *group* (NULL for a new group);
* `constants`: the literal arguments;
* `states`: one Arrow array per state column (types of the seeds), a value per row: the state after
  that row. The state after the last row of a group is stored.

Cutting a batch anywhere and seeding the rest with the last state returns the same states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = Any  # pyarrow ships no types
Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Fold = Callable[
    [Ints, np.ndarray[Any, Any], Sequence[Array], Sequence[Array], Sequence[Any]],
    tuple[Array, ...],
]
LONG_GROUP = 64
"""From this many rows on, a group is summed separately instead of in the rounds."""


def starts_of(group: Ints, groups: int) -> Ints:
    """Row index at which each group starts, followed by the number of rows (groups + 1 values)."""
    return np.searchsorted(group, np.arange(groups + 1)).astype(np.int64)


def sequential_sum(group: Ints, terms: Floats, seeds: Floats) -> Floats:
    """Running sums `((seed + t1) + t2) + …` of each group, bit for bit equal to one addition at a
    time.

    Rounds over the i-th row of every group at once; long groups by `cumsum`, which adds in order.
    """
    if len(group) == 0:
        return np.empty(0)
    starts = starts_of(group, len(seeds))
    lengths = np.diff(starts)
    result = np.empty(len(group))
    short = np.flatnonzero((lengths > 0) & (lengths < LONG_GROUP))
    totals = seeds[short]
    position = 0
    while len(short):
        rows = starts[short] + position
        totals = totals + terms[rows]
        result[rows] = totals
        position += 1
        going = lengths[short] > position
        short, totals = short[going], totals[going]
    for index in np.flatnonzero(lengths >= LONG_GROUP):
        begin, end = starts[index], starts[index + 1]
        with_seed = np.concatenate([seeds[index : index + 1], terms[begin:end]])
        result[begin:end] = np.cumsum(with_seed)[1:]
    return result


def sequential_count(group: Ints, terms: Ints, seeds: Ints) -> Ints:
    """Running integer sums of each group; wraps at 64 bits like the Java original."""
    if len(group) == 0:
        return np.empty(0, np.int64)
    starts = starts_of(group, len(seeds))
    with np.errstate(over="ignore"):
        total = np.cumsum(terms, dtype=np.int64)
        before = np.concatenate([[0], total]).astype(np.int64)[starts[:-1]]
        return np.asarray(total - before[group] + seeds[group], dtype=np.int64)


def numbers(array: Array, fill: float = 0.0) -> Floats:
    """An Arrow number column as doubles, NULL as `fill`."""
    filled = pc.fill_null(pc.cast(array, pa.float64()), fill)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.float64)


def integers(array: Array) -> Ints:
    """An Arrow integer column as int64, NULL as 0."""
    filled = pc.fill_null(pc.cast(array, pa.int64()), 0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


def present(diffs: np.ndarray[Any, Any], *args: Array) -> Ints:
    """The diffs, 0 where any argument is NULL."""
    weight = diffs.astype(np.int64)
    for arg in args:
        weight = np.where(arg.is_valid().to_numpy(zero_copy_only=False), weight, 0)
    return weight


def signed(weight: Ints, values: Floats) -> Floats:
    """`weight * values` for weights -1, 0, +1; a weight of 0 gives 0.0 even for NaN, infinity."""
    return np.where(weight == 0, 0.0, np.where(weight < 0, -values, values))


def weighted_sum(group: Ints, weight: Ints, values: Floats, seeds: Floats) -> Floats:
    """Sequential sum in which rows of weight -1 are subtracted and rows of weight 0 skipped."""
    return sequential_sum(group, signed(weight, values), seeds)


def sum_fold(
    group: Ints,
    diffs: np.ndarray[Any, Any],
    args: Sequence[Array],
    seeds: Sequence[Array],
    constants: Sequence[Any],
) -> tuple[Array, ...]:
    """SUM(DOUBLE): state (sum)."""
    weight = present(diffs, args[0])
    return (pa.array(weighted_sum(group, weight, numbers(args[0]), numbers(seeds[0]))),)


def average_fold(
    group: Ints,
    diffs: np.ndarray[Any, Any],
    args: Sequence[Array],
    seeds: Sequence[Array],
    constants: Sequence[Any],
) -> tuple[Array, ...]:
    """AVG(DOUBLE): state (sum, count)."""
    weight = present(diffs, args[0])
    return (
        pa.array(weighted_sum(group, weight, numbers(args[0]), numbers(seeds[0]))),
        pa.array(sequential_count(group, weight, integers(seeds[1]))),
    )


def python_fold(
    initial: Callable[[Sequence[Any]], Any],
    step: Callable[[Any, int, tuple[Any, ...], Sequence[Any]], Any],
    thaw: Callable[[Any], Any],
    freeze: Callable[[Any], Any],
    shown: Callable[[Any], Any] | None = None,
) -> Fold:
    """A fold by a Python function per row, for states that are collections; linear in the rows.

    `initial(constants)` is the working state of a new group; `step(state, diff, values, constants)`
    returns the next one and may change the old one in place. `thaw` converts a stored value to a
    working state, `freeze` does the reverse and copies. With `shown` there are two state columns:
    the input of the result and the stored value. The latter is set only in the last row of each
    group, so that a large state is not copied for every row. Not for scalar states: use windows or
    sums.
    """

    def fold(
        group: Ints,
        diffs: np.ndarray[Any, Any],
        args: Sequence[Array],
        seeds: Sequence[Array],
        constants: Sequence[Any],
    ) -> tuple[Array, ...]:
        stored = seeds[-1].to_pylist()
        columns = [arg.to_pylist() for arg in args]
        last = np.concatenate([group[1:] != group[:-1], [True]]).tolist()
        frozen: list[Any] = []
        visible: list[Any] = []
        current, state = -1, None
        for row, (index, diff) in enumerate(zip(group.tolist(), diffs.tolist(), strict=True)):
            if index != current:
                current = index
                seed = stored[index]
                state = initial(constants) if seed is None else thaw(seed)
            if diff:
                state = step(state, diff, tuple(column[row] for column in columns), constants)
            frozen.append(freeze(state) if shown is None or last[row] else None)
            if shown is not None:
                visible.append(shown(state))
        states = pa.array(frozen, type=seeds[-1].type)
        return (states,) if shown is None else (pa.array(visible, type=seeds[0].type), states)

    return fold
