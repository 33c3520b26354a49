"""Aggregates that store input values: COLLECT_LIST, COLLECT_SET, EARLIEST_ and LATEST_BY_OFFSET."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.functions.fold import python_fold
from millstream.functions.function import AggregateFunction, AggregateVariant, Example
from millstream.functions.lists import (
    earliest,
    everything,
    first_occurrences,
    latest,
    limited,
    list_fold,
    room,
    unless_told,
    without_nulls,
)


def _append_or_remove(
    state: list[Any], diff: int, values: tuple[Any, ...], constants: Sequence[Any]
) -> list[Any]:
    """Appends the value up to the size limit, or removes its last occurrence."""
    if diff > 0:
        if not 0 <= room(constants) <= len(state):
            state.append(values[0])
    elif values[0] in state:
        del state[len(state) - 1 - state[::-1].index(values[0])]
    return state


COLLECT_LIST = AggregateFunction(
    "COLLECT_LIST",
    (
        AggregateVariant(
            "T -> ARRAY<T>",
            ("{t0}[]",),
            "{s0}",
            fold=list_fold(everything, limited),
            undo=True,
            undo_fold=python_fold(lambda _: [], _append_or_remove, list, list),
            merge=("list_slice(list_concat({a0}, {b0}), 1, {c0})",),
            setting="ksql.functions.collect_list.limit",
        ),
    ),
    "All values in the order of processing, NULLs too.",
    (
        Example("COLLECT_LIST(v) over 2, NULL, 2", "ARRAY[2, NULL, 2]"),
        Example("COLLECT_LIST(v) over 'a'", "ARRAY['a']"),
    ),
)

COLLECT_SET = AggregateFunction(
    "COLLECT_SET",
    (
        AggregateVariant(
            "T -> ARRAY<T>",
            ("{t0}[]",),
            "{s0}",
            fold=list_fold(first_occurrences, limited),
            merge=(
                "list_slice(list_concat({a0}, list_filter({b0},"
                " lambda _e: list_position({a0}, _e) IS NULL)), 1, {c0})",
            ),
            setting="ksql.functions.collect_set.limit",
        ),
    ),
    "The distinct values in the order in which they first came; NULL at most once.",
    (
        Example("COLLECT_SET(v) over 2, 1, 2, NULL", "ARRAY[2, 1, NULL]"),
        Example("COLLECT_SET(v) over 'a'", "ARRAY['a']"),
    ),
)

_LATEST = "coalesce(last_value({x0} IGNORE NULLS) OVER {w}, {s0})"
_LATEST_GROUPED = 'coalesce(arg_max({x0}, "$seq"), {s0})'
_EARLIEST = "coalesce({s0}, first_value({x0} IGNORE NULLS) OVER {w})"
_EARLIEST_GROUPED = 'coalesce({s0}, arg_min({x0}, "$seq"))'
_EXAMPLES = "over 1, NULL, 4, 6"

LATEST_BY_OFFSET = AggregateFunction(
    "LATEST_BY_OFFSET",
    (
        AggregateVariant(
            "T -> T",
            ("{t0}",),
            "{s0}",
            running=(_LATEST,),
            grouped=(_LATEST_GROUPED,),
            merge=("coalesce({b0}, {a0})",),
        ),
        AggregateVariant(
            "T, LITERAL BOOLEAN ignoreNulls -> T",
            ("{t0}",),
            "{s0}",
            running=(f"CASE WHEN {{c0}} THEN {_LATEST} ELSE {{x0}} END",),
            grouped=(
                f'CASE WHEN {{c0}} THEN {_LATEST_GROUPED} ELSE arg_max_null({{x0}}, "$seq") END',
            ),
            constants=1,
            merge=("CASE WHEN {c0} THEN coalesce({b0}, {a0}) ELSE {b0} END",),
        ),
        AggregateVariant(
            "T, LITERAL INTEGER n -> ARRAY<T>",
            ("{t0}[]",),
            "{s0}",
            fold=list_fold(without_nulls, latest),
            constants=1,
            merge=("list_slice(list_concat({a0}, {b0}), -({c0}), -1)",),
        ),
        AggregateVariant(
            "T, LITERAL INTEGER n, LITERAL BOOLEAN ignoreNulls -> ARRAY<T>",
            ("{t0}[]",),
            "{s0}",
            fold=list_fold(unless_told, latest),
            constants=2,
            merge=("list_slice(list_concat({a0}, {b0}), -({c0}), -1)",),
        ),
    ),
    "The value of the row processed last, or the values of the last n rows, oldest first. NULLs "
    "are passed over unless ignoreNulls is FALSE.",
    (
        Example(f"LATEST_BY_OFFSET(v) {_EXAMPLES}", "6"),
        Example(f"LATEST_BY_OFFSET(v, 2) {_EXAMPLES}", "ARRAY[4, 6]"),
        Example(f"LATEST_BY_OFFSET(v, 3, FALSE) {_EXAMPLES}", "ARRAY[NULL, 4, 6]"),
        Example("LATEST_BY_OFFSET(v, FALSE) over 1, NULL", "NULL"),
    ),
)

EARLIEST_BY_OFFSET = AggregateFunction(
    "EARLIEST_BY_OFFSET",
    (
        AggregateVariant(
            "T -> T",
            ("{t0}",),
            "{s0}",
            running=(_EARLIEST,),
            grouped=(_EARLIEST_GROUPED,),
            merge=("coalesce({a0}, {b0})",),
        ),
        AggregateVariant(
            "T, LITERAL BOOLEAN ignoreNulls -> T",
            ("{t0}", "BOOLEAN"),
            "{s0}",
            running=(
                f"CASE WHEN {{c0}} THEN {_EARLIEST} WHEN {{s1}} THEN {{s0}}"
                " ELSE first_value({x0}) OVER {w} END",
                "TRUE",
            ),
            grouped=(
                f"CASE WHEN {{c0}} THEN {_EARLIEST_GROUPED} WHEN {{s1}} THEN {{s0}}"
                ' ELSE arg_min_null({x0}, "$seq") END',
                "TRUE",
            ),
            constants=1,
            merge=("CASE WHEN {c0} THEN coalesce({a0}, {b0}) ELSE {a0} END", "TRUE"),
        ),
        AggregateVariant(
            "T, LITERAL INTEGER n -> ARRAY<T>",
            ("{t0}[]",),
            "{s0}",
            fold=list_fold(without_nulls, earliest),
            constants=1,
            merge=("list_slice(list_concat({a0}, {b0}), 1, {c0})",),
        ),
        AggregateVariant(
            "T, LITERAL INTEGER n, LITERAL BOOLEAN ignoreNulls -> ARRAY<T>",
            ("{t0}[]",),
            "{s0}",
            fold=list_fold(unless_told, earliest),
            constants=2,
            merge=("list_slice(list_concat({a0}, {b0}), 1, {c0})",),
        ),
    ),
    "The value of the row processed first, or the values of the first n rows. NULLs are passed "
    "over unless ignoreNulls is FALSE.",
    (
        Example(f"EARLIEST_BY_OFFSET(v) {_EXAMPLES}", "1"),
        Example(f"EARLIEST_BY_OFFSET(v, 2) {_EXAMPLES}", "ARRAY[1, 4]"),
        Example(f"EARLIEST_BY_OFFSET(v, 2, FALSE) {_EXAMPLES}", "ARRAY[1, NULL]"),
        Example("EARLIEST_BY_OFFSET(v, FALSE) over NULL, 1", "NULL"),
    ),
)

LIST_AGGREGATES: tuple[AggregateFunction, ...] = (
    COLLECT_LIST,
    COLLECT_SET,
    EARLIEST_BY_OFFSET,
    LATEST_BY_OFFSET,
)
"""The aggregates of this file."""
