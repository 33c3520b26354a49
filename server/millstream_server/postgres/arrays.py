"""Arrays of PostgreSQL, from its text and its binary form.

Source: PostgreSQL's documentation, "Arrays", and its array_recv.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

_SPACE = " \t\n\r\f\v"
_ELEMENT = re.compile(
    r'(?:[ \t\n\r\f\v]*"((?:[^"\\]|\\.)*)"[ \t\n\r\f\v]*|([^,{}"\\]*(?:\\.[^,{}"\\]*)*))([,}])',
    re.DOTALL,
)
_ANY = re.compile(r"\\(.)", re.DOTALL)
_ARRAY, _DIMENSION, _SIZE = struct.Struct("!iii"), struct.Struct("!ii"), struct.Struct("!i")


def binary_array(raw: bytes, inner: Callable[[bytes], Any], element: int) -> list[Any]:
    """The elements of an array of one dimension, or of none: then it is empty. `element`: the OID
    of their type. Raises ValueError or struct.error for what is none, and what `inner` raises."""
    dimensions, _, kind = _ARRAY.unpack_from(raw)
    at, elements = _ARRAY.size, list[Any]()
    if kind != element or dimensions not in (0, 1):
        raise ValueError(raw)
    if dimensions:
        count, _ = _DIMENSION.unpack_from(raw, at)
        at += _DIMENSION.size
        for _ in range(count):
            (size,) = _SIZE.unpack_from(raw, at)
            at += _SIZE.size
            if size < -1 or at + size > len(raw):
                raise ValueError(raw)
            elements.append(None if size == -1 else inner(raw[at : at + size]))
            at += max(size, 0)
    if at != len(raw):
        raise ValueError(raw)
    return elements


def text_array(text: str, inner: Callable[[str], Any]) -> list[Any]:
    """The elements of `{a,"b c",NULL}`. Raises ValueError for what is none, and what `inner`
    raises."""
    written = text.strip(_SPACE)
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
