"""Aggregates that summarise: variance, correlation, frequencies, largest values."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.functions.function import AggregateFunction, AggregateVariant, Example
from millstream.functions.statistics_folds import (
    attr_fold,
    correlation_fold,
    count_distinct_fold,
    histogram_fold,
    top_distinct_fold,
    top_fold,
    top_rows_fold,
    variance_fold,
)
from millstream.model.types import Array, Field, SqlType, Struct

_MERGED_COUNTS = "list_concat({a1}, {b1})"
_ATTR_OF_MERGED = (
    f"CASE WHEN len(list_filter({_MERGED_COUNTS}, lambda _e: _e.v IS DISTINCT FROM"
    f" ({_MERGED_COUNTS})[1].v)) = 0 THEN ({_MERGED_COUNTS})[1].v END"
)

ATTR = AggregateFunction(
    "ATTR",
    (
        AggregateVariant(
            "T -> T",
            ("{t0}", "STRUCT(v {t0}, n BIGINT)[]"),
            "{s0}",
            fold=attr_fold,
            undo=True,
            merge=(_ATTR_OF_MERGED, _MERGED_COUNTS),
        ),
    ),
    "The value that all rows have, or NULL if there are several; NULL counts as a value.",
    (Example("ATTR(v) over 5, 5", "5"), Example("ATTR(v) over 5, 6", "NULL")),
)

_MERGED_SET = "list_distinct(list_concat({a1}, {b1}))"

COUNT_DISTINCT = AggregateFunction(
    "COUNT_DISTINCT",
    (
        AggregateVariant(
            "T -> BIGINT",
            ("BIGINT", "{t0}[]"),
            "{s0}",
            fold=count_distinct_fold,
            merge=(f"CAST(len({_MERGED_SET}) AS BIGINT)", _MERGED_SET),
        ),
    ),
    "The number of distinct values that are not NULL.",
    (
        Example("COUNT_DISTINCT(v) over 5, 5, 6", "2"),
        Example("COUNT_DISTINCT(v) over NULL", "0"),
    ),
)

_ONE_SIDE = "CASE WHEN {a0} = 0 THEN {b2} WHEN {b0} = 0 THEN {a2} ELSE "
_APART = "({a1} / {a0} - {b1} / {b0})"
_MERGED_SQUARES = (
    _ONE_SIDE + f"{{a2}} + {{b2}} + {{a0}} * {{b0}} * {_APART} * {_APART} / ({{a0}} + {{b0}}) END"
)
_VARIANCE = "CASE WHEN {s0} < 2 THEN 0e0 ELSE {s2} / ({s0} - 1) END"


def _deviation(name: str, result: str, description: str, example: str) -> AggregateFunction:
    variant = AggregateVariant(
        "DOUBLE -> DOUBLE",
        ("BIGINT", "DOUBLE", "DOUBLE"),
        result,
        fold=variance_fold,
        undo=True,
        merge=("{a0} + {b0}", "{a1} + {b1}", _MERGED_SQUARES),
    )
    examples = (
        Example(f"{name}(v) over 2, 4", example),
        Example(f"{name}(v) over 2", "0.0"),
    )
    return AggregateFunction(name, (variant,), description, examples)


_SPREAD = "({s0} * {s%d} - {s%d} * {s%d})"
_X, _Y = _SPREAD % (3, 1, 1), _SPREAD % (4, 2, 2)
_CORRELATION = (
    f"CASE WHEN {{s0}} < 2 OR {_X} * {_Y} <= 0 THEN 'NaN'::DOUBLE"
    f" ELSE {_SPREAD % (5, 1, 2)} / sqrt({_X} * {_Y}) END"
)

CORRELATION = AggregateFunction(
    "CORRELATION",
    (
        AggregateVariant(
            "DOUBLE, DOUBLE -> DOUBLE",
            ("BIGINT", "DOUBLE", "DOUBLE", "DOUBLE", "DOUBLE", "DOUBLE"),
            _CORRELATION,
            fold=correlation_fold,
            undo=True,
            merge=tuple(f"{{a{i}}} + {{b{i}}}" for i in range(6)),
        ),
    ),
    "Pearson's correlation of two columns over the rows in which neither is NULL; NaN for fewer "
    "than two rows or where one does not vary.",
    (
        Example("CORRELATION(v, w) over (1, 2), (2, 4)", "1.0"),
        Example("CORRELATION(v, w) over (1, 2)", "NaN"),
    ),
)

HISTOGRAM = AggregateFunction(
    "HISTOGRAM",
    (
        AggregateVariant(
            "STRING -> MAP<STRING, BIGINT>",
            ("MAP(VARCHAR, BIGINT)",),
            "{s0}",
            fold=histogram_fold,
            undo=True,
            merge=(
                "map_from_entries(list_transform(map_keys(map_concat({a0}, {b0})), lambda _k:"
                " struct_pack(key := _k, value := coalesce({a0}[_k], 0) + coalesce({b0}[_k], 0))))",
            ),
        ),
    ),
    "How often each value came. Of more than 1000 values, new ones are ignored.",
    (
        Example("HISTOGRAM(v) over 'a', 'b', 'a'", "MAP('a':=2, 'b':=1)"),
        Example("HISTOGRAM(v) over NULL", "MAP()"),
    ),
)


def _rows_type(types: Sequence[SqlType]) -> SqlType:
    """The result of TOPK with further columns; the last argument is k."""
    sort, *others = types[:-1]
    columns = (Field(f"col{place}", other) for place, other in enumerate(others))
    return Array(Struct((Field("sort_col", sort), *columns)))


_BEST = "list_slice(list_reverse_sort(list_concat({a0}, {b0})), 1, {c0})"
_BEST_DISTINCT = "list_slice(list_reverse_sort(list_distinct(list_concat({a0}, {b0}))), 1, {c0})"
_ORDERED = (
    "INTEGER", "BIGINT", "DOUBLE", "STRING", "DECIMAL", "BYTES", "DATE", "TIME", "TIMESTAMP",
)  # fmt: skip

TOPK = AggregateFunction(
    "TOPK",
    (
        *(
            AggregateVariant(
                f"{kind}, LITERAL INTEGER k -> ARRAY<{kind}>",
                ("{t}",),
                "{s0}",
                fold=top_fold,
                constants=1,
                merge=(_BEST,),
            )
            for kind in _ORDERED
        ),
        *(
            AggregateVariant(
                f"{kind}, ANY, ANY..., LITERAL INTEGER k -> ARRAY<{kind}>",
                ("{t}",),
                "{s0}",
                fold=top_rows_fold,
                constants=1,
                merge=(_BEST,),
                result_type=_rows_type,
            )
            for kind in _ORDERED
        ),
    ),
    "The k largest values, the largest first; with further columns, structs of them.",
    (
        Example("TOPK(v, 2) over 3, 1, 3", "ARRAY[3, 3]"),
        Example("TOPK(v, 2) over NULL, 'a'", "ARRAY['a']"),
    ),
)

TOPKDISTINCT = AggregateFunction(
    "TOPKDISTINCT",
    tuple(
        AggregateVariant(
            f"{kind}, LITERAL INTEGER k -> ARRAY<{kind}>",
            ("{t}",),
            "{s0}",
            fold=top_distinct_fold,
            constants=1,
            merge=(_BEST_DISTINCT,),
        )
        for kind in _ORDERED
    ),
    "The k largest distinct values, the largest first.",
    (
        Example("TOPKDISTINCT(v, 2) over 3, 1, 3", "ARRAY[3, 1]"),
        Example("TOPKDISTINCT(v, 2) over NULL, 'a'", "ARRAY['a']"),
    ),
)

STATISTICS: tuple[AggregateFunction, ...] = (
    ATTR,
    COUNT_DISTINCT,
    _deviation(
        "STDDEV_SAMP",
        _VARIANCE,
        "The sample variance (the name is historical); 0.0 for fewer than two values.",
        "2.0",
    ),
    _deviation(
        "STDDEV_SAMPLE",
        f"sqrt({_VARIANCE})",
        "The sample standard deviation; 0.0 for fewer than two values.",
        "1.4142135623730951",
    ),
    CORRELATION,
    HISTOGRAM,
    TOPK,
    TOPKDISTINCT,
)
"""The aggregates of this file."""
