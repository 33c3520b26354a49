"""Bytes, encodings and numbers in bytes (reference: functions, sections 4 and 5)."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.entry import function, let, rowwise

CATEGORY = "CONVERSIONS"


def from_base64(text: str) -> str:
    """SQL of the bytes of base64 text, with or without padding."""
    return f"from_base64({text} || repeat('=', -length({text}) & 3))"


_UNKNOWN = (
    "CAST(CAST('unknown encoding, or input and output encoding are the same' AS INTEGER) AS %s)"
)
_HEX_DIGITS = (
    "CASE WHEN starts_with({0}, '0x') THEN CASE WHEN length({0}) % 2 = 1 THEN '0' ELSE '' END"
    " || substring({0}, 3) WHEN regexp_full_match({0}, '[xX]''.*''')"
    " THEN substring({0}, 3, length({0}) - 3) ELSE {0} END"
)
_FROM_HEX = let(
    "_h", _HEX_DIGITS, "from_hex(CASE WHEN length(_h) % 2 = 1 THEN 'odd length' ELSE _h END)"
)
_TO_BYTES = (
    f"CASE WHEN {{0}} IS NULL OR {{1}} IS NULL THEN NULL ELSE CASE lower({{1}})"
    f" WHEN 'hex' THEN {_FROM_HEX}"
    " WHEN 'utf8' THEN encode({0})"
    " WHEN 'ascii' THEN encode(regexp_replace({0}, '[^\\x00-\\x7f]', '?', 'g'))"
    f" WHEN 'base64' THEN {from_base64('{0}')} ELSE {_UNKNOWN % 'BLOB'} END END"
)
_BYTE = "('0x' || substring(_h, 2 * _i + 1, 2))::INTEGER"
_ASCII = let(
    "_h",
    "hex(%s)",
    "array_to_string(list_transform(range(length(_h) // 2), lambda _i:"
    f" CASE WHEN {_BYTE} < 128 THEN chr({_BYTE}) ELSE '\ufffd' END), '')",
)


def _text(value: str, encoding: str, hexadecimal: str) -> str:
    return (
        f"CASE WHEN {value} IS NULL OR {encoding} IS NULL THEN NULL ELSE CASE lower({encoding})"
        f" WHEN 'hex' THEN {hexadecimal} WHEN 'utf8' THEN decode({value})"
        f" WHEN 'ascii' THEN {_ASCII % value} WHEN 'base64' THEN to_base64({value})"
        f" ELSE {_UNKNOWN % 'VARCHAR'} END END"
    )


_ENCODE = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL OR {2} IS NULL THEN NULL"
    f" WHEN lower({{1}}) = lower({{2}}) THEN {_UNKNOWN % 'VARCHAR'} ELSE "
    + let("_b", _TO_BYTES, _text("_b", "{2}", "lower(hex(_b))"))
    + " END"
)


def _bytes_of(text: str, encoding: str) -> bytes:
    match encoding.lower():
        case "hex":
            quoted = re.fullmatch(r"[xX]'(.*)'", text, re.DOTALL)
            digits = quoted[1] if quoted else text
            if text.startswith("0x"):
                digits = "0" * (len(text) % 2) + text[2:]
            if not digits.isalnum() and digits:
                raise ValueError(f"{text!r} is not hexadecimal")
            return bytes.fromhex(digits)
        case "utf8":
            return text.encode()
        case "ascii":
            return text.encode("ascii", "replace")
        case "base64":
            return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        case _:
            raise ValueError(f"unknown encoding {encoding!r}")


def _text_of(data: bytes, encoding: str) -> str:
    match encoding.lower():
        case "hex":
            return data.hex().upper()
        case "utf8" | "ascii" as name:
            return data.decode(name, "replace")
        case "base64":
            return base64.b64encode(data).decode()
        case _:
            raise ValueError(f"unknown encoding {encoding!r}")


def _recoded(text: str, given: str, wanted: str) -> str:
    if given.lower() == wanted.lower():
        raise ValueError("the encodings are the same")
    made = _text_of(_bytes_of(text, given), wanted)
    return made.lower() if wanted.lower() == "hex" else made


def _number(name: str, result: str, layout: str, arrow: Any, example: str) -> ScalarFunction:
    """A number of a fixed number of bytes."""
    size = struct.calcsize(layout)

    def read(data: bytes, order: str = "BIG_ENDIAN") -> Any:
        if len(data) != size or order not in ("BIG_ENDIAN", "LITTLE_ENDIAN"):
            raise ValueError(f"{name} needs {size} bytes and BIG_ENDIAN or LITTLE_ENDIAN")
        return struct.unpack((">" if order == "BIG_ENDIAN" else "<") + layout, data)[0]

    compute: Callable[..., Any] = rowwise(read, arrow)
    return function(
        name,
        CATEGORY,
        [
            Variant(f"BYTES -> {result}", python=compute),
            Variant(f"BYTES, STRING -> {result}", python=compute),
        ],
        f"The {result} in {size} bytes, the highest first or in the order LITTLE_ENDIAN.",
        (
            (f"{name}(TO_BYTES('{example}', 'hex'))", "1E0" if layout == "d" else "1"),
            (f"{name}(TO_BYTES('00', 'hex'))", "NULL"),
        ),
    )


BYTE_FUNCTIONS: tuple[ScalarFunction, ...] = (
    function(
        "ENCODE",
        CATEGORY,
        [
            Variant(
                "STRING, STRING, STRING -> STRING", _ENCODE, python=rowwise(_recoded, pa.string())
            )
        ],
        "Text in one encoding as text in another: hex, utf8, ascii or base64.",
        (
            ("ENCODE('4869', 'hex', 'utf8')", "'Hi'"),
            ("ENCODE('0xabc', 'hex', 'base64')", "'Crw='"),
            ("ENCODE('Hié', 'utf8', 'hex')", "'4869c3a9'"),
            ("ENCODE('ff48', 'hex', 'utf8')", "'\ufffdH'"),
            ("ENCODE('Hi', 'utf8', 'utf8')", "NULL"),
        ),
    ),
    function(
        "FROM_BYTES",
        CATEGORY,
        [
            Variant(
                "BYTES, STRING -> STRING",
                _text("{0}", "{1}", "hex({0})"),
                python=rowwise(_text_of, pa.string()),
            )
        ],
        "Bytes as text in an encoding: hex, utf8, ascii or base64.",
        (
            ("FROM_BYTES(TO_BYTES('Hi', 'utf8'), 'hex')", "'4869'"),
            ("FROM_BYTES(TO_BYTES('Hi', 'utf8'), 'base64')", "'SGk='"),
            ("FROM_BYTES(TO_BYTES('ff48', 'hex'), 'utf8')", "'\ufffdH'"),
            ("FROM_BYTES(TO_BYTES('ff48', 'hex'), 'ascii')", "'\ufffdH'"),
            ("FROM_BYTES(TO_BYTES('ff48', 'hex'), 'rot13')", "NULL"),
        ),
    ),
    function(
        "TO_BYTES",
        CATEGORY,
        [("STRING, STRING -> BYTES", _TO_BYTES)],
        "The bytes of text in an encoding: hex, utf8, ascii or base64.",
        (
            ("LEN(TO_BYTES('SGk=', 'base64'))", "2"),
            ("LEN(TO_BYTES('SGk', 'base64'))", "2"),
            ("TO_BYTES('Hi', 'rot13')", "NULL"),
        ),
    ),
    _number("INT_FROM_BYTES", "INTEGER", "i", pa.int32(), "00000001"),
    _number("BIGINT_FROM_BYTES", "BIGINT", "q", pa.int64(), "0000000000000001"),
    _number("DOUBLE_FROM_BYTES", "DOUBLE", "d", pa.float64(), "3FF0000000000000"),
)
"""The functions of this file."""
