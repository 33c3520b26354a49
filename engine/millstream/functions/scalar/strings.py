"""String functions (reference: functions, section 4). Positions count code points."""

from __future__ import annotations

import re

import pyarrow as pa

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.entry import function, joined, let, rowwise
from millstream.functions.scalar.masks import MASKS

CATEGORY = "STRING"

_ASTRAL = "[^\U00010000-\U0010ffff]"
_BLANKS = "".join(map(chr, range(1, 33)))


def _start(length: str) -> str:
    """The 1-based start that a position means: 0 is 1, negative counts from the end."""
    return (
        f"CASE WHEN {{1}} > 0 THEN {{1}} WHEN {{1}} = 0 OR -({{1}}) > {length} THEN 1"
        f" ELSE {length} + {{1}} + 1 END"
    )


_LENGTH = "CASE WHEN {2} > 0 THEN {2} WHEN {2} <= 0 THEN 0 END"
_BYTES_FROM = let("_s", _start("octet_length({0})"), "array_slice({0}, _s, octet_length({0}))")
_BYTES_PART = let(
    "_s",
    _start("octet_length({0})"),
    f"array_slice({{0}}, _s, _s - 1 + CAST({_LENGTH} AS BIGINT))",
)
_NO_PAD = "CASE WHEN {1} < 0 OR octet_length({2}) = 0 THEN NULL"


def _pad(left: bool) -> list[tuple[str, str]]:
    pad = "lpad" if left else "rpad"
    fill = "array_slice(repeat({2}, {1}), 1, {1} - octet_length({0}))"
    both = f"{fill} || {{0}}" if left else f"{{0}} || {fill}"
    return [
        (
            "STRING, INTEGER, STRING -> STRING",
            f"CASE WHEN {{1}} < 0 OR {{2}} = '' THEN NULL ELSE {pad}({{0}}, {{1}}, {{2}}) END",
        ),
        (
            "BYTES, INTEGER, BYTES -> BYTES",
            f"{_NO_PAD} WHEN octet_length({{0}}) >= {{1}} AND {{2}} IS NOT NULL"
            f" THEN array_slice({{0}}, 1, {{1}}) ELSE {both} END",
        ),
    ]


_FOUND = (
    "list_filter(range(1, length({0}) + 1), lambda _i: substring({0}, _i, length({1})) = {1}"
    " AND %s)"
)
_INSTR = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL OR %s < 1 THEN 0 WHEN {2} > 0 THEN coalesce("
    + _FOUND % "_i >= {2}"
    + "[%s], 0) WHEN {2} < 0 THEN coalesce("
    + _FOUND % "_i <= length({0}) + {2} + 1"
    + "[-(%s)], 0) ELSE 0 END"
)


def _instr(occurrence: str) -> str:
    return f"CAST({_INSTR % ((occurrence,) * 3)} AS INTEGER)"


_SPLIT_TO_MAP = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL OR {2} IS NULL OR {1} = '' OR {2} = '' OR {1} = {2}"
    " THEN NULL ELSE "
    + let(
        "_p",
        "list_filter(string_split({0}, {1}), lambda _x: contains(_x, {2}))",
        let(
            "_k",
            "list_transform(_p, lambda _x: split_part(_x, {2}, 1))",
            "map_from_entries(list_transform(list_filter(_k, lambda _x, _i:"
            " list_position(_k, _x) = _i), lambda _x: struct_pack(key := _x, value := split_part("
            "_p[len(_k) + 1 - list_position(list_reverse(_k), _x)], {2}, 2))))",
        ),
    )
    + " END"
)
_ESCAPES = re.compile(r"(\\u[0-9a-fA-F]{4})+|\\U[0-9a-fA-F]{8}")


def _unescaped(text: str) -> str:
    """The characters of escapes; two for the halves of a surrogate pair make one."""
    if _ESCAPES.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no escape of a character")
    codes = text.encode("ascii").decode("unicode_escape")
    return codes.encode("utf-16", "surrogatepass").decode("utf-16")


# An empty text is found before, between and after all characters.
_REPLACE = (
    "CASE WHEN {1} <> '' THEN replace({0}, {1}, {2}) WHEN {0} = '' AND {1} = '' THEN {2}"
    " WHEN {1} = '' THEN {2} || " + joined("string_split({0}, '')", "{2}") + " || {2} END"
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
            ("STRING, STRING... -> STRING", "concat({args})"),
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
            ("STRING, STRING, STRING... -> STRING", "concat_ws({args})"),
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
    function(
        "INITCAP",
        CATEGORY,
        [
            (
                "STRING -> STRING",
                "array_to_string(list_transform(regexp_extract_all({0}, '\\s+|\\S+'),"
                " lambda _w: upper(substring(_w, 1, 1)) || lower(substring(_w, 2))), '')",
            )
        ],
        "The text with the first letter of each word in upper case and the rest in lower case.",
        (("INITCAP('the  bIG dog')", "'The  Big Dog'"), ("INITCAP('')", "''")),
    ),
    function(
        "INSTR",
        CATEGORY,
        [
            (
                "STRING, STRING -> INTEGER",
                "CAST(coalesce(instr({0}, {1}), 0) AS INTEGER)",
            ),
            ("STRING, STRING, INTEGER -> INTEGER", _instr("1")),
            ("STRING, STRING, INTEGER, INTEGER -> INTEGER", _instr("{3}")),
        ],
        "The position, counted from 1, at which the second text occurs in the first; 0 if nowhere. "
        "The search starts at the third argument (backwards from the end if negative) and finds "
        "the occurrence given by the fourth.",
        (
            ("INSTR('banana', 'an')", "2"),
            ("INSTR('banana', 'an', 1, 2)", "4"),
            ("INSTR('banana', 'an', -1)", "4"),
            ("INSTR('banana', 'x')", "0"),
            ("INSTR('banana', 'an', 1, 0)", "0"),
            ("INSTR('banana', NULL, 7)", "0"),
        ),
        null_propagates=False,
    ),
    function(
        "LCASE",
        CATEGORY,
        [("STRING -> STRING", "lower({0})")],
        "The text in lower case.",
        (("LCASE('Ab1')", "'ab1'"), ("LCASE(NULL)", "NULL")),
    ),
    function(
        "UCASE",
        CATEGORY,
        [("STRING -> STRING", "upper(replace({0}, 'ß', 'SS'))")],
        "The text in upper case.",
        (("UCASE('Ab1')", "'AB1'"), ("UCASE('weiß')", "'WEISS'")),
    ),
    function(
        "LEN",
        CATEGORY,
        [
            (
                "STRING -> INTEGER",
                "CAST(length({0}) + CASE WHEN strlen({0}) > length({0}) THEN"
                f" length(regexp_replace({{0}}, '{_ASTRAL}', '', 'g')) ELSE 0 END AS INTEGER)",
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
        "SPLIT",
        CATEGORY,
        [
            (
                "STRING, STRING -> ARRAY<STRING>",
                "CASE WHEN {1} IS NOT NULL THEN string_split({0}, {1}) END",
            ),
            (
                "BYTES, BYTES -> ARRAY<BYTES>",
                # What is split is text of hexadecimal digit pairs, each followed by a blank.
                "CASE WHEN {1} IS NULL THEN NULL WHEN octet_length({0}) = 0 THEN [from_hex('')]"
                " WHEN octet_length({1}) = 0 AND {0} IS NOT NULL THEN list_transform("
                "regexp_extract_all(hex({0}), '..'), lambda _x: from_hex(_x))"
                " ELSE list_transform(string_split(regexp_replace(hex({0}), '(..)', '\\1 ', 'g'),"
                " regexp_replace(hex({1}), '(..)', '\\1 ', 'g')),"
                " lambda _x: from_hex(replace(_x, ' ', ''))) END",
            ),
        ],
        "The parts between the occurrences of a delimiter; an empty delimiter splits everywhere.",
        (
            ("SPLIT(',a,,b', ',')", "ARRAY['', 'a', '', 'b']"),
            ("SPLIT('ab', '')", "ARRAY['a', 'b']"),
            ("SPLIT('ab', NULL)", "NULL"),
            ("SPLIT('', ',')", "ARRAY['']"),
            ("ARRAY_LENGTH(SPLIT(TO_BYTES('', 'utf8'), TO_BYTES('', 'utf8')))", "1"),
        ),
    ),
    function(
        "SPLIT_TO_MAP",
        CATEGORY,
        [("STRING, STRING, STRING -> MAP<STRING, STRING>", _SPLIT_TO_MAP)],
        "A map of the text's entries, split by the second argument, of a key and a value, split by "
        "the third. The last of equal keys wins; entries without the third argument are left out.",
        (
            ("SPLIT_TO_MAP('a=1;b=2;a=3', ';', '=')", "MAP('a':='3', 'b':='2')"),
            ("SPLIT_TO_MAP('a=1', '=', '=')", "NULL"),
        ),
    ),
    function(
        "SUBSTRING",
        CATEGORY,
        [
            ("STRING, INTEGER -> STRING", f"substring({{0}}, {_start('length({0})')})"),
            (
                "STRING, INTEGER, INTEGER -> STRING",
                f"substring({{0}}, {_start('length({0})')}, {_LENGTH})",
            ),
            ("BYTES, INTEGER -> BYTES", _BYTES_FROM),
            ("BYTES, INTEGER, INTEGER -> BYTES", _BYTES_PART),
        ],
        "The part from a position on, counted from 1 or, if negative, from the end; of at most the "
        "given length.",
        (
            ("SUBSTRING('network', -4)", "'work'"),
            ("SUBSTRING('network', 0, 3)", "'net'"),
            ("SUBSTRING('network', -4, 2)", "'wo'"),
            ("SUBSTRING('network', -9, 3)", "'net'"),
            ("FROM_BYTES(SUBSTRING(TO_BYTES('network', 'utf8'), 4, 2), 'utf8')", "'wo'"),
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
