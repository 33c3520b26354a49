"""Values of the dialect from PostgreSQL's text, as COPY FROM STDIN has them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from millstream.model import types as t
from millstream.model.types import SqlType
from millstream_server.postgres.arguments import text_reader
from millstream_server.postgres.refusals import PgError
from millstream_server.postgres.values import JSON, pg_type

BAD_VALUE = "22P02"
_SPACE = " \t\n\r\f\v"
_ELEMENT = re.compile(
    r'(?:[ \t\n\r\f\v]*"((?:[^"\\]|\\.)*)"[ \t\n\r\f\v]*|([^,{}"\\]*(?:\\.[^,{}"\\]*)*))([,}])',
    re.DOTALL,
)
_ANY = re.compile(r"\\(.)", re.DOTALL)


def converted(
    values: Sequence[str | None], kind: SqlType, column: str, before: int = 0
) -> list[Any]:
    """The values of a column. Raises PgError with the number of the first row that has none of its
    type; `before`: how many rows are before these."""
    read = _reader(kind)
    found: list[Any] = []
    try:
        for value in values:
            found.append(None if value is None else read(value))
    except (ArithmeticError, ValueError, RecursionError) as error:
        shown = str(values[len(found)])
        raise PgError(
            f"Row {before + len(found) + 1} of COPY: {column} is no {kind}.",
            detail=shown if len(shown) <= 100 else f"{shown[:100]}…",
            code=BAD_VALUE,
        ) from error
    return found


def _reader(kind: SqlType) -> Callable[[str], Any]:
    if kind is t.STRING:
        return str
    if kind is t.BYTES:
        return _bytes
    if pg_type(kind) is JSON:
        return json.loads
    if isinstance(kind, t.Array):
        inner = _reader(kind.element)
        return lambda text: _array(text, inner)
    read = text_reader(pg_type(kind).oid)
    return lambda text: read(text.encode())


def _bytes(text: str) -> bytes:
    """In hexadecimal digits behind `\\x`, as PostgreSQL writes them, or in base64, as here."""
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    return base64.b64decode(text, validate=True)


def _array(text: str, inner: Callable[[str], Any]) -> list[Any]:
    """`{a,"b c",NULL}`, or JSON."""
    written = text.strip(_SPACE)
    if written.startswith("["):
        found = json.loads(written)
        if not isinstance(found, list):
            raise ValueError(text)
        return found
    if not written.startswith("{"):
        raise ValueError(text)
    if written[1:].strip(_SPACE) == "}":
        return []
    elements: list[Any] = []
    at = 1
    while True:
        part = _ELEMENT.match(written, at)
        if part is None:
            raise ValueError(text)
        quoted, plain, end = part.groups()
        plain = (plain or "").strip(_SPACE)
        if quoted is None and not plain:
            raise ValueError(text)
        if quoted is None and plain.upper() == "NULL":
            elements.append(None)
        else:
            elements.append(inner(_ANY.sub(r"\1", plain if quoted is None else quoted)))
        at = part.end()
        if end == "}":
            if at != len(written):
                raise ValueError(text)
            return elements
