"""Results as text for a terminal or as JSON lines."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from millstream.model.errors import MillstreamError
from millstream.service.results import Done, Result, Rows, Stream

FORMATS = ("TABULAR", "JSON")


def show(result: Result, console: Console, form: str) -> None:
    """Print one result; a push query is printed row by row until it ends."""
    match result:
        case Done(message):
            text = json.dumps({"message": message}, ensure_ascii=False)
            shown = text if form == "JSON" else message
            console.print(shown, markup=False, highlight=False, soft_wrap=True)
        case Rows() if form == "JSON":
            _json_rows(result.columns, result, console)
        case Rows() if result.columns == ["Stage", "Text"]:
            for stage, text in result:
                console.print(escape(stage), style="bold")
                console.print(escape(text), highlight=False, soft_wrap=True)
        case Rows():
            _table(result, console)
        case Stream() if form == "JSON":
            _json_rows(result.columns, result, console)
        case Stream():
            console.print(" | ".join(map(escape, result.columns)), style="bold")
            for row in result:
                console.print(" | ".join(escape(cell(value)) for value in row))


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


def _table(rows: Rows, console: Console) -> None:
    if rows.title:
        console.print(escape(rows.title), style="bold")
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for name in rows.columns:
        table.add_column(escape(name), overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell(value)) for value in row))
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
