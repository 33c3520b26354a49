"""Rows as lines: widths, wrapping, alignment, forms."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from millstream_cli.screen.cells import cell, clipped, to_json
from millstream_cli.screen.tables import TableStyle, shared, stream_layout, table, vertical, wrapped


def test_numbers_are_lined_up_at_their_end() -> None:
    rows = [("a", 1, Decimal("1.50")), ("bb", None, Decimal("12.25"))]
    assert table(("K", "NUM", "D"), rows, 80, TableStyle()) == [
        "+----+------+-------+",
        "| K  |  NUM |     D |",
        "+----+------+-------+",
        "| a  |    1 |  1.50 |",
        "| bb | null | 12.25 |",
        "+----+------+-------+",
    ]


def test_text_is_wrapped_or_cut() -> None:
    rows = [("one two three four", "x\ny")]
    assert table(("A", "B"), rows, 20, TableStyle())[3:-1] == [
        "| one two      | x |",
        "| three four   | y |",
    ]
    assert table(("A",), [("abcdefghij",)], 80, TableStyle(wrap=False, width=6))[3] == "| abc... |"


@pytest.mark.parametrize("screen", [20, 33, 44, 80, 120])
@pytest.mark.parametrize("columns", [1, 2, 3, 7])
def test_nothing_is_wider_than_the_screen(screen: int, columns: int) -> None:
    names = [f"COLUMN_{index}" for index in range(columns)]
    rows = [tuple("文字 and words " * (index + 1) for index in range(columns))]
    for line in table(names, rows, screen, TableStyle(wrap=False)):
        assert cell_len(line) <= screen or line.startswith(("COLUMN", "-["))
    if columns * 8 < screen:
        layout = stream_layout(names, screen, TableStyle())
        assert all(cell_len(line) <= screen for line in [*layout.head(), *layout.row(rows[0])])


def test_many_columns_stand_below_each_other() -> None:
    names = [f"C{index}" for index in range(12)]
    lines = table(names, [tuple(range(12))], 60, TableStyle())
    assert lines[0].startswith("-[ row 1 ]") and lines[12] == "C11 | 11"
    assert vertical(("A", "LONG"), [("x\ny", None)])[1:] == ["A    | x", "       y", "LONG | null"]


@pytest.mark.parametrize(
    ("widths", "room", "wanted"),
    [([3, 4], 80, [3, 4]), ([3, 40, 40], 43, [3, 20, 20]), ([50], 20, [20]), ([9, 9], 4, [5, 5])],
)
def test_the_widest_columns_give_way(widths: list[int], room: int, wanted: list[int]) -> None:
    assert shared(widths, room) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("abcdef", ["abcd", "ef"]),
        ("ab cdef", ["ab ", "cdef"]),
        ("ab", ["ab"]),
        ("", [""]),
        ("文字文", ["文字", "文"]),
        ("ab  cdefgh", ["ab  ", "cdef", "gh"]),
    ],
)
def test_lines_break_behind_a_space(text: str, wanted: list[str]) -> None:
    assert wrapped(text, 4) == wanted


def test_values() -> None:
    time = datetime.datetime(2024, 1, 2, 3, 4, 5, 6000)
    shown = [cell(v) for v in (None, True, b"hi", time, [1, "é"], {"a": Decimal("1.5")}, 0.1)]
    assert shown == [
        "null", "true", "aGk=", "2024-01-02T03:04:05.006", '[1, "é"]', '{"a": 1.5}', "0.1"
    ]  # fmt: skip
    assert clipped("abcdef", 2) == ".." and clipped("文字文字", 7) == "文字..."


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in "".join(table(("A",), [("\x1b[2J",)], 80, TableStyle()))


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON_VALUES, st.sampled_from([None, 1, 2]))
def test_json_is_that_of_the_library(value: object, indent: int | None) -> None:
    assert to_json(value, indent=indent) == json.dumps(value, ensure_ascii=False, indent=indent)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=10))
def test_json_keeps_every_digit_of_a_decimal(value: Decimal) -> None:
    found = json.loads(to_json([value]), parse_float=Decimal, parse_int=Decimal)
    assert found == [value]
    assert format(found[0], "f") == format(value, "f")


def test_json_of_a_double_that_is_no_number() -> None:
    values = [float("nan"), float("inf"), float("-inf"), Decimal("NaN")]
    assert json.loads(to_json(values)) == ["NaN", "Infinity", "-Infinity", "NaN"]
