"""REGEXP_REPLACE beside what Java 17 answers, by RE2 and by Python alike."""

from __future__ import annotations

import pytest

from tests.unit.functions.evaluating import check

REPLACEMENTS = [
    ("abc", "b*", "-", "'-a--c-'"),
    ("abc", "x*", "-", "'-a-b-c-'"),
    ("abc", "", "-", "'-a-b-c-'"),
    ("", "a*", "-", "'-'"),
    ("aab", "a*?", "-", "'-a-a-b-'"),
    ("abc", "b", "[$0]", "'a[b]c'"),
    ("abc", "(b)", "$1$1", "'abbc'"),
    ("abc", "(b)", "$10", "'ab0c'"),
    ("abc", "(b)", "$2", "NULL"),
    ("abc", "b", r"\$1", "'a$1c'"),
    ("abc", "b", r"\\", r"'a\c'"),
    ("abc", "b", "$", "NULL"),
    ("abc", "b", "$x", "NULL"),
    ("abc", "(?<x>b)", "[${x}]", "'a[b]c'"),
    ("abc", "(?<x>b)", "[${y}]", "NULL"),
    ("a.b", r"\.", "", "'ab'"),
]


@pytest.mark.parametrize(("text", "pattern", "replacement", "result"), REPLACEMENTS)
def test_replacement(text: str, pattern: str, replacement: str, result: str) -> None:
    check(f"REGEXP_REPLACE('{text}', '{pattern}', '{replacement}')", result)
