"""Regular expressions (reference: functions, section 4).

DuckDB's (RE2) are fast but refuse look-around and back-references; what they refuse, and groups by
number, runs in Python, whose dialect is nearest to Java's.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.entry import function, rowwise

CATEGORY = "REGULAR EXPRESSION"


_JAVA_GROUP = re.compile(r"\(\?<(?![=!])")
_JAVA_REFERENCE = re.compile(r"\\(.)|\$(\d|\{(\w+)\})|([\\$])", re.DOTALL)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(_JAVA_GROUP.sub("(?P<", pattern).replace("\\z", "\\Z"), re.ASCII)
    except re.error as error:
        raise ValueError(f"invalid regular expression {pattern!r}: {error}") from error


def _extract(pattern: str, text: str, group: int = 0) -> str | None:
    found = _compiled(pattern).search(text)
    return found.group(group) if found and 0 <= group <= found.re.groups else None


def _extract_all(pattern: str, text: str, group: int = 0) -> list[str | None] | None:
    compiled = _compiled(pattern)
    if not 0 <= group <= compiled.groups:
        return None
    return [found.group(group) for found in compiled.finditer(text)]


def _replace(text: str, pattern: str, replacement: str) -> str:
    def piece(found: re.Match[str], part: re.Match[str]) -> str:
        escaped, number, name, alone = part.groups()
        if alone is not None:
            raise ValueError(f"invalid replacement {replacement!r}")
        if escaped is not None:
            return str(escaped)
        try:
            return found.group(name or int(number)) or ""
        except IndexError:
            raise ValueError(f"{replacement!r} names a group that is not there") from None

    def filled(found: re.Match[str]) -> str:
        return _JAVA_REFERENCE.sub(lambda part: piece(found, part), replacement)

    return _compiled(pattern).sub(filled, text)


def _split(text: str, pattern: str) -> list[str]:
    """A match of nothing at either end splits nothing off."""
    compiled = _compiled(pattern)
    edges = [0]
    for found in compiled.finditer(text):
        if found.start() < found.end() or 0 < found.start() < len(text):
            edges += found.span()
    edges.append(len(text))
    return [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]


_REPLACEMENT = "regexp_replace(replace({2}, '\\', '\\\\'), '\\$(\\d)', '\\\\\\1', 'g')"

REGULAR: tuple[ScalarFunction, ...] = (
    function(
        "REGEXP_EXTRACT",
        CATEGORY,
        [
            Variant(
                "STRING, STRING -> STRING",
                "CASE WHEN regexp_matches({1}, {0}) THEN regexp_extract({1}, {0}) END",
                python=rowwise(_extract, pa.string()),
            ),
            Variant("STRING, STRING, INTEGER -> STRING", python=rowwise(_extract, pa.string())),
        ],
        "What an expression, or a group of it, first matches in a text.",
        (
            ("REGEXP_EXTRACT('b.', 'abcbd')", "'bc'"),
            ("REGEXP_EXTRACT('(\\w)(\\d+)', 'k42', 2)", "'42'"),
            ("REGEXP_EXTRACT('x', 'abc')", "NULL"),
            ("REGEXP_EXTRACT('(?<=a)b', 'cb ab')", "'b'"),
            ("REGEXP_EXTRACT('(', 'abc')", "NULL"),
        ),
    ),
    function(
        "REGEXP_EXTRACT_ALL",
        CATEGORY,
        [
            Variant(
                "STRING, STRING -> ARRAY<STRING>",
                "regexp_extract_all({1}, {0})",
                python=rowwise(_extract_all, pa.list_(pa.string())),
            ),
            Variant(
                "STRING, STRING, INTEGER -> ARRAY<STRING>",
                python=rowwise(_extract_all, pa.list_(pa.string())),
            ),
        ],
        "Everything that an expression, or a group of it, matches in a text.",
        (
            ("REGEXP_EXTRACT_ALL('b.', 'abcbd')", "ARRAY['bc', 'bd']"),
            ("REGEXP_EXTRACT_ALL('(b)(.)', 'abcbd', 2)", "ARRAY['c', 'd']"),
            ("ARRAY_LENGTH(REGEXP_EXTRACT_ALL('x', 'abc'))", "0"),
            ("REGEXP_EXTRACT_ALL('b', 'abc', 1)", "NULL"),
        ),
    ),
    function(
        "REGEXP_REPLACE",
        CATEGORY,
        [
            Variant(
                "STRING, STRING, STRING -> STRING",
                f"regexp_replace({{0}}, {{1}}, {_REPLACEMENT}, 'g')",
                python=rowwise(_replace, pa.string()),
            )
        ],
        "The text with everything an expression matches replaced; $1 stands for the first group.",
        (
            ("REGEXP_REPLACE('a1b22', '\\d+', '-')", "'a-b-'"),
            ("REGEXP_REPLACE('a1', '(\\w)(\\d)', '$2$1')", "'1a'"),
            ("REGEXP_REPLACE('aa b', '(.)\\1', '$1')", "'a b'"),
            ("REGEXP_REPLACE('abc', '(b)', '$2')", "NULL"),
        ),
    ),
    function(
        "REGEXP_SPLIT_TO_ARRAY",
        CATEGORY,
        [
            Variant(
                "STRING, STRING -> ARRAY<STRING>",
                "CASE WHEN {1} IS NOT NULL THEN regexp_split_to_array({0}, {1}) END",
                python=rowwise(_split, pa.list_(pa.string())),
            )
        ],
        "The parts of a text between the matches of an expression.",
        (
            ("REGEXP_SPLIT_TO_ARRAY('1a2b3', '[a-z]')", "ARRAY['1', '2', '3']"),
            ("REGEXP_SPLIT_TO_ARRAY('ab', '')", "ARRAY['a', 'b']"),
            ("REGEXP_SPLIT_TO_ARRAY('-a-', '-')", "ARRAY['', 'a', '']"),
            ("REGEXP_SPLIT_TO_ARRAY('a1b', '(?<=1)')", "ARRAY['a1', 'b']"),
            ("REGEXP_SPLIT_TO_ARRAY('a', NULL)", "NULL"),
        ),
    ),
)
"""The functions of this category."""
