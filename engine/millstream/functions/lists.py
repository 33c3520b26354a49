"""Folds whose state is a list of input values: COLLECT_LIST, COLLECT_SET, EARLIEST, LATEST.

After each row, all of them return a range of one sequence per group: the stored elements, followed
by the accepted values. So index arithmetic builds the states, without a Python statement per row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.functions.fold import Array, Fold, Ints, starts_of

Accept = Callable[[Ints, Array, Sequence[Any]], np.ndarray[Any, Any]]
Cut = Callable[[Ints, Ints, Sequence[Any]], tuple[Ints, Ints]]


def list_fold(accept: Accept, cut: Cut) -> Fold:
    """A fold over one list column.

    `accept(group, values, constants)`: which candidates of the sequences (stored elements first)
    are accepted, as booleans. `cut(first, last, constants)`: the range of its sequence that each
    row returns, given the range of all elements accepted so far.
    """

    def fold(
        group: Ints,
        diffs: np.ndarray[Any, Any],
        args: Sequence[Array],
        seeds: Sequence[Array],
        constants: Sequence[Any],
    ) -> tuple[Array, ...]:
        stored = _combined(seeds[0])
        seed_lengths = pc.fill_null(pc.list_value_length(stored), 0)
        seed_lengths = np.asarray(seed_lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
        groups = len(seed_lengths)
        elements = stored.flatten()
        owner = np.concatenate([np.repeat(np.arange(groups), seed_lengths), group])
        incoming = _combined(args[0]).cast(elements.type)
        values = pa.concat_arrays([elements, incoming])
        order = np.argsort(owner, kind="stable")
        owner, values = owner[order], values.take(pa.array(order))
        is_row = order >= len(elements)
        joins = np.where(is_row, accept(owner, values, constants), True)
        joins[is_row] &= diffs > 0
        before = np.concatenate([[0], np.cumsum(joins)]).astype(np.int64)
        first = before[starts_of(owner, groups)[:-1]][group]
        last = before[1:][is_row]
        shown_from, shown_to = cut(first, last, constants)
        sequence = values.filter(pa.array(joins))
        return (_ranges(sequence, shown_from, shown_to, stored.type),)

    return fold


def _combined(array: Array) -> Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _ranges(sequence: Array, begin: Ints, end: Ints, list_type: Any) -> Array:
    """Lists `sequence[begin[i]:end[i]]`."""
    lengths = end - begin
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    total = int(offsets[-1])
    index = np.arange(total) - np.repeat(offsets[:-1] - begin, lengths)
    items = sequence.take(pa.array(index, pa.int64()))
    kind = pa.LargeListArray if pa.types.is_large_list(list_type) else pa.ListArray
    width = pa.int64() if kind is pa.LargeListArray else pa.int32()
    return kind.from_arrays(pa.array(offsets).cast(width), items).cast(list_type)


def everything(group: Ints, values: Array, constants: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Accepts every value, NULLs too."""
    return np.ones(len(values), bool)


def without_nulls(group: Ints, values: Array, constants: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Accepts values that are not NULL."""
    return np.array(values.is_valid().to_numpy(zero_copy_only=False), bool)


def unless_told(group: Ints, values: Array, constants: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Accepts NULLs only if the last constant (ignore NULLs) is false."""
    accept = without_nulls if constants[-1] else everything
    return accept(group, values, constants)


def first_occurrences(group: Ints, values: Array, constants: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Accepts a value (or NULL) the first time it occurs in its group."""
    accepted = np.zeros(len(values), bool)
    if len(values) == 0:
        return accepted
    codes = _codes(values)
    pairs = group * (int(codes.max()) + 1) + codes
    accepted[np.unique(pairs, return_index=True)[1]] = True
    return accepted


def _codes(values: Array) -> Ints:
    """A number per distinct value; nested values are distinguished by their printed form."""
    if pa.types.is_nested(values.type):
        printed = [repr(_unordered(value, values.type)) for value in values.to_pylist()]
        values = pa.array(printed, pa.string())
    encoded = values.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _unordered(value: Any, kind: Any) -> Any:
    """The value with the entries of maps sorted: their order does not distinguish maps."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return sorted((repr(key), repr(_unordered(item, kind.item_type))) for key, item in value)
    if pa.types.is_struct(kind):
        fields = (kind.field(place) for place in range(kind.num_fields))
        return [_unordered(value[field.name], field.type) for field in fields]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_unordered(item, kind.value_type) for item in value]
    return value


def room(constants: Sequence[Any]) -> int:
    """How many elements a collection may have; negative for no limit."""
    return int(constants[-1]) if constants else -1


def limited(first: Ints, last: Ints, constants: Sequence[Any]) -> tuple[Ints, Ints]:
    """All elements so far, up to the size limit."""
    most = room(constants)
    return first, last if most < 0 else np.minimum(last, first + most)


def earliest(first: Ints, last: Ints, constants: Sequence[Any]) -> tuple[Ints, Ints]:
    """The first n elements; n is the first constant."""
    return first, np.minimum(last, first + int(constants[0]))


def latest(first: Ints, last: Ints, constants: Sequence[Any]) -> tuple[Ints, Ints]:
    """The last n elements, oldest first."""
    return np.maximum(first, last - int(constants[0])), last
