"""Functions that find and cut parts of texts (reference: functions, section 4)."""

from __future__ import annotations

import pyarrow as pa

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.entry import function, let, rowwise
from millstream.functions.scalar.utf16 import instr, substring, unless_astral

CATEGORY = "STRING"


def _start(length: str) -> str:
    """The 1-based start of a position: 0 is 1, negative counts from the end."""
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


_FIND = rowwise(instr, pa.int32(), nulls=True)
_CUT = rowwise(substring, pa.string())


def _instr(signature: str, sql: str) -> Variant:
    return Variant(
        signature, unless_astral(f"CAST({sql} AS INTEGER)", 0, kind="INTEGER"), python=_FIND
    )


def _substring(signature: str, sql: str) -> Variant:
    return Variant(signature, unless_astral(sql, 0), python=_CUT)


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
SUBSTRINGS: tuple[ScalarFunction, ...] = (
    function(
        "INSTR",
        CATEGORY,
        [
            _instr("STRING, STRING -> INTEGER", "coalesce(instr({0}, {1}), 0)"),
            _instr("STRING, STRING, INTEGER -> INTEGER", _INSTR % (("1",) * 3)),
            _instr("STRING, STRING, INTEGER, INTEGER -> INTEGER", _INSTR % (("{3}",) * 3)),
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
            ("INSTR('😀 banana', 'an', 4, 2)", "7"),
            ("INSTR('😀 banana', 'an', -4)", "5"),
        ),
        null_propagates=False,
    ),
    function(
        "SPLIT",
        CATEGORY,
        [
            (
                "STRING, STRING -> ARRAY<STRING>",
                # DuckDB 2.0.1 and newer split '' by '' into nothing.
                "CASE WHEN {1} IS NULL THEN NULL WHEN {0} = '' THEN ['']"
                " ELSE string_split({0}, {1}) END",
            ),
            (
                "BYTES, BYTES -> ARRAY<BYTES>",
                # The input is text of hexadecimal digit pairs, each followed by a blank.
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
            ("SPLIT('', '')", "ARRAY['']"),
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
            _substring("STRING, INTEGER -> STRING", f"substring({{0}}, {_start('length({0})')})"),
            _substring(
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
            ("SUBSTRING('😀 network', 4, 3)", "'net'"),
            ("SUBSTRING('😀', -1)", "'?'"),
            ("FROM_BYTES(SUBSTRING(TO_BYTES('network', 'utf8'), 4, 2), 'utf8')", "'wo'"),
        ),
    ),
)
"""The functions of this file."""
