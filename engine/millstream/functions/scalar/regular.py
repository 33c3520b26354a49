"""Regular expressions (reference: functions, section 4).

DuckDB's (RE2) are fast but refuse look-around and back-references; these, and groups by number, run
in Python with the library `regex`. Its dialect is close to Java's, and unlike Python's `re` it has
a timeout: an expression that backtracks for ever would block all threads.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import regex

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.bounds import PATTERN_MAX, TEXT_BYTES_MAX
from millstream.functions.scalar.entry import function, per_batch

CATEGORY = "REGULAR EXPRESSION"


_JAVA_GROUP = re.compile(r"\(\?<(?![=!])")
_JAVA_REFERENCE = re.compile(r"\\(.)|\$(\d|\{(\w+)\})|([\\$])", re.DOTALL)


_SECONDS = 0.5
"""The time limit of all expressions of one batch; the remaining rows fail."""
_TICK = 0.00001
"""Less counts as nothing left."""


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> regex.Pattern[str]:
    if len(pattern) > PATTERN_MAX:
        raise ValueError(f"a regular expression has at most {PATTERN_MAX} characters")
    try:
        java = _JAVA_GROUP.sub("(?P<", pattern).replace("\\z", "\\Z")
        return regex.compile(java, regex.ASCII | regex.VERSION0)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(f"invalid regular expression {pattern!r}: {error}") from error


class _Budget:
    """The remaining time of a batch. A row fails only when both the clock and the thread's CPU time
    have passed the limit: on a busy machine, other threads use up the clock.

    Inside a failing lambda, DuckDB calls the function row by row: such calls of a thread share a
    budget, which is refilled by the time between them.
    """

    def __init__(self) -> None:
        self.left = _SECONDS
        self._ended = time.perf_counter()
        self._since = time.thread_time()

    def refilled(self) -> _Budget:
        """The same with what has passed since it was last used."""
        self.left = min(_SECONDS, max(self.left, 0) + time.perf_counter() - self._ended)
        self._since = time.thread_time() - (_SECONDS - self.left)
        return self

    def spend(self, compute: Callable[..., Any], *row: Any) -> Any:
        """The value of a row; raises ValueError when no time is left."""
        while self._remaining() > _TICK:
            start = time.perf_counter()
            try:
                return compute(self.left, *row)
            except TimeoutError:
                pass
            finally:
                self._ended = time.perf_counter()
                self.left -= self._ended - start
        raise ValueError("a regular expression takes too long")

    def _remaining(self) -> float:
        if self.left <= _TICK:
            self.left = _SECONDS - (time.thread_time() - self._since)
        return self.left


_LONE: ContextVar[_Budget] = ContextVar("lone")
"""The budget of a thread's calls for single rows."""


def _lone() -> _Budget:
    budget = _LONE.get(None)
    if budget is None:
        _LONE.set(budget := _Budget())
    return budget.refilled()


def _timed(compute: Callable[..., Any], result: pa.DataType) -> Callable[..., pa.Array]:
    """An Arrow function that computes row by row in bounded time."""

    def computing(rows: int) -> Callable[..., Any]:
        budget = _Budget() if rows > 1 else _lone()
        return partial(budget.spend, compute)

    return per_batch(computing, result)


def _extract(left: float, pattern: str, text: str, group: int = 0) -> str | None:
    compiled = _compiled(pattern)
    if group > compiled.groups:
        return None
    found = compiled.search(text, timeout=left, concurrent=True)
    return found and _group(found, group)


def _group(found: regex.Match[str], group: int) -> str | None:
    """A number that is too large is NULL before anything is looked for; a negative one fails."""
    if group < 0:
        raise ValueError(f"there is no group {group}")
    part: str | None = found.group(group)
    return part


def _matches(left: float, compiled: regex.Pattern[str], text: str) -> Iterator[regex.Match[str]]:
    """Consecutive matches as in Java: after an empty match it continues at the next character,
    whereas Python first tries a non-empty match at the same position."""
    deadline = time.perf_counter() + left
    at = 0
    while at <= len(text):
        timeout = max(deadline - time.perf_counter(), 1e-6)
        found = compiled.search(text, at, timeout=timeout, concurrent=True)
        if found is None:
            return
        yield found
        at = found.end() + (found.start() == found.end())


def _extract_all(left: float, pattern: str, text: str, group: int = 0) -> list[str | None] | None:
    compiled = _compiled(pattern)
    if group > compiled.groups:
        return None
    return [_group(found, group) for found in _matches(left, compiled, text)]


def _replace(left: float, text: str, pattern: str, replacement: str) -> str:
    made = 0

    def piece(found: regex.Match[str], part: re.Match[str]) -> str:
        escaped, number, name, alone = part.groups()
        if alone is not None:
            raise ValueError(f"invalid replacement {replacement!r}")
        if escaped is not None:
            return str(escaped)
        try:
            return found.group(name or int(number)) or ""
        except IndexError:
            raise ValueError(f"{replacement!r} names a group that is not there") from None

    def filled(found: regex.Match[str]) -> str:
        nonlocal made
        text = _JAVA_REFERENCE.sub(lambda part: piece(found, part), replacement)
        made += len(text)
        if made > TEXT_BYTES_MAX:
            raise ValueError(f"REGEXP_REPLACE makes at most {TEXT_BYTES_MAX}")
        return text

    parts, end = [], 0
    for found in _matches(left, _compiled(pattern), text):
        parts += [text[end : found.start()], filled(found)]
        end = found.end()
    return "".join((*parts, text[end:]))


def _split(left: float, text: str, pattern: str) -> list[str]:
    """An empty match at either end splits nothing off.

    An expression without any match splits as Java's `Pattern.split`, which drops empty parts at the
    end; others keep them.
    """
    edges = [0]
    compiled = _compiled(pattern)
    for found in compiled.finditer(text, timeout=left, concurrent=True):
        if found.start() < found.end() or 0 < found.start() < len(text):
            edges += found.span()
    edges.append(len(text))
    parts = [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
    if len(parts) > 1 and compiled.fullmatch("") is not None:
        while parts and not parts[-1]:
            parts.pop()
    return parts


# DuckDB splits differently from Java where a match may be empty.
_SPLIT = (
    "CASE WHEN {1} IS NULL THEN NULL WHEN {0} = '' THEN [''] WHEN {1} = ''"
    " THEN regexp_split_to_array({0}, {1})"
    " WHEN regexp_matches('', {1}) OR contains(lower({1}), '\\b') THEN [CAST("
    "CAST('matches nothing' AS BIGINT) AS VARCHAR)]"
    " ELSE regexp_split_to_array({0}, {1}) END"
)

_REPLACEMENT = "regexp_replace(replace({2}, '\\', '\\\\'), '\\$(\\d)', '\\\\\\1', 'g')"

# Escapes, names of groups and a lone $, which is an error; groups of two digits.
_ODD_REPLACEMENT = r"\\|\$([^0-9]|$|[0-9][0-9])"

# Where a match may be empty, Java also finds one behind each other match, and RE2 does not. Results
# that may be too long are computed in Python, which checks their length.
_REPLACED = (
    f"CASE WHEN (strlen({{0}}) + 1) * strlen({{2}}) > {TEXT_BYTES_MAX} THEN CAST(CAST("
    "'REGEXP_REPLACE may make too much' AS BIGINT) AS VARCHAR)"
    f" WHEN regexp_matches({{2}}, '{_ODD_REPLACEMENT}') OR contains({{1}}, '&&')"
    " OR ({1} <> '' AND regexp_matches('', {1})) THEN CAST(CAST("
    "'Java replaces otherwise' AS BIGINT) AS VARCHAR)"
    f" ELSE regexp_replace({{0}}, {{1}}, {_REPLACEMENT}, 'g') END"
)

REGULAR: tuple[ScalarFunction, ...] = (
    function(
        "REGEXP_EXTRACT",
        CATEGORY,
        [
            Variant(
                "STRING, STRING -> STRING",
                "CASE WHEN regexp_matches({1}, {0}) THEN regexp_extract({1}, {0}) END",
                python=_timed(_extract, pa.string()),
            ),
            Variant("STRING, STRING, INTEGER -> STRING", python=_timed(_extract, pa.string())),
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
                python=_timed(_extract_all, pa.list_(pa.string())),
            ),
            Variant(
                "STRING, STRING, INTEGER -> ARRAY<STRING>",
                python=_timed(_extract_all, pa.list_(pa.string())),
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
                _REPLACED,
                python=_timed(_replace, pa.string()),
            )
        ],
        "The text with everything an expression matches replaced; $1 stands for the first group.",
        (
            ("REGEXP_REPLACE('a1b22', '\\d+', '-')", "'a-b-'"),
            ("REGEXP_REPLACE('a1', '(\\w)(\\d)', '$2$1')", "'1a'"),
            ("REGEXP_REPLACE('aa b', '(.)\\1', '$1')", "'a b'"),
            ("REGEXP_REPLACE('abc', '(b)', '$2')", "NULL"),
            ("REGEXP_REPLACE('abc', 'b*', '-')", "'-a--c-'"),
            ("REGEXP_REPLACE('abc', 'b', '\\$1')", "'a$1c'"),
            ("REGEXP_REPLACE('abc', 'b', '$')", "NULL"),
        ),
    ),
    function(
        "REGEXP_SPLIT_TO_ARRAY",
        CATEGORY,
        [
            Variant(
                "STRING, STRING -> ARRAY<STRING>",
                _SPLIT,
                python=_timed(_split, pa.list_(pa.string())),
            )
        ],
        "The parts of a text between the matches of an expression.",
        (
            ("REGEXP_SPLIT_TO_ARRAY('1a2b3', '[a-z]')", "ARRAY['1', '2', '3']"),
            ("REGEXP_SPLIT_TO_ARRAY('ab', '')", "ARRAY['a', 'b']"),
            ("REGEXP_SPLIT_TO_ARRAY('-a-', '-')", "ARRAY['', 'a', '']"),
            ("REGEXP_SPLIT_TO_ARRAY('a1b', '(?<=1)')", "ARRAY['a1', 'b']"),
            ("REGEXP_SPLIT_TO_ARRAY('a', NULL)", "NULL"),
            ("REGEXP_SPLIT_TO_ARRAY('', '')", "ARRAY['']"),
            ("REGEXP_SPLIT_TO_ARRAY('ab c', '\\b')", "ARRAY['ab', ' ', 'c']"),
            ("REGEXP_SPLIT_TO_ARRAY('axbx', 'x*')", "ARRAY['a', '', 'b']"),
        ),
    ),
)
"""The functions of this category."""
