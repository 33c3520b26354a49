"""Formats and compares the cells of expected tables.

A cell has the text that the shell shows. NULL is `NULL`; ambiguous text (empty, with blanks at an
end, with a `|`, the word NULL) is written as a JSON string.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from millstream_cli.screen.cells import cell, fitted, is_number

NULL = "NULL"
_CELL = re.compile(r"""(?:[^|"]|"(?:[^"\\]|\\.)*"?)*""")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of an expected table. `quoted`: its text was written as a JSON string."""

    text: str
    quoted: bool = False


def split_row(line: str) -> list[Cell] | None:
    """The cells of `| a | b |`; None if the line is not a row."""
    line = line.strip()
    if len(line) < 2 or line[0] != "|" or line[-1] != "|":
        return None
    found, at = [], 1
    while at < len(line):
        match = _CELL.match(line, at)
        assert match is not None
        if match.end() >= len(line):
            return None
        found.append(_unquoted(match.group().strip()))
        at = match.end() + 1
    return found


def _unquoted(text: str) -> Cell:
    if _QUOTED.fullmatch(text):
        try:
            return Cell(json.loads(text), quoted=True)
        except ValueError:
            pass
    return Cell(text)


def render(value: Any) -> str:
    """The text of a cell for a value, which `matches` accepts."""
    match value:
        case None:
            return NULL
        case Decimal():
            return f"{value:f}"
        case list() | dict() | tuple():
            return _json(value)
        case str():
            plain = split_row(f"| {value} |")
            if value.upper() in ("", NULL) or plain != [Cell(value)] or not value.isprintable():
                return json.dumps(value, ensure_ascii=False)
            return value
        case _:
            return cell(value)


def matches(expected: Cell, value: Any) -> bool:
    """Whether a value equals an expected cell."""
    text = expected.text
    if expected.quoted:
        return isinstance(value, str) and value == text
    match value:
        case None:
            return text.upper() == NULL
        case float():
            return _same_double(text, value)
        case list() | dict() | tuple():
            try:
                return _same(json.loads(text, parse_float=Decimal), value)
            except ValueError:
                return False
        case str():
            return value == text and text.upper() not in ("", NULL)
        case _:
            return render(value) == text


def _same_double(text: str, value: float) -> bool:
    try:
        wanted = float(text)
    except ValueError:
        return False
    return wanted == value or (math.isnan(wanted) and math.isnan(value))


def _same(wanted: Any, value: Any) -> bool:
    """Whether a JSON value equals a value inside of an array, a map or a struct."""
    match value:
        case list() | tuple():
            return (
                isinstance(wanted, list)
                and len(wanted) == len(value)
                and all(map(_same, wanted, value))
            )
        case dict():
            keyed = {_key(key): item for key, item in value.items()}
            return (
                isinstance(wanted, dict)
                and wanted.keys() == keyed.keys()
                and all(_same(wanted[key], item) for key, item in keyed.items())
            )
        case None | bool():
            return wanted is value
        case float():
            return isinstance(wanted, int | Decimal | str) and _same_double(str(wanted), value)
        case int():
            return isinstance(wanted, int) and not isinstance(wanted, bool) and wanted == value
        case Decimal():
            return _same_decimal(wanted, value)
        case _:
            return isinstance(wanted, str) and wanted == cell(value)


def _same_decimal(wanted: Any, value: Decimal) -> bool:
    try:
        return not isinstance(wanted, bool) and f"{Decimal(wanted):f}" == f"{value:f}"
    except (InvalidOperation, TypeError, ValueError):
        return False


def _key(key: object) -> str:
    return key if isinstance(key, str) else render(key)


def _json(value: Any) -> str:
    match value:
        case list() | tuple():
            return "[" + ", ".join(map(_json, value)) + "]"
        case Mapping():
            members = (f"{json.dumps(_key(k), ensure_ascii=False)}: {_json(v)}"
                       for k, v in value.items())  # fmt: skip
            return "{" + ", ".join(members) + "}"
        case None | bool() | int():
            return json.dumps(value)
        case float():
            return str(value) if math.isfinite(value) else json.dumps(str(value))
        case Decimal():
            return f"{value:f}"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return json.dumps(cell(value), ensure_ascii=False)


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """A table as text: the column names, a rule, and a line for each row."""
    texts = [[render(value) for value in row] for row in rows]
    names = [render(name) for name in columns]
    widths = [
        max([len(name), *(len(row[i]) for row in texts)], default=0) for i, name in enumerate(names)
    ]
    right = [
        any(is_number(row[i]) for row in rows)
        and all(row[i] is None or is_number(row[i]) for row in rows)
        for i in range(len(names))
    ]
    return [
        aligned(names, widths, right),
        "|" + "|".join("-" * (width + 2) for width in widths) + "|",
        *(aligned(row, widths, right) for row in texts),
    ]


def aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    """A row as text, its cells padded to the widths of the columns."""
    parts = zip(row, widths, right, strict=True)
    return "| " + " | ".join(fitted(text, width, right=end) for text, width, end in parts) + " |"
