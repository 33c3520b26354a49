"""The error of a refused text: position, offending token, expected tokens, hint."""

from __future__ import annotations

import pytest

from millstream_parser import SyntaxFailure, parse


def refused(text: str) -> SyntaxFailure:
    with pytest.raises(SyntaxFailure) as caught:
        parse(text)
    return caught.value


PLACES = [
    ("select a from", 1, 14, "<EOF>"),
    ("select a\nfrom table", 2, 6, "table"),
    ("show streams;\n  drop strem s;", 2, 8, "strem"),
    ("create stream s (k string (key))", 1, 28, "key"),
    ("create stream s (k null)", 1, 20, "null"),
    ("create stream s (k struct<f null>)", 1, 29, "null"),
    ("select a from s where a in ( )", 1, 30, ")"),
    ("select a from explode(b)", 1, 22, "("),
    ("select a from s group by a and b", 1, 28, "and"),
    ("select a from s partition by a and b", 1, 32, "and"),
    ("select * from s order by a", 1, 23, "by"),
    ("select a from s; garbage here", 1, 18, "garbage"),
    ("insert into s values (1) (2)", 1, 26, "("),
    ("alter stream s drop column a", 1, 16, "drop"),
    ("explain explain a b", 1, 9, "explain"),
]


@pytest.mark.parametrize(("text", "line", "column", "token"), PLACES)
def test_place(text: str, line: int, column: int, token: str) -> None:
    failure = refused(text)
    assert failure.message.startswith(f"line {line}:{column}: Syntax Error")
    assert f"Syntax error at or near '{token}' at line {line}:{column}" in failure.message
    assert (failure.span.line, failure.span.column) == (line, column)
    shown, caret = failure.detail.split("\n")
    assert shown in text
    assert caret.index("^") == column - 1
    assert failure.code == "E-SYNTAX"


EXPECTED = [
    ("create stream s (k string (key));", "Expecting {'STRING', INTEGER_VALUE}"),
    ("create stream s (k string(5) (5));", "Expecting {',', ')'}"),
    ("select * form s", "Expecting 'FROM'"),
    ("set 'a' = 1", "Expecting STRING"),
    ("select * from s limit x", "Expecting INTEGER_VALUE"),
    ("terminate", "Expecting query id"),
]


@pytest.mark.parametrize(("text", "expected"), EXPECTED)
def test_what_was_expected(text: str, expected: str) -> None:
    message = refused(text).message
    assert f"Syntax Error\n{expected}\nStatement: {text}\n" in message


HINTS = [
    ("select from from s", "write `from` in backticks"),
    ("create stream stream (a int)", "write `stream` in backticks"),
    ("select 1abc from s", "write `1abc` in backticks"),
    ("select ${v} from s", "The variable ${v} is not defined"),
    ("selct a from s", "Did you mean SELECT"),
    ("creat stream s", "Did you mean CREATE STREAM"),
    ("list stream", "Did you mean STREAMS?"),
    ("show qeries", "Did you mean QUERIES?"),
    ("create tabel t", "Did you mean TABLE?"),
    ("xyzzy", "A statement starts with SELECT, CREATE"),
    ("select 'a from s", "Close it with '"),
    ("select `a from s", "Close it with `"),
    ("/* a", "Close it with */"),
    ("select * from s order by a", "no ORDER BY"),
    ("select * from a join b within 1 month on a = b", "Use DAYS"),
]


@pytest.mark.parametrize(("text", "hint"), HINTS)
def test_hint(text: str, hint: str) -> None:
    assert hint in refused(text).hint


NEVER_MEANT = [
    (
        "create table t (id int key)",
        "Line: 1, Col: 17: Column `ID` is a 'KEY' column: please use 'PRIMARY KEY' for tables.",
    ),
    (
        "create stream t (id int primary key)",
        "Line: 1, Col: 18: Column `ID` is a 'PRIMARY KEY' column: please use 'KEY' for streams.",
    ),
    ("select 9223372036854775808 from s", "Invalid numeric literal: 9223372036854775808"),
    ("select -9223372036854775809 from s", "Invalid numeric literal: -9223372036854775809"),
    ("select 1e400 from s", "Number overflows DOUBLE: 1e400"),
    ("select - 1e400 from s", "Number overflows DOUBLE: -1e400"),
    ("create stream s with (a = 1, A = 2)", "The property A is set more than once"),
    (
        "create table t with (window_type='session', window_size='1 day')",
        "'WINDOW_SIZE' should not be set for SESSION windows.",
    ),
    (
        "create table t with (window_type='hopping', window_size='5 fortnights')",
        "Configuration WINDOW_SIZE is invalid: Invalid duration: '5 fortnights'."
        " Unknown time unit: 'FORTNIGHTS'",
    ),
    ("create table t with (window_type='hopping')", "require 'WINDOW_SIZE'"),
    ("create table t with (window_type='round')", "Configuration WINDOW_TYPE is invalid"),
    ("create table t with (window_size='5')", "Expected format"),
    ("create table t with (window_size='x days')", "Size must be numeric. Got 'x'"),
    ("select * from s limit -1", "Pull queries don't support negative integers in the LIMIT"),
    (
        "select a like 'x' escape '' from s",
        "Expected exactly one character in ESCAPE clause",
    ),
    ("select f(1, (a, b, c, d) => 1) from s", "A lambda takes at most 3 parameters, not 4"),
    ("select f(1, x => 1, 2) from s", "A lambda must come after every other argument"),
]


@pytest.mark.parametrize(("text", "message"), NEVER_MEANT)
def test_text_that_can_never_be_meant(text: str, message: str) -> None:
    failure = refused(text)
    assert failure.message.startswith("Failed to prepare statement: line 1:")
    assert message in failure.message


CHARACTERS = [("select a ! b from s", 10), ("select é from s", 8), ("select {# a #} b from s", 8)]


@pytest.mark.parametrize(("text", "column"), [*CHARACTERS, ("select a$b from s", 9)])
def test_characters_outside_of_the_language(text: str, column: int) -> None:
    failure = refused(text)
    assert f"line 1:{column}: Syntax Error: unexpected character" in failure.message


HALVES = ["select '\ud800' from s", "-- \udfff\nshow streams", "set '\udc00'='x'", "\ud83d"]


@pytest.mark.parametrize("text", HALVES)
def test_half_a_character(text: str) -> None:
    failure = refused(text)
    assert "is half a character (a lone surrogate)" in failure.message
    assert text[failure.span.start] in "\ud800\ud83d\udc00\udfff"
    str(failure).encode()


def test_a_name_with_nul() -> None:
    assert (
        "line 1:8: Syntax Error: a name may not contain NUL"
        in refused("select `a\0b` from s").message
    )


def test_text_of_the_failure() -> None:
    assert str(refused("show qeries")) == (
        "line 1:6: Syntax Error\n\nStatement: show qeries\n"
        "Syntax error at or near 'qeries' at line 1:6\n"
        "show qeries\n     ^^^^^^\nDid you mean QUERIES?"
    )
