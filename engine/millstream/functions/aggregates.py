"""The aggregate functions (reference: functions, section 9): counts, sums, extremes.

`list_aggregates` and `statistics` hold the others. In the templates `{over}` becomes `OVER {w}` in
the running form and nothing in the grouped one.
"""

from __future__ import annotations

from typing import Any

from millstream.functions.fold import average_fold, sum_fold
from millstream.functions.function import AggregateFunction, AggregateVariant, Example
from millstream.functions.list_aggregates import LIST_AGGREGATES
from millstream.functions.statistics import STATISTICS
from millstream.functions.statistics_folds import sum_list_fold

_ORDERED = (
    "INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP",
)  # fmt: skip


def _both(*templates: str, exact: tuple[str, ...] = ()) -> dict[str, Any]:
    """The running and the grouped form of templates that differ in `{over}` alone."""

    def form(texts: tuple[str, ...], over: str) -> tuple[str, ...]:
        return tuple(text.replace("{over}", over) for text in texts)

    return {
        "running": form(templates, "OVER {w}"),
        "grouped": form(templates, ""),
        "exact_running": form(exact, "OVER {w}"),
        "exact_grouped": form(exact, ""),
    }


def _wrapped(value: str, bits: int, sql_type: str) -> str:
    """A HUGEINT as a two's complement number of `bits` bits. Wrapping once, at the end, gives the
    same as wrapping after each addition."""
    half, whole = 2 ** (bits - 1), 2**bits
    return (
        f"CAST((({value} + {half}::HUGEINT) % {whole}::HUGEINT + {whole}::HUGEINT)"
        f" % {whole}::HUGEINT - {half}::HUGEINT AS {sql_type})"
    )


_COUNT_ALL = "coalesce({s0}, 0) + CAST(sum({d}) {over} AS BIGINT)"
_COUNT = (
    "coalesce({{s{0}}}, 0)"
    " + CAST(coalesce(sum({{d}}) FILTER (WHERE {{x0}} IS NOT NULL) {{over}}, 0) AS BIGINT)"
)
_SUM = "coalesce({s0}, 0)::HUGEINT + coalesce(sum({x0} * {d}) {over}, 0)"
_EXACT_SUM = "coalesce({s0}, 0)::HUGEINT + coalesce(sum({x0}::HUGEINT * {d}) {over}, 0)"
# A sum with more digits than the type has fails the CAST, in the exact program too, and so stops
# the query. That is ksqlDB's behaviour, which the conformance cases check: the function throws
# inside the aggregation, where errors do not become NULL as in scalar expressions. If the row were
# left out of the sum instead, every later result would be silently wrong.
_SUM_DECIMAL = (
    "CAST(coalesce({s0}, CAST(0 AS {t})) + coalesce("
    "sum(CASE WHEN {d} > 0 THEN {x0} WHEN {d} < 0 THEN -{x0} END) {over}, 0) AS {t})"
)
_MEAN = "CASE WHEN {s1} = 0 THEN 0e0 ELSE CAST({s0} AS DOUBLE) / {s1} END"
_ADDED = "{a0} + {b0}"
_ADDED_EXACTLY = "{a0}::HUGEINT + {b0}::HUGEINT"


def _integer_sum(name: str, bits: int, value: str = "{x0}") -> AggregateVariant:
    """The sum of a column, or of the lists in it (`value`)."""
    fast, exact = (text.replace("{x0}", value) for text in (_SUM, _EXACT_SUM))
    return AggregateVariant(
        f"{name} -> {name}" if value == "{x0}" else f"ARRAY<{name}> -> {name}",
        (name,),
        "{s0}",
        undo=True,
        merge=(_wrapped(_ADDED_EXACTLY, bits, name),),
        **_both(f"CAST({fast} AS {name})", exact=(_wrapped(exact, bits, name),)),
    )


COUNT = AggregateFunction(
    "COUNT",
    (
        AggregateVariant(
            "-> BIGINT", ("BIGINT",), "{s0}", undo=True, merge=(_ADDED,), **_both(_COUNT_ALL)
        ),
        AggregateVariant(
            "T -> BIGINT",
            ("BIGINT",),
            "{s0}",
            undo=True,
            merge=(_ADDED,),
            **_both(_COUNT.format(0)),
        ),
    ),
    "Counts rows; with an argument, the rows in which it is not NULL.",
    (Example("COUNT(*)", "3"), Example("COUNT(NULL)", "0")),
)

SUM = AggregateFunction(
    "SUM",
    (
        _integer_sum("INTEGER", 32),
        _integer_sum("BIGINT", 64),
        AggregateVariant(
            "DOUBLE -> DOUBLE", ("DOUBLE",), "{s0}", fold=sum_fold, undo=True, merge=(_ADDED,)
        ),
        AggregateVariant(
            "DECIMAL -> DECIMAL",
            ("{t0}",),
            "{s0}",
            undo=True,
            merge=(f"CAST({_ADDED} AS {{t}})",),
            **_both(_SUM_DECIMAL),
        ),
    ),
    "Adds up the values that are not NULL. Integers wrap around; a DECIMAL sum that needs more "
    "digits than its type has stops the query. DOUBLE values are added one by one in order.",
    (Example("SUM(v) over 1, 2, NULL", "3"), Example("SUM(v) over NULL", "0")),
)

SUM_LIST = AggregateFunction(
    "SUM_LIST",
    (
        _integer_sum("INTEGER", 32, "list_sum({x0})"),
        _integer_sum("BIGINT", 64, "list_sum({x0})"),
        AggregateVariant(
            "ARRAY<DOUBLE> -> DOUBLE",
            ("DOUBLE",),
            "{s0}",
            fold=sum_list_fold,
            undo=True,
            merge=(_ADDED,),
        ),
    ),
    "Adds up all elements of the arrays, as SUM does.",
    (
        Example("SUM_LIST(v) over ARRAY[1, 2], ARRAY[3]", "6"),
        Example("SUM_LIST(v) over NULL", "0"),
    ),
)

AVG = AggregateFunction(
    "AVG",
    (
        AggregateVariant(
            "BIGINT -> DOUBLE",
            ("BIGINT", "BIGINT"),
            _MEAN,
            undo=True,
            merge=(_wrapped(_ADDED_EXACTLY, 64, "BIGINT"), "{a1} + {b1}"),
            **_both(
                f"CAST({_SUM} AS BIGINT)",
                _COUNT.format(1),
                exact=(_wrapped(_EXACT_SUM, 64, "BIGINT"), _COUNT.format(1)),
            ),
        ),
        AggregateVariant(
            "DOUBLE -> DOUBLE",
            ("DOUBLE", "BIGINT"),
            _MEAN,
            fold=average_fold,
            undo=True,
            merge=(_ADDED, "{a1} + {b1}"),
        ),
    ),
    "The mean of the values that are not NULL; 0.0 without any. DECIMAL is taken as DOUBLE.",
    (Example("AVG(v) over 1, 2, NULL", "1.5"), Example("AVG(v) over NULL", "0.0")),
)


def _extreme(name: str, pick: str, description: str, example: str) -> AggregateFunction:
    return AggregateFunction(
        name,
        tuple(
            AggregateVariant(
                f"{sql_type} -> {sql_type}",
                ("{t0}",),
                "{s0}",
                merge=(f"{pick}({{a0}}, {{b0}})",),
                **_both(f"{pick}({{s0}}, {name.lower()}({{x0}}) {{over}})"),
            )
            for sql_type in _ORDERED
        ),
        description,
        (
            Example(f"{name}(v) over 2, NULL, 1, 3", example),
            Example(f"{name}(v) over NULL", "NULL"),
        ),
    )


MIN = _extreme("MIN", "least", "The smallest value that is not NULL.", "1")
MAX = _extreme("MAX", "greatest", "The greatest value that is not NULL.", "3")

AGGREGATES: tuple[AggregateFunction, ...] = (
    COUNT,
    SUM,
    SUM_LIST,
    AVG,
    MIN,
    MAX,
    *LIST_AGGREGATES,
    *STATISTICS,
)
"""Every aggregate function."""
