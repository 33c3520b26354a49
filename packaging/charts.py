"""Bars beside the tables of the documentation: a comment `<!-- bars: column, column -->` before a
table has the site draw these columns of it, one group of bars for each row. The table stays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_MARKED = re.compile(r"<!-- bars: (?P<columns>[^>]+) -->\n+(?P<table>(?:\|.*\n)+)")
_NUMBER = re.compile(r"\**([0-9][0-9,]*(?:\.[0-9]+)?)\**")
_LABEL, _WIDTH, _BAR, _GAP = 60, 640, 14, 10
_SHADES = ("1", "0.55", "0.3")
"""Opacity of the first, second and third column: one colour, which is the page's in any theme."""


@dataclass(frozen=True, slots=True)
class Bars:
    """`rows`: the first cell of a row, and its number in each of the columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]


def drawn(markdown: str) -> str:
    """A page with its bars above the tables that ask for them. Raises ValueError if a table has no
    such column, or no row with numbers in all of them."""

    def with_bars(found: re.Match[str]) -> str:
        bars = bars_of(found["table"], [name.strip() for name in found["columns"].split(",")])
        return f"{_svg(bars)}\n\n{found['table']}"

    return _MARKED.sub(with_bars, markdown)


def bars_of(table: str, columns: Sequence[str]) -> Bars:
    """The numbers of some columns of a table. Rows that lack one are left out."""
    head, _, *lines = map(_cells, table.strip().split("\n"))
    missing = [name for name in columns if name not in head]
    if missing or len(columns) > len(_SHADES):
        raise ValueError(f"no bars of {', '.join(missing or columns)}: the table has {head}")
    places = [head.index(name) for name in columns]
    found = [(line[0], [_NUMBER.fullmatch(line[at]) for at in places]) for line in lines]
    rows = tuple(
        (name, tuple(float(number[1].replace(",", "")) for number in numbers if number))
        for name, numbers in found
        if all(numbers)
    )
    if not rows:
        raise ValueError(f"no row has numbers in {', '.join(columns)}")
    return Bars(tuple(columns), rows)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _svg(bars: Bars) -> str:
    most = max(number for _, numbers in bars.rows for number in numbers)
    group = _BAR * len(bars.columns) + _GAP
    parts = [_legend(bars.columns)]
    for row, (name, numbers) in enumerate(bars.rows):
        top = 24 + row * group
        middle = top + _BAR * len(numbers) / 2 + 4
        parts.append(
            f'<text x="{_LABEL - 8}" y="{middle:g}" text-anchor="end">{escape(name)}</text>'
        )
        for at, number in enumerate(numbers):
            length = (_WIDTH - _LABEL - 60) * number / most
            y = top + at * _BAR
            parts.append(
                f'<rect x="{_LABEL}" y="{y}" width="{length:.1f}" height="{_BAR - 3}" '
                f'fill="currentColor" fill-opacity="{_SHADES[at]}"/>'
                f'<text x="{_LABEL + length + 5:.1f}" y="{y + 10}">{number:g}</text>'
            )
    height = 24 + group * len(bars.rows)
    told = escape(f"{', '.join(bars.columns)}: the numbers are in the table below")
    return (
        f'<svg class="bars" role="img" aria-label="{told}" viewBox="0 0 {_WIDTH} {height}" '
        f'font-size="11" font-family="sans-serif" fill="currentColor">{"".join(parts)}</svg>'
    )


def _legend(columns: Sequence[str]) -> str:
    step = (_WIDTH - _LABEL) // len(_SHADES)
    return "".join(
        f'<rect x="{_LABEL + at * step}" y="2" width="11" height="11" fill="currentColor" '
        f'fill-opacity="{_SHADES[at]}"/>'
        f'<text x="{_LABEL + 16 + at * step}" y="12">{escape(name)}</text>'
        for at, name in enumerate(columns)
    )
