"""The framing of rows on the wire: `[{"header":…},`, `{"row":…},` …, `]`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.query.changes import Deletion
from millstream_cli.sessions.results import Row
from millstream_parser.lexemes import LexemeKind, lexemes


def objects(texts: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The objects of an array that arrives in pieces, each as soon as it is complete. A server may
    write the comma behind an object or before the next one."""
    decoder = json.JSONDecoder(parse_float=Decimal)
    waiting = ""
    for text in texts:
        waiting += text
        while waiting := waiting.lstrip(_BETWEEN):
            try:
                item, end = decoder.raw_decode(waiting)
            except ValueError:
                break
            yield item
            waiting = waiting[end:]
    if waiting:
        raise UnavailableError("The server's answer breaks off.", detail=waiting[:200])


_BETWEEN = "[], \r\n\t"


def header(objects: Iterator[dict[str, Any]]) -> tuple[str, list[str]]:
    """The id and the columns of a query: the first object. Raises an error that arrives instead."""
    first = next(objects, None)
    if first is None:
        raise StatementError("The server gave no rows and no columns.")
    raise_error(first)
    described = first["header"]
    return str(described.get("queryId") or ""), column_names(described.get("schema", ""))


def rows(objects: Iterator[dict[str, Any]]) -> Iterator[Row]:
    """The rows, with deletions marked; ends at the final message. Raises an error that arrives
    among them."""
    for item in objects:
        raise_error(item)
        row = item.get("row")
        if row is not None:
            yield Deletion(row["columns"]) if row.get("tombstone") else tuple(row["columns"])


def raise_error(item: dict[str, Any]) -> None:
    """Raise the error of an object that is not a row."""
    error = item.get("errorMessage") or (item if "error_code" in item else None)
    if error is not None:
        text = error.get("message") if isinstance(error, dict) else error
        raise MillstreamError(str(text))


def column_names(schema: str) -> list[str]:
    """The columns of "`ID` INTEGER, `S` STRUCT<`F` INTEGER>"."""
    found, depth, begins = [], 0, True
    for lexeme in lexemes(schema):
        if lexeme.kind is LexemeKind.QUOTED and begins and depth == 0:
            found.append(lexeme.text[1:-1].replace("``", "`"))
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(lexeme.text, 0)
        begins = lexeme.text == ","
    return found
