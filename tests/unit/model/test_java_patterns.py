"""Date-time patterns against what Java 17 makes of them.

`java_times_written.tsv` and `java_times_read.tsv` hold its answers in English: every letter in
every count, and patterns drawn at random. Times are in milliseconds, dates in days, times of day
in nanoseconds where they are written and milliseconds where they are read; `lenient date` is
`SimpleDateFormat`, all else `DateTimeFormatter`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.model import java_time
from millstream.model.errors import RecordError, StatementError
from millstream.model.java_dates import parse_lenient_date
from millstream.model.java_time import compile_pattern
from millstream.model.java_zones import parse_zone

Case = tuple[str, str, str, str, str, str]


def _cases(name: str) -> list[Case]:
    text = (Path(__file__).parent / name).read_text("utf-8")
    rows = csv.reader(text.splitlines()[1:], delimiter="\t", quoting=csv.QUOTE_NONE)
    return [(kind, pattern, value, zone, is_, out) for kind, pattern, value, zone, is_, out in rows]


def _answer(call: Callable[[], object]) -> tuple[str, str]:
    try:
        return "is", str(call())
    except (RecordError, StatementError):
        return "refused", ""


def _written(kind: str, pattern: str, value: int, zone: str) -> str:
    compiled = compile_pattern(pattern)
    match kind:
        case "timestamp":
            return java_time.format_timestamp(compiled, value, parse_zone(zone))
        case "date":
            return java_time.format_date(compiled, value)
    return java_time.format_time(compiled, value)


def _read(kind: str, pattern: str, text: str, zone: str) -> int:
    match kind:
        case "timestamp":
            return java_time.parse_timestamp(compile_pattern(pattern), text, parse_zone(zone))
        case "date":
            return java_time.parse_date(compile_pattern(pattern), text)
        case "lenient date":
            return parse_lenient_date(pattern, text)
    return java_time.parse_time(compile_pattern(pattern), text) // 1_000_000


@pytest.mark.parametrize("kind", ["timestamp", "date", "time"])
def test_written_as_java_does(kind: str) -> None:
    cases = [case for case in _cases("java_times_written.tsv") if case[0] == kind]
    assert cases
    wrong = []
    for case in cases:
        _, pattern, value, zone, *expected = case
        found = _answer(lambda: _written(kind, pattern, int(value), zone))  # noqa: B023 - at once
        if found != tuple(expected):
            wrong.append((case, found))
    assert wrong == []


@pytest.mark.parametrize("kind", ["timestamp", "date", "time", "lenient date"])
def test_read_as_java_does(kind: str) -> None:
    cases = [case for case in _cases("java_times_read.tsv") if case[0] == kind]
    assert cases
    wrong = []
    for case in cases:
        _, pattern, value, zone, *expected = case
        found = _answer(lambda: _read(kind, pattern, value, zone))  # noqa: B023 - called at once
        if found != tuple(expected):
            wrong.append((case, found))
    assert wrong == []
