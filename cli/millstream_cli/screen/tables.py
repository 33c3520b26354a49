"""Formats rows as lines of text that fit a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells

from millstream_cli.screen.cells import cell, clipped, fitted, is_number
from millstream_cli.sessions.results import Row

NARROWEST = 5
_ESCAPES = {ord("\t"): "    ", ord("\r"): "\\r", ord("\x1b"): "\\e"}
_FRAME = 3
"""The width of a column in addition to its text."""


@dataclass(frozen=True, slots=True)
class TableStyle:
    """The settings for printing results. Text that does not fit is wrapped, or else cut to end in
    `...`; a `width` of 0 lets the columns share the terminal. `live`: rows of a table replace each
    other on the screen. `pager`: long results are shown page by page. A push query ends at
    `row_limit` rows or after `timeout_ms`."""

    form: str = "TABULAR"
    wrap: bool = True
    width: int = 0
    live: bool = True
    pager: bool = False
    row_limit: int | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns with their widths in cells of the terminal; `right` are right-aligned."""

    columns: Sequence[str]
    widths: Sequence[int]
    right: Sequence[bool]
    wrap: bool

    @property
    def rule(self) -> str:
        """The rule above and below the names."""
        return "+" + "+".join("-" * (width + 2) for width in self.widths) + "+"

    def head(self) -> list[str]:
        """The names between two rules."""
        return [self.rule, *self._lines(self.columns, self.right), self.rule]

    def row(self, row: Row) -> list[str]:
        """One row: a line, or more where text is wrapped."""
        aligned = [right or is_number(v) for right, v in zip(self.right, row, strict=True)]
        return self._lines([cell(value) for value in row], aligned)

    def _lines(self, texts: Sequence[str], right: Sequence[bool]) -> list[str]:
        parts = [self._part(text, width) for text, width in zip(texts, self.widths, strict=True)]
        height = max(map(len, parts), default=1)
        return [
            "| "
            + " | ".join(
                fitted(part[line] if line < len(part) else "", width, right=at_end)
                for part, width, at_end in zip(parts, self.widths, right, strict=True)
            )
            + " |"
            for line in range(height)
        ]

    def _part(self, text: str, width: int) -> list[str]:
        lines = text.translate(_ESCAPES).split("\n")
        if not self.wrap:
            return [clipped(" ".join(lines), width)]
        return [piece for line in lines for piece in wrapped(line, width)]


def wrapped(line: str, width: int) -> list[str]:
    """A line wrapped into several, behind a space where possible."""
    pieces = []
    while cell_len(line) > width:
        first = chop_cells(line, width)[0] or line[0]
        space = first.rfind(" ") + 1
        at = space if space and line[len(first)] != " " else len(first)
        pieces.append(line[:at])
        line = line[at:]
    return [*pieces, line]


def stream_layout(columns: Sequence[str], screen: int, look: TableStyle) -> Layout:
    """For rows that are not available yet: all columns have the same width."""
    width = look.width or max((screen - 1) // max(len(columns), 1) - _FRAME, NARROWEST)
    return Layout(columns, [width] * len(columns), [False] * len(columns), look.wrap)


def table_layout(
    columns: Sequence[str], rows: Sequence[Row], screen: int, look: TableStyle
) -> Layout:
    """For available rows: as wide as their text, with the widest columns reduced if they exceed the
    screen."""
    widths = [
        max([cell_len(name), *(_longest(cell(row[i])) for row in rows)])
        for i, name in enumerate(columns)
    ]
    if look.width:
        widths = [look.width] * len(columns)
    else:
        widths = shared(widths, screen - _FRAME * len(columns) - 1)
    right = [
        any(is_number(row[i]) for row in rows)
        and all(row[i] is None or is_number(row[i]) for row in rows)
        for i in range(len(columns))
    ]
    return Layout(columns, widths, right, look.wrap)


def shared(widths: Sequence[int], room: int) -> list[int]:
    """The widths, the greatest reduced until their sum fits; none below `NARROWEST`."""
    low, high = NARROWEST, max([NARROWEST, *widths])
    while low < high:
        limit = (low + high + 1) // 2
        if sum(min(width, limit) for width in widths) <= room:
            low = limit
        else:
            high = limit - 1
    return [min(width, low) for width in widths]


def fits(columns: Sequence[str], screen: int) -> bool:
    """Whether the columns fit side by side at all."""
    return len(columns) * (NARROWEST + _FRAME) + 1 <= screen


def vertical(columns: Sequence[str], rows: Iterable[Row], first: int = 1) -> list[str]:
    """One line for each value."""
    width = max([cell_len(name) for name in columns], default=0)
    lines = []
    for number, row in enumerate(rows, first):
        lines.append(f"-[ row {number} ]".ljust(width + 12, "-"))
        for name, value in zip(columns, row, strict=True):
            text = cell(value).translate(_ESCAPES).replace("\n", "\n" + " " * (width + 3))
            lines.extend(f"{fitted(name, width)} | {text}".split("\n"))
    return lines


def table(columns: Sequence[str], rows: Sequence[Row], screen: int, look: TableStyle) -> list[str]:
    """A whole table, vertical if the columns do not fit side by side."""
    if not look.width and not fits(columns, screen):
        return vertical(columns, rows)
    layout = table_layout(columns, rows, screen, look)
    body = [line for row in rows for line in layout.row(row)]
    return [*layout.head(), *body, layout.rule] if rows else layout.head()


def _longest(text: str) -> int:
    return max(cell_len(line) for line in text.translate(_ESCAPES).split("\n"))
