"""Values of the dialect from PostgreSQL's text and binary formats, as COPY FROM STDIN has them."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

from millstream.model import types as t
from millstream.model.types import SqlType
from millstream_server.postgres.arguments import binary_reader, text_reader
from millstream_server.postgres.arrays import binary_array, text_array
from millstream_server.postgres.refusals import PgError
from millstream_server.postgres.values import JSON, pg_type

BAD_VALUE = "22P02"


def converted(
    values: Sequence[str | None] | Sequence[bytes | None],
    kind: SqlType,
    column: str,
    before: int = 0,
    *,
    binary: bool = False,
) -> list[Any]:
    """The values of a column, of texts or, if they are in `binary`, bytes. Raises PgError with the
    number of the first row that has none of its type; `before`: how many rows are before these."""
    read: Callable[[Any], Any] = _binary_reader(kind) if binary else _reader(kind)
    found: list[Any] = []
    try:
        for value in values:
            found.append(None if value is None else read(value))
    except (ArithmeticError, ValueError, RecursionError, struct.error) as error:
        wrong = values[len(found)]
        shown = wrong.hex(" ") if isinstance(wrong, bytes) else str(wrong)
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


def _array(text: str, inner: Callable[[str], Any]) -> list[Any]:
    """`{a,"b c",NULL}`, or JSON."""
    if not text.lstrip().startswith("["):
        return text_array(text, inner)
    found = json.loads(text)
    if not isinstance(found, list):
        raise ValueError(text)
    return found


def _binary_reader(kind: SqlType) -> Callable[[bytes], Any]:
    if kind is t.STRING:
        return bytes.decode
    if kind is t.BYTES:
        return bytes
    if pg_type(kind) is JSON:
        return json.loads
    if isinstance(kind, t.Array):
        inner, element = _binary_reader(kind.element), pg_type(kind.element).oid
        return lambda raw: binary_array(raw, inner, element)
    return binary_reader(pg_type(kind).oid)


def _bytes(text: str) -> bytes:
    """In hexadecimal digits behind `\\x`, as PostgreSQL writes them, or in base64, as here."""
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    return base64.b64decode(text, validate=True)
