"""Which texts differ in nothing but the key at their end."""

from __future__ import annotations

import pytest

from millstream.query.keyed import key_asked

SELECT = "SELECT * FROM t WHERE k ="


@pytest.mark.parametrize(
    ("text", "begins", "key"),
    [
        (f"{SELECT} 'a';", f"{SELECT} '", "a"),
        (f"{SELECT}''", f"{SELECT}'", ""),
        (f"{SELECT} 'it''s ; -- /* `x` \"';", f"{SELECT} '", "it's ; -- /* `x` \""),
        (f"{SELECT} 17 ;", f"{SELECT} ", 17),
        (f"{SELECT}\n017", f"{SELECT}\n", 17),
    ],
)
def test_the_key_is_cut_out(text: str, begins: str, key: object) -> None:
    assert key_asked(text) == (begins, key)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t;",
        f"{SELECT} 'a' AND n = 1;",
        f"{SELECT} 'a' -- b",
        f"{SELECT} '${{name}}';",
        f"{SELECT} 'a\\';",
        f"{SELECT} 'a'; SELECT 1;",
        f"{SELECT} -5;",
        f"{SELECT} 1.5;",
        f"{SELECT} 12345678901;",
        "SELECT 'x', k FROM t WHERE k = 'a';",
        "SELECT * FROM t -- WHERE k = 'a';",
        "SELECT * FROM `t` WHERE k = 'a';",
        "SELECT * FROM t WHERE n > 5;",
    ],
)
def test_other_texts_are_left_alone(text: str) -> None:
    assert key_asked(text) is None


def test_a_string_is_no_number() -> None:
    string, number = key_asked(f"{SELECT}'5'"), key_asked(f"{SELECT}5")
    assert string is not None
    assert number is not None
    assert string[0] != number[0]
