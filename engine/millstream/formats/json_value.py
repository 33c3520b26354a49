"""Reads the JSON value at the beginning of a payload.

Jackson's `readTree` reads one value and ignores the bytes behind it, so a key followed by the bytes
of its window is that key. Two kinds of value are not self-terminating: a number must be followed by
white space or the end of the payload, a word like `true` by nothing that could continue it. The
encoding is detected as in Jackson: by a byte order mark, else by the position of zero bytes.
"""

from __future__ import annotations

import codecs
import json
import re
import unicodedata
from typing import Any

SPACE = " \t\r\n"
_SPACES = re.compile(r"[ \t\r\n]*")
_CLOSED = frozenset('{["')
"""The first characters of self-terminating values."""
_BEHIND_WORD = frozenset(map(chr, range(ord("0")))) | frozenset(":;<=>?@[\\]^`{|}~")
"""Characters that cannot continue a word."""
_IN_NAMES = frozenset(["Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc", "Nd", "Mn", "Mc", "Cf"])
"""The categories of Unicode that names of Java may have (`Character.isJavaIdentifierPart`)."""
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_DEPTH_MAX = 500
"""Deeper values are refused: the depth that Python's parser supports depends on its caller."""
_MARKS = (
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF8, "utf-8"),
)


def first_value(payload: bytes, decoder: json.JSONDecoder) -> Any:
    """The first value of a payload, None where there is none. Raises ValueError when it is
    malformed."""
    return _read(payload, decoder)[0]


def text_behind(payload: bytes, decoder: json.JSONDecoder) -> str:
    """The bytes after the first value of a payload, without white space. Raises ValueError when the
    value is malformed."""
    return _read(payload, decoder)[1].strip(SPACE)


def _read(payload: bytes, decoder: json.JSONDecoder) -> tuple[Any, str]:
    encoding, mark = _encoding(payload)
    plain = encoding == "utf-8"
    # Bytes behind the value that are not text are ignored.
    text = payload[mark:].decode(encoding, "surrogateescape" if plain else "replace")
    begin = _begin(text)
    if begin == len(text):
        return None, ""
    if text[begin] in "[{" and text.count("[") + text.count("{") > _DEPTH_MAX:
        _check_depth(text, begin)
    value, end = decoder.raw_decode(text, begin)
    if end < len(text):
        _check_end(text[begin], text[end], plain)
    if not text.isascii():
        text[:end].encode()
    return value, text[end:]


def _encoding(payload: bytes) -> tuple[str, int]:
    """The encoding, and the size of its byte order mark."""
    head = payload[:4]
    if len(head) == 4:
        for mark, name in _MARKS:
            if head.startswith(mark):
                return name, len(mark)
        if head[:3] == b"\0\0\0":
            return "utf-32-be", 0
        if head[1:] == b"\0\0\0":
            return "utf-32-le", 0
        if sum(map(bool, head)) < 2 and head[1:3] != b"\0\0":
            raise ValueError("UTF-32 in an order of bytes that is not supported")
    if len(head) > 1 and 0 in head[:2]:
        return ("utf-16-be", 0) if head[0] == 0 else ("utf-16-le", 0)
    return "utf-8", 0


def _begin(text: str) -> int:
    found = _SPACES.match(text)
    return found.end() if found else 0


def _check_end(first: str, following: str, plain: bool) -> None:
    if first in _CLOSED or following in SPACE:
        return
    if first.isalpha() and not _continues_word(following, plain):
        return
    raise ValueError(f"a value is followed by {following!r}")


def _continues_word(following: str, plain: bool) -> bool:
    # In UTF-8, Jackson treats every character beyond ASCII as one that continues a word.
    if following <= "\x7f" or plain:
        return following not in _BEHIND_WORD
    return following <= "\x9f" or unicodedata.category(following) in _IN_NAMES


def _check_depth(text: str, begin: int) -> None:
    depth = 0
    for found in _BRACKETS.finditer(text, begin):
        mark = found.group()
        if mark in ("[", "{"):
            depth += 1
        elif mark in ("]", "}"):
            depth -= 1
        if depth > _DEPTH_MAX:
            raise ValueError(f"it is nested more than {_DEPTH_MAX} deep")
        if depth <= 0:
            return
