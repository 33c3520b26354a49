"""Hostile texts end in an error of ours, not of Python's."""

from __future__ import annotations

import pytest

from millstream_parser import SyntaxFailure, parse, print_statement

NESTINGS = {
    "parentheses": ("(", ")"),
    "calls": ("f(", ")"),
    "lambdas": ("f(a, x => ", ")"),
    "or": ("(a or ", ")"),
    "every operator": ("a or b and not c = d || e + f * -(", ")"),
    "not": ("not ", ""),
    "minus": ("- ", ""),
    "subscripts": ("a[", "]"),
    "arrays": ("array[", "]"),
    "maps": ("map(1 := ", ")"),
    "structs": ("struct(a := ", ")"),
    "case": ("case when ", " then 1 end"),
    "else": ("case when a then 1 else ", " end"),
    "casts": ("cast(", " as int)"),
    "in": ("a in (", ")"),
    "chains": ("a + ", ""),
    "concatenations": ("a || ", ""),
}


@pytest.mark.parametrize("name", NESTINGS)
def test_nesting(name: str) -> None:
    opening, closing = NESTINGS[name]
    accepted = 0
    for levels in (1, 5, 10, 20, 30, 60, 90, 126, 127, 128, 130, 200, 800):
        text = f"select {opening * levels}1{closing * levels} from s"
        try:
            (statement,) = parse(text)
        except SyntaxFailure as failure:
            assert "nested too deeply: the limit is 128 levels" in failure.message
            continue
        assert parse(print_statement(statement)) == (statement,)
        assert accepted == 0 or levels < 128, "what is deeper must not be accepted again"
        accepted = levels
    assert accepted >= 5


@pytest.mark.parametrize("levels", [100, 200, 2_000])
def test_nested_types(levels: int) -> None:
    text = f"create type t as {'array<' * levels}int{'>' * levels}"
    if levels < 128:
        assert parse(text)
    else:
        with pytest.raises(SyntaxFailure, match="nested too deeply"):
            parse(text)


@pytest.mark.parametrize("inside", [0, 3, 60])
def test_arrays_behind_nested_types(inside: int) -> None:
    most = 127 - inside
    for inner in ("array<", "struct<b "):
        before, behind = f"create type t as {inner * inside}int", ">" * inside
        (statement,) = parse(f"{before}{' array' * (most - 1)}{behind}")
        assert parse(print_statement(statement)) == (statement,)
        with pytest.raises(SyntaxFailure, match="nested too deeply"):
            parse(f"{before}{' array' * (most + 2)}{behind}")
        with pytest.raises(SyntaxFailure, match="nested too deeply"):
            parse(f"{before}{behind.replace('>', ' array' * 9 + '>')}{' array' * 128}")


@pytest.mark.parametrize("suffix", ["[1]", "->b", " is null", " = 1", " at time zone 'x'"])
def test_long_suffixes(suffix: str) -> None:
    parse(f"select a{suffix * 30} from s")
    with pytest.raises(SyntaxFailure, match="nested too deeply"):
        parse(f"select a{suffix * 2_000} from s")


def test_tokens() -> None:
    assert len(parse(f"select {'a,' * 9_998}a from s")) == 1
    with pytest.raises(SyntaxFailure, match="the limit is 20000 tokens"):
        parse(f"select {'a,' * 10_000}a from s")


def test_statements() -> None:
    assert len(parse("show streams;" * 500)) == 500
    with pytest.raises(SyntaxFailure, match="the limit is 500"):
        parse("show streams;" * 501)


MIB = 1 << 20


MEBIBYTES = {
    "parentheses": "(" * MIB,
    "an open string": "'" * (MIB - 1),
    "an open comment": "/*" * (MIB // 2),
    "one string": "''" * (MIB // 2),
    "names": "a " * (MIB // 2),
    "digits": "9" * MIB,
    "a comment": "select " + "-" * (MIB - 7),
    "quotes": "`" * MIB,
    "too long": "x" * (MIB + 1),
    "too long in UTF-8": "é" * (MIB // 2 + 1),
}


@pytest.mark.parametrize("name", MEBIBYTES)
def test_a_mebibyte_of_anything_is_answered(name: str) -> None:
    with pytest.raises(SyntaxFailure) as caught:
        parse(MEBIBYTES[name])
    assert len(str(caught.value)) < 5_000


def test_a_mebibyte_of_one_string_is_fine() -> None:
    text = "insert into s values ('%s')"
    assert parse(text % ("x" * (MIB - len(text))))


def test_many_digits() -> None:
    with pytest.raises(SyntaxFailure, match="Invalid numeric literal"):
        parse(f"select {'9' * 100_000} from s")
    assert parse(f"select {'0' * 100_000}1, {'9' * 100_000}.5 from s")
