"""An error during the execution of a statement shows the statement."""

from __future__ import annotations

from millstream.model.errors import Span, UnavailableError
from millstream.scripts.text import ParsedStatement, parse_text, show_statement

SCRIPT = "SHOW STREAMS;\n  SELECT v,\n    w FROM s;\nSELECT * FROM t;"


def pieces() -> list[ParsedStatement]:
    return parse_text(SCRIPT)


def test_the_first_line_and_the_place() -> None:
    error = UnavailableError("failed", detail="the worker is gone", hint="again")
    show_statement(error, pieces()[1])
    assert str(error) == "failed\nthe worker is gone\nline 2, column 3: SELECT v, …\nagain"
    assert error.span is not None and SCRIPT[error.span.start :].startswith("SELECT v")
    before = str(error)
    show_statement(error, pieces()[1])
    assert str(error) == before


def test_a_long_statement_is_shortened() -> None:
    [piece] = parse_text(f"SELECT {', '.join(f'c{n}' for n in range(99))} FROM s;")
    error = UnavailableError("failed")
    show_statement(error, piece)
    assert error.detail.startswith("line 1, column 1: SELECT c0, c1")
    assert error.detail.endswith(" …") and len(error.detail) < 130


def test_what_points_at_a_part_is_left() -> None:
    error = UnavailableError("failed", span=Span(3, 5, 29, 30))
    show_statement(error, pieces()[1])
    assert error.detail == "    w FROM s;\n    ^"
