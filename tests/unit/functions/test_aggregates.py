"""The aggregates: values after each row, the grouped form, undo, and indifference to batching."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.functions.catalogue import builtin_catalogue
from tests.draws import draws
from tests.unit.functions.running import Row, Running

AGGREGATES = builtin_catalogue().aggregate


def run(
    name: str,
    variant: int,
    types: list[str],
    result: str,
    values: list[Any],
    constants: tuple[Any, ...] = (),
) -> list[Any]:
    """Results after each value, the values being one group's."""
    running = Running(AGGREGATES[name].variants[variant], types, result, constants)
    rows: list[Row] = [("k", 1, v if isinstance(v, tuple) else (v,)) for v in values]
    return running.batch(rows)


@pytest.mark.parametrize(
    ("name", "variant", "types", "result", "values", "constants", "expected"),
    [
        ("COUNT", 0, [], "BIGINT", [(), ()], (), [1, 2]),
        ("COUNT", 1, ["VARCHAR"], "BIGINT", ["a", None, "b"], (), [1, 1, 2]),
        ("SUM", 0, ["INTEGER"], "INTEGER", [None, 2**31 - 1, 2], (), [0, 2**31 - 1, 1 - 2**31]),
        ("SUM", 1, ["BIGINT"], "BIGINT", [2**63 - 1, 1], (), [2**63 - 1, -(2**63)]),
        (
            "SUM",
            2,
            ["DOUBLE"],
            "DOUBLE",
            [0.1, None, 0.2, 0.3],
            (),
            [0.1, 0.1, 0.1 + 0.2, 0.6000000000000001],
        ),
        (
            "SUM",
            3,
            ["DECIMAL(4,1)"],
            "DECIMAL(4,1)",
            ["5.4", "100.1"],
            (),
            [Decimal("5.4"), Decimal("105.5")],
        ),
        ("AVG", 0, ["BIGINT"], "DOUBLE", [None, 1, 2], (), [0.0, 1.0, 1.5]),
        ("AVG", 1, ["DOUBLE"], "DOUBLE", [None, 1.5, 2.5], (), [0.0, 1.5, 2.0]),
        ("MIN", 0, ["INTEGER"], "INTEGER", [None, 3, 1, 2], (), [None, 3, 1, 1]),
        ("MAX", 4, ["VARCHAR"], "VARCHAR", ["b", None, "a", "c"], (), ["b", "b", "b", "c"]),
        (
            "COLLECT_LIST",
            0,
            ["INTEGER"],
            "INTEGER[]",
            [1, None, 1],
            (),
            [[1], [1, None], [1, None, 1]],
        ),
        (
            "COLLECT_SET",
            0,
            ["INTEGER[]"],
            "INTEGER[][]",
            [[1], None, [1], None],
            (),
            [[[1]], [[1], None], [[1], None], [[1], None]],
        ),
        (
            "LATEST_BY_OFFSET",
            0,
            ["INTEGER"],
            "INTEGER",
            [None, 12, None, 13],
            (),
            [None, 12, 12, 13],
        ),
        ("LATEST_BY_OFFSET", 1, ["INTEGER"], "INTEGER", [12, None, 13], (False,), [12, None, 13]),
        (
            "LATEST_BY_OFFSET",
            2,
            ["INTEGER"],
            "INTEGER[]",
            [None, 1, 2, 3],
            (2,),
            [[], [1], [1, 2], [2, 3]],
        ),
        (
            "LATEST_BY_OFFSET",
            3,
            ["INTEGER"],
            "INTEGER[]",
            [1, None, 3],
            (2, False),
            [[1], [1, None], [None, 3]],
        ),
        ("EARLIEST_BY_OFFSET", 0, ["INTEGER"], "INTEGER", [None, 12, 13], (), [None, 12, 12]),
        ("EARLIEST_BY_OFFSET", 1, ["INTEGER"], "INTEGER", [None, 12], (False,), [None, None]),
        (
            "EARLIEST_BY_OFFSET",
            2,
            ["INTEGER"],
            "INTEGER[]",
            [None, 1, 2, 3],
            (2,),
            [[], [1], [1, 2], [1, 2]],
        ),
        ("SUM_LIST", 0, ["INTEGER[]"], "INTEGER", [[1, None], None, [], [2, 3]], (), [1, 1, 1, 6]),
        (
            "SUM_LIST",
            2,
            ["DOUBLE[]"],
            "DOUBLE",
            [None, [0.1, None, 0.2], [], [0.3]],
            (),
            [0.0, 0.1 + 0.2, 0.1 + 0.2, 0.1 + 0.2 + 0.3],
        ),
        ("ATTR", 0, ["VARCHAR"], "VARCHAR", ["a", "a", None, "b"], (), ["a", "a", None, None]),
        ("COUNT_DISTINCT", 0, ["VARCHAR"], "BIGINT", ["a", None, "b", "a"], (), [1, 1, 2, 2]),
        ("STDDEV_SAMP", 0, ["DOUBLE"], "DOUBLE", [None, 2.0, 4.0], (), [0.0, 0.0, 2.0]),
        ("STDDEV_SAMPLE", 0, ["DOUBLE"], "DOUBLE", [2.0, 4.0], (), [0.0, math.sqrt(2)]),
        (
            "CORRELATION",
            0,
            ["DOUBLE", "DOUBLE"],
            "DOUBLE",
            [(1.0, 2.0), (2.0, 4.0), (None, 1.0)],
            (),
            [math.nan, 1.0, 1.0],
        ),
        (
            "HISTOGRAM",
            0,
            ["VARCHAR"],
            "MAP(VARCHAR, BIGINT)",
            [None, "a", "b", "a"],
            (),
            [{}, {"a": 1}, {"a": 1, "b": 1}, {"a": 2, "b": 1}],
        ),
        ("TOPK", 0, ["INTEGER"], "INTEGER[]", [None, 3, 1, 3], (2,), [[], [3], [3, 1], [3, 3]]),
        ("TOPK", 5, ["BLOB"], "BLOB[]", [b"a", None, b"b"], (1,), [[b"a"], [b"a"], [b"b"]]),
        (
            "TOPK",
            12,
            ["VARCHAR", "INTEGER"],
            "STRUCT(sort_col VARCHAR, col0 INTEGER)[]",
            [("a", 1), ("b", None)],
            (1,),
            [[{"sort_col": "a", "col0": 1}], [{"sort_col": "b", "col0": None}]],
        ),
        (
            "TOPKDISTINCT",
            0,
            ["INTEGER"],
            "INTEGER[]",
            [3, 1, 3, 2],
            (2,),
            [[3], [3, 1], [3, 1], [3, 2]],
        ),
    ],
)
def test_values_after_each_row(
    name: str,
    variant: int,
    types: list[str],
    result: str,
    values: list[Any],
    constants: tuple[Any, ...],
    expected: list[Any],
) -> None:
    found = run(name, variant, types, result, values, constants)
    assert all(map(same, found, expected)) and len(found) == len(expected), found


def test_a_decimal_sum_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(duckdb.Error):
        run("SUM", 3, ["DECIMAL(3,1)"], "DECIMAL(3,1)", ["50.9", "50.8"])


def test_collect_list_of_a_table_removes_the_last_equal_value() -> None:
    running = Running(AGGREGATES["COLLECT_LIST"].variants[0], ["INTEGER"], "INTEGER[]", table=True)
    rows: list[Row] = [("a", d, (v,)) for d, v in [(1, 7), (1, 8), (1, 7), (-1, 7), (-1, 9)]]
    assert running.batch(rows) == [[7], [7, 8], [7, 8, 7], [7, 8], [7, 8]]


@pytest.mark.parametrize(
    ("name", "types", "result", "changes", "expected"),
    [
        ("ATTR", ["VARCHAR"], "VARCHAR", [(1, "a"), (1, "b"), (-1, "a")], ["a", None, "b"]),
        ("HISTOGRAM", ["VARCHAR"], "MAP(VARCHAR, BIGINT)", [(1, "a"), (-1, "a")], [{"a": 1}, {}]),
        ("COUNT", [], "BIGINT", [(1,), (-1,)], [1, 0]),
        (
            "STDDEV_SAMP",
            ["DOUBLE"],
            "DOUBLE",
            [(1, 2.0), (1, 9.0), (1, 4.0), (-1, 9.0)],
            [0.0, 24.5, 13.0, 2.0],
        ),
    ],
)
def test_rows_that_leave(
    name: str, types: list[str], result: str, changes: list[tuple[Any, ...]], expected: list[Any]
) -> None:
    running = Running(AGGREGATES[name].variants[0], types, result, table=True)
    found: list[Any] = []
    for diff, *values in changes:
        found += running.batch([("k", diff, tuple(values))])
    assert found == pytest.approx(expected) if types == ["DOUBLE"] else found == expected


VARIANTS: list[tuple[str, int, list[str], str, tuple[Any, ...]]] = [
    ("COUNT", 1, ["INTEGER"], "BIGINT", ()),
    ("SUM", 0, ["INTEGER"], "INTEGER", ()),
    ("SUM", 1, ["BIGINT"], "BIGINT", ()),
    ("SUM", 2, ["DOUBLE"], "DOUBLE", ()),
    ("AVG", 0, ["BIGINT"], "DOUBLE", ()),
    ("AVG", 1, ["DOUBLE"], "DOUBLE", ()),
    ("MIN", 1, ["BIGINT"], "BIGINT", ()),
    ("MAX", 0, ["INTEGER"], "INTEGER", ()),
    ("COLLECT_LIST", 0, ["INTEGER"], "INTEGER[]", ()),
    ("COLLECT_SET", 0, ["INTEGER"], "INTEGER[]", ()),
    ("LATEST_BY_OFFSET", 0, ["INTEGER"], "INTEGER", ()),
    ("LATEST_BY_OFFSET", 1, ["INTEGER"], "INTEGER", (False,)),
    ("LATEST_BY_OFFSET", 2, ["INTEGER"], "INTEGER[]", (2,)),
    ("LATEST_BY_OFFSET", 3, ["INTEGER"], "INTEGER[]", (2, False)),
    ("EARLIEST_BY_OFFSET", 0, ["INTEGER"], "INTEGER", ()),
    ("EARLIEST_BY_OFFSET", 1, ["INTEGER"], "INTEGER", (False,)),
    ("EARLIEST_BY_OFFSET", 2, ["INTEGER"], "INTEGER[]", (2,)),
    ("EARLIEST_BY_OFFSET", 3, ["INTEGER"], "INTEGER[]", (2, False)),
    ("SUM_LIST", 0, ["INTEGER[]"], "INTEGER", ()),
    ("SUM_LIST", 2, ["DOUBLE[]"], "DOUBLE", ()),
    ("ATTR", 0, ["VARCHAR"], "VARCHAR", ()),
    ("COUNT_DISTINCT", 0, ["VARCHAR"], "BIGINT", ()),
    ("STDDEV_SAMP", 0, ["DOUBLE"], "DOUBLE", ()),
    ("CORRELATION", 0, ["DOUBLE", "DOUBLE"], "DOUBLE", ()),
    ("HISTOGRAM", 0, ["VARCHAR"], "MAP(VARCHAR, BIGINT)", ()),
    ("TOPK", 0, ["INTEGER"], "INTEGER[]", (2,)),
    ("TOPKDISTINCT", 0, ["INTEGER"], "INTEGER[]", (2,)),
]


def scaled(types: list[str], value: int | None) -> Any:
    """Draws that round (DOUBLE) or wrap (INTEGER, BIGINT) when added up."""
    if value is None:
        return None
    match types[0]:
        case "DOUBLE":
            return value / 7
        case "DOUBLE[]":
            return [value / 7, None, value / 3]
        case "INTEGER[]":
            return [value * 500_000_000, 7]
        case "INTEGER":
            return value * 500_000_000
        case "BIGINT":
            return value * 2_000_000_000_000_000_000
    return str(value)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)


@pytest.mark.parametrize("case", VARIANTS, ids=lambda case: f"{case[0]}-{case[1]}")
@settings(max_examples=draws(8), suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(
        st.tuples(st.sampled_from("ab"), st.one_of(st.none(), st.integers(-4, 4)), st.booleans()),
        min_size=1,
        max_size=10,
    ),
)
def test_cutting_a_batch_changes_nothing(
    case: tuple[str, int, list[str], str, tuple[Any, ...]],
    rows: list[tuple[str, int | None, bool]],
) -> None:
    name, index, types, result, constants = case
    variant = AGGREGATES[name].variants[index]
    changes: list[Row] = [(key, 1, (scaled(types, value),) * len(types)) for key, value, _ in rows]
    whole = Running(variant, types, result, constants)
    pieces = Running(variant, types, result, constants)
    expected = whole.batch(changes)
    found: list[Any] = []
    begin = 0
    for end, (_, _, cut) in enumerate(rows, 1):
        if cut or end == len(rows):
            found += pieces.batch(changes[begin:end])
            begin = end
    assert all(map(same, found, expected)), (found, expected)
    if variant.grouped:
        grouped = Running(variant, types, result, constants)
        try:
            values = grouped.batch_grouped(changes)
        except duckdb.OutOfRangeException:
            return
        except duckdb.ConversionException:
            return
        last = {key: value for (key, _, _), value in zip(changes, expected, strict=True)}
        assert values == last
