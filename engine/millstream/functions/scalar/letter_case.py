"""Upper and lower case as in Java's String: by Unicode's SpecialCasing, without a locale.

DuckDB maps one character to one. Where SpecialCasing maps one to several (ß, İ, ligatures) or
depends on the letters around it (Σ at the end of a word), the text goes to Python, which has the
same rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.entry import function, rowwise

CATEGORY = "STRING"

_MANY_IN_UPPER_CASE = (
    "\u00df\u0149\u01f0\u0390\u03b0\u0587\u1e96-\u1e9a\u1f50\u1f52\u1f54\u1f56\u1f80-\u1faf"
    "\u1fb2-\u1fb4\u1fb6\u1fb7\u1fbc\u1fc2-\u1fc4\u1fc6\u1fc7\u1fcc\u1fd2\u1fd3\u1fd6\u1fd7"
    "\u1fe2-\u1fe4\u1fe6\u1fe7\u1ff2-\u1ff4\u1ff6\u1ff7\u1ffc\ufb00-\ufb06\ufb13-\ufb17"
)
_SPECIAL_IN_LOWER_CASE = "\u0130\u03a3"
_SPACE = "[ \\t\\n\\x0B\\f\\r]"
_WORD = "[^ \\t\\n\\x0B\\f\\r]"
_WORDS = re.compile(f"{_SPACE}+|{_WORD}+")


def _unless(special: str, sql: str) -> str:
    """SQL that raises for texts with special characters."""
    return (
        f"CASE WHEN regexp_matches({{0}}, '[{special}]')"
        f" THEN CAST(CAST('special casing' AS BIGINT) AS VARCHAR) ELSE {sql} END"
    )


def _capitalised(text: str) -> str:
    """The first letter and the rest of each word are converted separately."""
    return "".join(word[:1].upper() + word[1:].lower() for word in _WORDS.findall(text))


def _variant(sql: str, special: str, python: Callable[[str], str]) -> Variant:
    return Variant("STRING -> STRING", _unless(special, sql), python=rowwise(python, pa.string()))


LETTER_CASE: tuple[ScalarFunction, ...] = (
    function(
        "INITCAP",
        CATEGORY,
        [
            _variant(
                f"array_to_string(list_transform(regexp_extract_all({{0}}, '{_SPACE}+|{_WORD}+'),"
                " lambda _w: upper(substring(_w, 1, 1)) || lower(substring(_w, 2))), '')",
                _MANY_IN_UPPER_CASE + _SPECIAL_IN_LOWER_CASE,
                _capitalised,
            )
        ],
        "The text with the first letter of each word in upper case and the rest in lower case.",
        (("INITCAP('the  bIG dog')", "'The  Big Dog'"), ("INITCAP('')", "''")),
    ),
    function(
        "LCASE",
        CATEGORY,
        [_variant("lower({0})", _SPECIAL_IN_LOWER_CASE, str.lower)],
        "The text in lower case.",
        (
            ("LCASE('Ab1')", "'ab1'"),
            ("LCASE(NULL)", "NULL"),
            ("LCASE('ΟΔΥΣΣΕΥΣ')", "'οδυσσευς'"),
        ),
    ),
    function(
        "UCASE",
        CATEGORY,
        [_variant("upper({0})", _MANY_IN_UPPER_CASE, str.upper)],
        "The text in upper case.",
        (("UCASE('Ab1')", "'AB1'"), ("UCASE('weiß')", "'WEISS'"), ("UCASE('ﬂat')", "'FLAT'")),
    ),
)
"""The functions of this file."""
