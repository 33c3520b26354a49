"""String functions (reference: functions, section 4). Lengths count UTF-16 units, as in Java."""

from __future__ import annotations

import re

import pyarrow as pa

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.bounds import (
    CONCAT_WS,
    PAD_MAX,
    REPLACED_SIZE,
    SEPARATED_SIZE,
    bounded_texts,
    too_large,
)
from millstream.functions.scalar.entry import function, joined, rowwise
from millstream.functions.scalar.letter_case import LETTER_CASE
from millstream.functions.scalar.masks import MASKS
from millstream.functions.scalar.substrings import SUBSTRINGS
from millstream.functions.scalar.utf16 import ASTRAL, padding, unless_astral

CATEGORY = "STRING"

_BUT_ASTRAL = ASTRAL.replace("[", "[^")
_BLANKS = "".join(map(chr, range(33)))


_TOO_LONG = f"WHEN {{1}} > {PAD_MAX} THEN CAST({too_large('Padding', PAD_MAX)} AS"
_NO_PAD = f"CASE WHEN {{1}} < 0 OR octet_length({{2}}) = 0 THEN NULL {_TOO_LONG} VARCHAR)::BLOB"


def _pad(left: bool) -> list[Variant | tuple[str, str]]:
    pad = "lpad" if left else "rpad"
    fill = "array_slice(repeat({2}, {1}), 1, {1} - octet_length({0}))"
    both = f"{fill} || {{0}}" if left else f"{{0}} || {fill}"
    return [
        Variant(
            "STRING, INTEGER, STRING -> STRING",
            unless_astral(
                f"CASE WHEN {{1}} < 0 OR {{2}} = '' THEN NULL {_TOO_LONG} VARCHAR)"
                f" ELSE {pad}({{0}}, {{1}}, {{2}}) END",
                0,
                2,
            ),
            python=rowwise(padding(left=left, most=PAD_MAX), pa.string()),
        ),
        (
            "BYTES, INTEGER, BYTES -> BYTES",
            f"{_NO_PAD} WHEN octet_length({{0}}) >= {{1}} AND {{2}} IS NOT NULL"
            f" THEN array_slice({{0}}, 1, {{1}}) ELSE {both} END",
        ),
    ]


_ESCAPES = re.compile(r"(\\u[0-9a-fA-F]{4})+|\\U(000[0-9a-fA-F]|0010)[0-9a-fA-F]{4}")
_NO_DIGITS = re.compile(r"\\u(?![0-9a-fA-F]{4})....", re.DOTALL)


def _unescaped(text: str) -> str | None:
    """The characters of escapes; two for the halves of a surrogate pair make one. As in Java, what
    begins like an escape fails, and other text is NULL."""
    if _NO_DIGITS.match(text) is not None:
        raise ValueError(f"{text!r} has no four digits")
    if _ESCAPES.fullmatch(text) is None:
        return None
    codes = text.encode("ascii").decode("unicode_escape").encode("utf-16", "surrogatepass")
    try:
        return codes.decode("utf-16")
    except UnicodeDecodeError:
        return None  # half of a pair


# An empty text matches before, between and after all characters.
_REPLACE = bounded_texts(
    "REPLACE",
    "{args}",
    "CASE WHEN _l[2] <> '' THEN replace(_l[1], _l[2], _l[3]) WHEN _l[1] = '' AND _l[2] = ''"
    " THEN _l[3] WHEN _l[2] = '' THEN _l[3] || "
    + joined("string_split(_l[1], '')", "_l[3]")
    + " || _l[3] END",
    REPLACED_SIZE,
)
_UUID = (
    "CASE WHEN octet_length({0}) = 16 THEN regexp_replace(lower(hex({0})),"
    " '(........)(....)(....)(....)(............)', '\\1-\\2-\\3-\\4-\\5') END"
)

STRINGS: tuple[ScalarFunction, ...] = (
    function(
        "CHR",
        CATEGORY,
        [
            (
                "INTEGER -> STRING",
                "CASE WHEN {0} BETWEEN 0 AND 1114111 AND {0} NOT BETWEEN 55296 AND 57343"
                " THEN chr({0}) END",
            ),
            Variant("STRING -> STRING", python=rowwise(_unescaped, pa.string())),
        ],
        "The character of a code point, given as a number or as text of the form \\u0041.",
        (
            ("CHR(75)", "'K'"),
            ("CHR('\\u004b')", "'K'"),
            ("CHR('\\ud83d\\ude00')", "'😀'"),
            ("CHR('K')", "NULL"),
            ("CHR(-1)", "NULL"),
        ),
    ),
    function(
        "CONCAT",
        CATEGORY,
        [
            (
                "STRING, STRING... -> STRING",
                bounded_texts("CONCAT", "{args}", "coalesce(array_to_string(_l, ''), '')"),
            ),
            (
                "BYTES, BYTES... -> BYTES",
                "list_reduce(list_filter([{args}], lambda _x: _x IS NOT NULL),"
                " lambda _a, _x: _a || _x, ''::BLOB)",
            ),
        ],
        "The arguments one after the other; NULLs add nothing.",
        (("CONCAT('a', NULL, 'b')", "'ab'"), ("CONCAT(NULL, CAST(NULL AS STRING))", "''")),
        null_propagates=False,
    ),
    function(
        "CONCAT_WS",
        CATEGORY,
        [
            (
                "STRING, STRING, STRING... -> STRING",
                bounded_texts("CONCAT_WS", "{args}", CONCAT_WS, SEPARATED_SIZE),
            ),
            (
                "BYTES, BYTES, BYTES... -> BYTES",
                "CASE WHEN {0} IS NULL THEN NULL ELSE coalesce(list_reduce(list_filter([{rest}],"
                " lambda _x: _x IS NOT NULL), lambda _a, _x: coalesce(_a || {0}, ''::BLOB) || _x,"
                " NULL::BLOB), ''::BLOB) END",
            ),
        ],
        "The arguments after the first with the first between them; NULLs are left out.",
        (("CONCAT_WS('-', 'a', NULL, 'c')", "'a-c'"), ("CONCAT_WS(NULL, 'a', 'b')", "NULL")),
        null_propagates=False,
    ),
    *LETTER_CASE,
    function(
        "LEN",
        CATEGORY,
        [
            (
                "STRING -> INTEGER",
                "CAST(length({0}) + CASE WHEN strlen({0}) > length({0}) THEN"
                f" length(regexp_replace({{0}}, '{_BUT_ASTRAL}', '', 'g')) ELSE 0 END AS INTEGER)",
            ),
            ("BYTES -> INTEGER", "CAST(octet_length({0}) AS INTEGER)"),
        ],
        "The number of UTF-16 code units, or of bytes.",
        (("LEN('abc')", "3"), ("LEN(TO_BYTES('abc', 'utf8'))", "3"), ("LEN('😀')", "2")),
    ),
    function(
        "LPAD",
        CATEGORY,
        _pad(left=True),
        "The text or bytes cut or filled up on the left to a length.",
        (
            ("LPAD('7', 3, '0')", "'007'"),
            ("LPAD('a', 3, '')", "NULL"),
            ("LPAD('😀', 3, '7')", "'7😀'"),
            ("FROM_BYTES(LPAD(TO_BYTES('7', 'utf8'), 3, TO_BYTES('ab', 'utf8')), 'utf8')", "'ab7'"),
        ),
    ),
    function(
        "RPAD",
        CATEGORY,
        _pad(left=False),
        "The text or bytes cut or filled up on the right to a length.",
        (
            ("RPAD('abc', 2, '-')", "'ab'"),
            ("RPAD('abc', 5, '-')", "'abc--'"),
            ("FROM_BYTES(RPAD(TO_BYTES('7', 'utf8'), 3, TO_BYTES('ab', 'utf8')), 'utf8')", "'7ab'"),
        ),
    ),
    *MASKS,
    *SUBSTRINGS,
    function(
        "MD5",
        CATEGORY,
        [("STRING -> STRING", "md5({0})")],
        "The MD5 digest of the text's UTF-8 bytes in lower-case hexadecimal.",
        (("MD5('a')", "'0cc175b9c0f1b6a831c399e269772661'"), ("MD5(NULL)", "NULL")),
    ),
    function(
        "REPLACE",
        CATEGORY,
        [("STRING, STRING, STRING -> STRING", _REPLACE)],
        "The text with every occurrence of the second replaced by the third.",
        (
            ("REPLACE('banana', 'an', 'o')", "'booa'"),
            ("REPLACE('a', NULL, 'b')", "NULL"),
            ("REPLACE('ab', '', '-')", "'-a-b-'"),
        ),
    ),
    function(
        "TRIM",
        CATEGORY,
        [("STRING -> STRING", f"trim({{0}}, '{_BLANKS}')")],
        "The text without blanks and control characters at both ends.",
        (("TRIM('  a b ')", "'a b'"), ("TRIM(NULL)", "NULL")),
    ),
    function(
        "UUID",
        CATEGORY,
        [("-> STRING", "CAST(uuid() AS VARCHAR)"), ("BYTES -> STRING", _UUID)],
        "A random UUID, or the one of 16 bytes.",
        (
            ("LEN(UUID())", "36"),
            (
                "UUID(TO_BYTES('00112233445566778899aabbccddeeff', 'hex'))",
                "'00112233-4455-6677-8899-aabbccddeeff'",
            ),
        ),
        deterministic=False,
    ),
)
"""The functions of this category."""
