"""Variables become one name or one literal, and never more."""

from __future__ import annotations

import pytest

from millstream_parser import SyntaxFailure, parse, substitute

VARIABLES = {
    "name": "orders",
    "Topic": "my-topic",
    "quote": "it's",
    "number": "42",
    "negative": "-1",
    "string": "'a''b'",
    "quoted": "`a b`",
    "bad": "a; drop stream s",
    "keyword": "select",
    "yes": "TRUE",
}

CASES = [
    ("select * from ${name}", "select * from orders"),
    ("select * from ${NAME}", "select * from orders"),
    ("with (kafka_topic='${topic}')", "with (kafka_topic='my-topic')"),
    ("select '${quote}', \"${quote}\"", "select 'it''s', \"it's\""),
    ("select `${quoted}`", "select ```a b```"),
    ("select ${string}, ${quoted}, ${yes}", "select 'a''b', `a b`, TRUE"),
    ("limit ${number}", "limit 42"),
    ("select 1 -${negative}", "select 1 - -1"),
    ("select ${name}_x, x_${number}", "select orders_x, x_42"),
    ("select '${bad}'", "select 'a; drop stream s'"),
    ("${unknown} '${unknown}'", "${unknown} '${unknown}'"),
    ("$${name} '$${name}'", "${name} '${name}'"),
    ("-- ${bad}\n/* ${bad} */", "-- ${bad}\n/* ${bad} */"),
    ("select 'a' -- it's\n, ${name}", "select 'a' -- it's\n, orders"),
    ("no variables", "no variables"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_substitute(text: str, expected: str) -> None:
    assert substitute(text, VARIABLES) == expected


@pytest.mark.parametrize("text", ["${bad}", "${keyword}", "x_${topic}", "${quote}", "${topic}"])
def test_a_value_cannot_smuggle_anything_in(text: str) -> None:
    with pytest.raises(SyntaxFailure, match="cannot stand here"):
        substitute(f"select {text} from s", VARIABLES)


def test_values_are_not_substituted_again() -> None:
    assert substitute("'${a}'", {"a": "${b}", "b": "x"}) == "'${b}'"


def test_undefined_variables_are_named() -> None:
    with pytest.raises(SyntaxFailure) as caught:
        parse("select * from ${source}")
    assert caught.value.hint == "The variable ${source} is not defined: DEFINE it first."
