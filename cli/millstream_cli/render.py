"""Results as text for a terminal or as JSON lines."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from millstream.model.errors import MillstreamError
from millstream.service.results import Done, Result, Rows, Stream

FORMATS = ("TABULAR", "JSON")


@dataclass(frozen=True, slots=True)
class Look:
    """How results are printed. Text that does not fit is wrapped, or else cut to end in `...`;
    a `width` of 0 lets the columns share the terminal."""

    form: str = "TABULAR"
    wrap: bool = True
    width: int = 0


def show(result: Result, console: Console, look: Look) -> None:
    """Print one result; a push query is printed row by row until it ends."""
    json_lines = look.form == "JSON"
    match result:
        case Done(message):
            text = json.dumps({"message": message}, ensure_ascii=False)
            shown = text if json_lines else message
            console.print(shown, markup=False, highlight=False, soft_wrap=True)
        case Rows() if json_lines:
            _json_rows(result.columns, result, console)
        case Rows() if result.columns == ["Stage", "Text"]:
            for stage, text in result:
                console.print(escape(stage), style="bold")
                console.print(escape(text), highlight=False, soft_wrap=True)
        case Rows():
            _table(result, console, look)
        case Stream() if json_lines:
            _json_rows(result.columns, result, console)
        case Stream():
            console.print(" | ".join(map(escape, result.columns)), style="bold")
            for row in result:
                cells = (_cut(cell(value), len(result.columns), console, look) for value in row)
                console.print(" | ".join(map(escape, cells)))


def show_error(error: MillstreamError, console: Console) -> None:
    """Print an error: message, then detail and hint."""
    console.print(escape(error.message), style="bold red", highlight=False)
    for part in (error.detail, error.hint):
        if part:
            console.print(escape(part), highlight=False, soft_wrap=True)


def cell(value: Any) -> str:
    """One value as a shell shows it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.datetime():
            return value.isoformat(timespec="milliseconds")
        case list() | dict():
            return json.dumps(value, default=_plain, ensure_ascii=False)
        case _:
            return str(value)


def _cut(text: str, columns: int, console: Console, look: Look) -> str:
    """The text of a cell, shortened where it is not to be wrapped."""
    if look.wrap:
        return text
    width = look.width or max(console.width // columns - 2, 5)
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."[:width]


def _table(rows: Rows, console: Console, look: Look) -> None:
    if rows.title:
        console.print(escape(rows.title), style="bold")
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for name in rows.columns:
        table.add_column(escape(name), overflow="fold", width=look.width or None)
    for row in rows:
        cells = (_cut(cell(value), len(rows.columns), console, look) for value in row)
        table.add_row(*map(escape, cells))
    console.print(table)


def _json_rows(columns: list[str], rows: Iterable[tuple[Any, ...]], console: Console) -> None:
    for row in rows:
        line = json.dumps(dict(zip(columns, row, strict=True)), default=_plain, ensure_ascii=False)
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _plain(value: Any) -> Any:
    match value:
        case decimal.Decimal():
            return float(value) if value.as_tuple().exponent else int(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.date() | datetime.time():
            return value.isoformat()
        case _:
            return str(value)
