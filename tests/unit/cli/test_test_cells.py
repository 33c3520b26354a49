"""Cells of expected tables: what is written for a value means that value, and nothing else."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream_cli.testing.cells import Cell, matches, render, split_row

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary()
    | st.dates()
    | st.times()
    | st.datetimes()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6
)


def split_again(text: str) -> Cell:
    cells = split_row(f"| {text} |")
    assert cells is not None
    (cell,) = cells
    return cell


@given(VALUES)
def test_what_is_rendered_matches(value: Any) -> None:
    text = render(value)
    assert "\n" not in text
    assert matches(split_again(text), value)


@given(VALUES, VALUES)
def test_two_values_are_told_apart(one: Any, other: Any) -> None:
    """Values of one type: a text may look like a number, which is one of another column."""
    if type(one) is type(other) and render(one) != render(other):
        same = isinstance(one, list | dict | float) or not matches(split_again(render(one)), other)
        assert same


@pytest.mark.parametrize(
    ("text", "value", "agree"),
    [
        ("NULL", None, True),
        ("null", None, True),
        ("NULL", "NULL", False),
        ('"NULL"', "NULL", True),
        ("", "", False),
        ('""', "", True),
        ("1", 1, True),
        ("1.0", 1, False),
        ("1", 1.0, True),
        ("1e3", 1000.0, True),
        ("NaN", float("nan"), True),
        ("-Infinity", float("-inf"), True),
        ("1.5", Decimal("1.50"), False),
        ("1.50", Decimal("1.50"), True),
        ("0.000000010", Decimal("1.0E-8"), True),
        ("true", True, True),
        ("True", True, False),
        ("aGk=", b"hi", True),
        ("2024-01-02", datetime.date(2024, 1, 2), True),
        ("2024-01-02T03:04:05.000", datetime.datetime(2024, 1, 2, 3, 4, 5), True),
        ("[1,2]", [1, 2], True),
        ("[1, 2.50]", [1, Decimal("2.50")], True),
        ("[1, 2.5]", [1, Decimal("2.50")], False),
        ("[2, 1]", [1, 2], False),
        ('{"b": 1, "a": null}', {"a": None, "b": 1}, True),
        ('{"a": null}', {"a": None, "b": 1}, False),
        ("[1", [1], False),
        ('["2024-01-02"]', [datetime.date(2024, 1, 2)], True),
    ],
)
def test_examples(text: str, value: Any, agree: bool) -> None:
    assert matches(split_again(text), value) is agree


def test_bars_within_quotes_are_text() -> None:
    assert split_row('| a | "b|c" | ["d|e"] |') == [
        Cell("a"),
        Cell("b|c", quoted=True),
        Cell('["d|e"]'),
    ]
    assert split_row("| a | b") is None
    assert split_row("a | b |") is None
