"""Which texts differ in nothing but the key at their end."""

from __future__ import annotations

import pytest

from millstream.query.keyed import key_asked
from millstream_parser import Values

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


@pytest.mark.parametrize(
    ("text", "key", "literal"),
    [
        (f"{SELECT} ?;", "it's", f"{SELECT} 'it''s';"),
        (f"{SELECT} $1 ;", "a", f"{SELECT} 'a' ;"),
        (f"{SELECT}?", 17, f"{SELECT}17"),
    ],
)
def test_a_parameter_is_the_key_that_it_stands_for(text: str, key: str | int, literal: str) -> None:
    assert key_asked(text, [key]) == key_asked(literal)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (f"{SELECT} ?;", ["a", "b"]),
        (f"{SELECT} $2;", ["a"]),
        (f"{SELECT} :k;", {"k": "a"}),
        (f"{SELECT} ?;", {"1": "a"}),
        (f"{SELECT} ?;", [True]),
        (f"{SELECT} ?;", [-1]),
        (f"{SELECT} ?;", [10**9]),
        (f"{SELECT} ?;", [None]),
        (f"{SELECT} ?;", ["\ud800"]),
        (f"{SELECT} 'a';", ["a"]),
        ("SELECT ?, k FROM t WHERE k = ?;", ["a"]),
        ("SELECT * FROM t -- WHERE k = ?;", ["a"]),
    ],
)
def test_other_parameters_are_left_alone(text: str, values: Values) -> None:
    assert key_asked(text, values) is None


def test_a_string_is_no_number() -> None:
    string, number = key_asked(f"{SELECT}'5'"), key_asked(f"{SELECT}5")
    assert string is not None
    assert number is not None
    assert string[0] != number[0]
