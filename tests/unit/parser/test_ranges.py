"""Ranges of history behind the names of sources: forms, places and mistakes."""

from __future__ import annotations

import pytest

from millstream_parser import SyntaxFailure, parse, print_statement
from millstream_parser.history import AsOf, OffsetRange, Range, TimeRange
from millstream_parser.statements import Query, SelectStatement


def query(text: str) -> Query:
    (statement,) = parse(text)
    assert isinstance(statement, SelectStatement) and statement.query is not None
    assert parse(print_statement(statement)) == (statement,)
    return statement.query


FORMS: list[tuple[str, Range]] = [
    ("AS OF TIMESTAMP '2026-01-31T12:00'", AsOf("2026-01-31T12:00")),
    ("as of timestamp 1700000000000", AsOf(1700000000000)),
    ("BETWEEN OFFSETS 3 AND 9", OffsetRange((3,), (9,))),
    ("BETWEEN OFFSETS (3, 0) AND (9, 7)", OffsetRange((3, 0), (9, 7))),
    ("FROM TIMESTAMP '2026-01' TO 1800000000000", TimeRange("2026-01", 1800000000000)),
]


@pytest.mark.parametrize(("text", "expected"), FORMS)
def test_forms(text: str, expected: Range) -> None:
    source = query(f"SELECT * FROM s {text};").source
    assert (source.range, source.alias) == (expected, None)
    assert query(f"SELECT * FROM s {text} AS x WHERE a = 1;").source.alias == "X"
    joined = query(f"SELECT * FROM s JOIN t {text} x ON s.a = x.a;").joins[0].source
    assert (joined.range, joined.alias) == (expected, "X")


@pytest.mark.parametrize("alias", ["OF", "OFFSETS", "TIMESTAMP"])
def test_words_of_ranges_are_names_elsewhere(alias: str) -> None:
    assert query(f"SELECT * FROM s AS {alias};").source.alias == alias


MISTAKES = [
    ("SELECT * FROM s AS OF TIMESTAMP yesterday;", "yesterday", "milliseconds since 1970"),
    ("SELECT * FROM s BETWEEN OFFSETS 1 TO 2;", "TO", ""),
    ("SELECT * FROM s BETWEEN OFFSETS (1,) AND 2;", ")", ""),
    ("SELECT * FROM s FROM TIMESTAMP 1 AND 2;", "AND", ""),
]


@pytest.mark.parametrize(("text", "at", "hint"), MISTAKES)
def test_mistakes(text: str, at: str, hint: str) -> None:
    with pytest.raises(SyntaxFailure) as caught:
        parse(text)
    span = caught.value.span
    assert span is not None and text[span.start : span.end] == at
    assert hint in caught.value.hint


def test_ranges_in_queries_beyond_the_dialect() -> None:
    text = (
        "WITH x AS (SELECT EXTRACT(YEAR FROM TIMESTAMP '2024-01-01') AS y, FROM s AS OF TIMESTAMP"
        " 5) SELECT DISTINCT * FROM x, t BETWEEN OFFSETS 1 AND 2 u"
    ).replace("y, FROM", "y FROM")
    (statement,) = parse(text, extended_pull=True)
    assert isinstance(statement, SelectStatement) and statement.extended == text
    found = [(text[span.start : span.end], ranged) for span, ranged in statement.ranges]
    assert found == [
        ("AS OF TIMESTAMP 5", AsOf(5)),
        ("BETWEEN OFFSETS 1 AND 2", OffsetRange((1,), (2,))),
    ]
