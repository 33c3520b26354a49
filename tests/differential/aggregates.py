"""The aggregates of cases: in the dialect, and for DuckDB as a function of the list of all
arguments of the group in order of arrival."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.differential.describe import Aggregated, Column, Expr
from tests.differential.expressions import expression
from tests.differential.rules import AMOUNT, INTS, NEARLY, SCALARS

SUMMED = ("INT", "BIGINT", "DOUBLE", AMOUNT)
ORDERED = (*SUMMED, "STRING", "DATE", "TIMESTAMP")


@dataclass(frozen=True, slots=True)
class Kind:
    """An aggregate function. `result` with {0} for the argument's type."""

    sql: str
    oracle: str
    arguments: tuple[str, ...]
    result: str
    undo: bool = False
    ordered: bool = False
    """The order of arrival matters."""


TOTALS = {
    "INT": "wrap32(coalesce(list_sum(list_transform({0}, lambda x: x::HUGEINT)), 0))",
    "BIGINT": "wrap64(coalesce(list_sum(list_transform({0}, lambda x: x::HUGEINT)), 0))",
    "DOUBLE": "coalesce(list_sum({0}), 0.0)",
    AMOUNT: "CAST(coalesce(list_sum({0}), 0) AS DECIMAL(8, 2))",
}
_FLOATS = "list_transform(seen({0}), lambda x: x::DOUBLE)"
# Distances from the first value have the digits that large values near each other lack.
_APART = "list_transform(seen({0}), lambda x: x::DOUBLE - seen({0})[1])"
_SPREAD = f"CASE WHEN len(seen({{0}})) < 2 THEN 0.0 ELSE list_var_samp({_APART}) END"
KINDS: tuple[Kind, ...] = (
    Kind("COUNT({0})", "len(seen({0}))", SCALARS, "BIGINT", undo=True),
    *(Kind("SUM({0})", text, (kind,), kind, undo=True) for kind, text in TOTALS.items()),
    Kind(
        "AVG({0})",
        f"coalesce(list_avg({_FLOATS}), 0.0)",
        ("INT", "DOUBLE"),
        "DOUBLE",
        undo=True,
    ),
    Kind("MIN({0})", "list_min(seen({0}))", ORDERED, "{0}"),
    Kind("MAX({0})", "list_max(seen({0}))", ORDERED, "{0}"),
    Kind("COUNT_DISTINCT({0})", "len(distinct_of(seen({0})))", SCALARS, "BIGINT"),
    Kind("COLLECT_LIST({0})", "{0}", SCALARS, "ARRAY<{0}>", ordered=True),
    Kind("COLLECT_SET({0})", "distinct_of({0})", SCALARS, "ARRAY<{0}>", ordered=True),
    Kind("LATEST_BY_OFFSET({0})", "seen({0})[-1]", SCALARS, "{0}", ordered=True),
    Kind("EARLIEST_BY_OFFSET({0})", "seen({0})[1]", SCALARS, "{0}", ordered=True),
    Kind("LATEST_BY_OFFSET({0}, FALSE)", "{0}[-1]", SCALARS, "{0}", ordered=True),
    Kind("EARLIEST_BY_OFFSET({0}, FALSE)", "{0}[1]", SCALARS, "{0}", ordered=True),
    Kind("LATEST_BY_OFFSET({0}, 2)", "seen({0})[-2:]", SCALARS, "ARRAY<{0}>", ordered=True),
    Kind("EARLIEST_BY_OFFSET({0}, 3, FALSE)", "{0}[1:3]", SCALARS, "ARRAY<{0}>", ordered=True),
    Kind("TOPK({0}, 2)", "list_reverse_sort(seen({0}))[1:2]", ("INT", "DOUBLE"), "ARRAY<{0}>"),
    Kind(
        "TOPKDISTINCT({0}, 2)",
        "list_reverse_sort(distinct_of(seen({0})))[1:2]",
        ("BIGINT", "STRING"),
        "ARRAY<{0}>",
    ),
    Kind("STDDEV_SAMP({0})", _SPREAD, ("DOUBLE",), NEARLY, undo=True),
    # Of values that leave, a rest of either sign is left near zero, in ksqlDB's steps too: its
    # root is not a number, or a thousand times the rest.
    Kind("STDDEV_SAMPLE({0})", f"sqrt({_SPREAD})", ("DOUBLE",), NEARLY),
    Kind("HISTOGRAM({0})", "counted({0})", ("STRING",), "MAP<STRING, BIGINT>", undo=True),
    Kind(
        "ATTR({0})",
        "CASE WHEN len(distinct_of({0})) = 1 THEN {0}[1] END",
        ("INT", "STRING"),
        "{0}",
        undo=True,
    ),
    Kind(
        "SUM_LIST({0})",
        "wrap32(coalesce(list_sum(list_transform(flatten(seen({0})), lambda x: x::HUGEINT)), 0))",
        (INTS,),
        "INT",
        undo=True,
    ),
)
TRIES = 100
"""After so many arguments that the columns do not allow, it is COUNT(*)."""
CEILING = 3
"""ksql.functions.collect_list.limit and …collect_set.limit, where a case sets them."""


def moderate(argument: Expr) -> Expr:
    """The argument where it is no larger than a thousand, else NULL: what is far larger than the
    rest takes digits of the sums away when it leaves, in ksqlDB's formulas too."""
    sql = "CASE WHEN (ABS({0}) <= 1E3) THEN {0} END"
    return Expr("DOUBLE", sql, "CASE WHEN abs({0}) <= 1000 THEN {0} END", (argument,))


def aggregated(
    rng: random.Random,
    name: str,
    columns: Sequence[Column],
    *,
    undo: bool,
    merged: bool,
    limited: bool,
) -> Aggregated:
    """A random aggregate. `undo`: over a table; `merged`: over sessions, where there is no order
    of arrival; `limited`: with the limit on collected elements."""
    count = Aggregated(name, "BIGINT", Expr("BOOLEAN", "*", "TRUE"), "COUNT({0})", "len({0})")
    if rng.random() < 0.2:
        return count
    fitting = [one for one in KINDS if (one.undo or not undo) and not (one.ordered and merged)]
    for _ in range(TRIES):
        kind = rng.choice(fitting)
        type_ = rng.choice(kind.arguments)
        argument = expression(rng, type_, columns, rng.choice((0, 0, 0, 1, 2)))
        if argument is None or not any(argument.columns()):
            continue
        if undo and type_ == "DOUBLE":
            argument = moderate(argument)
        collects = limited and kind.sql.startswith("COLLECT")
        oracle = f"({kind.oracle})[1:{CEILING}]" if collects else kind.oracle
        return Aggregated(name, kind.result.format(type_), argument, kind.sql, oracle)
    return count
