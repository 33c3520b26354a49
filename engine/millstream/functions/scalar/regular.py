"""Regular expressions (reference: functions, section 4).

With a group number they run in Python, whose dialect is nearest to Java's; without one in DuckDB
(RE2), where an expression with look-around or back-references is an error.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.entry import function, rowwise

CATEGORY = "REGULAR EXPRESSION"


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as error:
        raise ValueError(f"invalid regular expression {pattern!r}: {error}") from error


def _extract(pattern: str, text: str, group: int) -> str | None:
    found = _compiled(pattern).search(text)
    return found.group(group) if found and 0 <= group <= found.re.groups else None


def _extract_all(pattern: str, text: str, group: int) -> list[str | None] | None:
    compiled = _compiled(pattern)
    if not 0 <= group <= compiled.groups:
        return None
    return [found.group(group) for found in compiled.finditer(text)]


_REPLACEMENT = "regexp_replace(replace({2}, '\\', '\\\\'), '\\$(\\d)', '\\\\\\1', 'g')"

REGULAR: tuple[ScalarFunction, ...] = (
    function(
        "REGEXP_EXTRACT",
        CATEGORY,
        [
            (
                "STRING, STRING -> STRING",
                "CASE WHEN regexp_matches({1}, {0}) THEN regexp_extract({1}, {0}) END",
            ),
            Variant("STRING, STRING, INTEGER -> STRING", python=rowwise(_extract, pa.string())),
        ],
        "What an expression, or a group of it, first matches in a text.",
        (
            ("REGEXP_EXTRACT('b.', 'abcbd')", "'bc'"),
            ("REGEXP_EXTRACT('(\\w)(\\d+)', 'k42', 2)", "'42'"),
            ("REGEXP_EXTRACT('x', 'abc')", "NULL"),
        ),
    ),
    function(
        "REGEXP_EXTRACT_ALL",
        CATEGORY,
        [
            ("STRING, STRING -> ARRAY<STRING>", "regexp_extract_all({1}, {0})"),
            Variant(
                "STRING, STRING, INTEGER -> ARRAY<STRING>",
                python=rowwise(_extract_all, pa.list_(pa.string())),
            ),
        ],
        "Everything that an expression, or a group of it, matches in a text.",
        (
            ("REGEXP_EXTRACT_ALL('b.', 'abcbd')", "ARRAY['bc', 'bd']"),
            ("REGEXP_EXTRACT_ALL('(b)(.)', 'abcbd', 2)", "ARRAY['c', 'd']"),
        ),
    ),
    function(
        "REGEXP_REPLACE",
        CATEGORY,
        [
            (
                "STRING, STRING, STRING -> STRING",
                f"regexp_replace({{0}}, {{1}}, {_REPLACEMENT}, 'g')",
            )
        ],
        "The text with everything an expression matches replaced; $1 stands for the first group.",
        (
            ("REGEXP_REPLACE('a1b22', '\\d+', '-')", "'a-b-'"),
            ("REGEXP_REPLACE('a1', '(\\w)(\\d)', '$2$1')", "'1a'"),
        ),
    ),
    function(
        "REGEXP_SPLIT_TO_ARRAY",
        CATEGORY,
        [("STRING, STRING -> ARRAY<STRING>", "regexp_split_to_array({0}, {1})")],
        "The parts of a text between the matches of an expression.",
        (
            ("REGEXP_SPLIT_TO_ARRAY('1a2b3', '[a-z]')", "ARRAY['1', '2', '3']"),
            ("REGEXP_SPLIT_TO_ARRAY('ab', '')", "ARRAY['a', 'b']"),
        ),
    ),
)
"""The functions of this category."""
