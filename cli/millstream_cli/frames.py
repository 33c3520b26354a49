"""The framing of rows on the wire: `[{"header":…},`, `{"row":…},` …, `]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from millstream.model.errors import MillstreamError, StatementError
from millstream_cli.http import decoded
from millstream_cli.results import Row
from millstream_parser.lexemes import Piece, lexemes


def objects(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The objects of an array that comes line by line."""
    for line in lines:
        text = line.strip().removeprefix("[").strip()
        # The end of the array may stand behind the last object, or after a comma of its own.
        text = text.removesuffix("]").strip().removesuffix(",") if not _whole(text) else text
        if text:
            yield decoded(text)


def _whole(text: str) -> bool:
    return text.endswith("}")


def header(objects: Iterator[dict[str, Any]]) -> tuple[str, list[str]]:
    """The id and the columns of a query: what comes first. Raises what comes instead."""
    first = next(objects, None)
    if first is None:
        raise StatementError("The server gave no rows and no columns.")
    raise_error(first)
    described = first["header"]
    return str(described.get("queryId") or ""), column_names(described.get("schema", ""))


def rows(objects: Iterator[dict[str, Any]]) -> Iterator[Row]:
    """The rows; ends at the final message. Raises an error that comes among them."""
    for item in objects:
        raise_error(item)
        row = item.get("row")
        if row is not None and not row.get("tombstone"):
            yield tuple(row["columns"])


def raise_error(item: dict[str, Any]) -> None:
    """Raise the error that an object in place of a row may be."""
    error = item.get("errorMessage") or (item if "error_code" in item else None)
    if error is not None:
        text = error.get("message") if isinstance(error, dict) else error
        raise MillstreamError(str(text))


def column_names(schema: str) -> list[str]:
    """The columns of "`ID` INTEGER, `S` STRUCT<`F` INTEGER>"."""
    found, depth, begins = [], 0, True
    for piece in lexemes(schema):
        if piece.piece is Piece.QUOTED and begins and depth == 0:
            found.append(piece.text[1:-1].replace("``", "`"))
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(piece.text, 0)
        begins = piece.text == ","
    return found
