r"""A backslash at the end of a line."""

from __future__ import annotations

import pytest

from millstream_parser import without_continuations
from millstream_parser.continuation import is_continued


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SHOW \\\nSTREAMS;", "SHOW  \nSTREAMS;"),
        ("SHOW\\\r\nSTREAMS;", "SHOW \r\nSTREAMS;"),
        ("a \\\n\\\n b\\", "a  \n \n b "),
        ("SHOW STREAMS; \\\nSHOW TABLES;", "SHOW STREAMS;  \nSHOW TABLES;"),
        ("SELECT 'a\\\nb' \\\n;", "SELECT 'a\\\nb'  \n;"),
        ("SELECT 'it''s\\\n' || `q\\\n` || \"r\\\n\";", None),
        ("-- a comment \\\nSHOW STREAMS;", None),
        ("/* a \\\n comment */ SHOW STREAMS;", None),
        ("SELECT '\\\n", None),
        ("SELECT * FROM t\\G", None),
        ("SELECT \\ \n1;", None),
        ("a \\b\n", None),
        ("SELECT 1;", None),
        ("", None),
    ],
)
def test_without_continuations(text: str, expected: str | None) -> None:
    found = without_continuations(text)
    assert found == (text if expected is None else expected)
    assert len(found) == len(text) and found.count("\n") == text.count("\n")
    assert without_continuations(found) == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [("SHOW \\", True), ("SHOW STREAMS; \\", True), ("help\\", True), ("SHOW \\\n", False),
     ("'a\\", False), ("-- a\\", False), ("x\\G", False), ("", False), ("/* \\", False)],
)  # fmt: skip
def test_is_continued(text: str, expected: bool) -> None:
    assert is_continued(text) is expected
