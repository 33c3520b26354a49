"""Texts are split and changed in case as Java's classes do it.

Rules: SPLIT and REGEXP_SPLIT_TO_ARRAY (reference: functions, section 4) split by `Pattern.split` of
Java where what they split by matches nothing: parts that are empty at the end are left out, and a
text without a match is its only part. UCASE and LCASE are `String.toUpperCase` and `toLowerCase`,
whose documentation refers to Unicode's SpecialCasing; Python's `str` follows the same. The tables
are what Java 17 gives. (Java looks for the end of a word otherwise than Unicode where letters meet
'-', '_' or ':': that is not followed.)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

import duckdb
import pytest

from millstream.functions.catalogue import builtin_catalogue
from millstream.model.schema import Column, Schema
from millstream.model.types import STRING
from millstream.operators.expressions import compile_expression
from millstream.operators.sql import identifier
from millstream.plan.scope import Scope
from millstream.plan.typing import type_expression
from millstream_parser import parse_expression
from tests.registered import register

CATALOGUE = builtin_catalogue()
SCOPE = Scope((("R", Schema((Column("A", STRING), Column("B", STRING)))),), CATALOGUE)
CHARACTERS = [chr(code) for code in range(1, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        register(connection)
        yield connection


def computed(
    con: duckdb.DuckDBPyConnection, text: str, rows: Sequence[tuple[str, str]]
) -> list[object]:
    """The values of an expression over A and B; where the fast text does not raise, it agrees."""
    typed = type_expression(parse_expression(text), SCOPE)
    register(con, [typed], CATALOGUE)
    fast, exact = (
        compile_expression(typed, CATALOGUE, exact=exact, columns=identifier)
        for exact in (False, True)
    )
    values: list[object] = []
    for row in rows:
        source = '(SELECT CAST(? AS VARCHAR) AS "A", CAST(? AS VARCHAR) AS "B")'
        [(value,)] = con.execute(f"SELECT {exact} FROM {source}", list(row)).fetchall()
        with suppress(duckdb.Error):
            assert con.execute(f"SELECT {fast} FROM {source}", list(row)).fetchall() == [(value,)]
        values.append(value)
    return values


TEXTS = ("", "ab", "axbx", "xab", "bb", "aab b")
SPLIT = {
    "": ([""], ["a", "b"], list("axbx"), list("xab"), ["b", "b"], list("aab b")),
    "x*": ([""], ["a", "b"], ["a", "", "b"], ["", "", "a", "b"], ["b", "b"], list("aab b")),
    "a?": (
        [""],
        ["", "", "b"],
        ["", "", "x", "b", "x"],
        ["x", "", "b"],
        ["b", "b"],
        ["", "", "", "b", " ", "b"],
    ),
    "b*": ([""], ["a"], ["a", "x", "", "x"], ["x", "a"], [], ["a", "a", "", " "]),
    "[ab]*": ([""], [], ["", "", "x", "", "x"], ["x"], [], ["", "", " "]),
    "(?=b)": ([""], ["a", "b"], ["ax", "bx"], ["xa", "b"], ["b", "b"], ["aa", "b ", "b"]),
    "\\b": ([""], ["ab"], ["axbx"], ["xab"], ["bb"], ["aab", " ", "b"]),
    "b": ([""], ["a", ""], ["ax", "x"], ["xa", ""], ["", "", ""], ["aa", " ", ""]),
}


@pytest.mark.parametrize("pattern", SPLIT)
def test_a_text_split_by_an_expression(con: duckdb.DuckDBPyConnection, pattern: str) -> None:
    rows = [(text, pattern) for text in TEXTS]
    assert computed(con, "REGEXP_SPLIT_TO_ARRAY(A, B)", rows) == list(SPLIT[pattern])


def test_a_text_split_by_a_delimiter(con: duckdb.DuckDBPyConnection) -> None:
    rows = [("", ""), ("a.b", ""), ("", "."), ("..", "."), (".a", "."), ("a", "ab"), ("👍é", "")]
    assert computed(con, "SPLIT(A, B)", rows) == [
        [""],
        ["a", ".", "b"],
        [""],
        ["", "", ""],
        ["", "a"],
        ["a"],
        ["👍", "é"],
    ]
    bytes_of = "TO_BYTES({}, 'utf8')"
    call = f"SPLIT({bytes_of.format('A')}, {bytes_of.format('B')})"
    assert computed(con, call, rows[:6]) == [
        [part.encode() for part in parts]
        for parts in ([""], ["a", ".", "b"], [""], ["", "", ""], ["", "a"], ["a"])
    ]


def test_replace_and_mask_of_nothing(con: duckdb.DuckDBPyConnection) -> None:
    rows = [("", ""), ("ab", ""), ("", "b")]
    assert computed(con, "REPLACE(A, B, '-')", rows) == ["-", "-a-b-", ""]
    assert computed(con, "MASK(A)", rows) == ["", "xx", ""]


def test_every_character_in_both_cases(con: duckdb.DuckDBPyConnection) -> None:
    """One text holds all letters of a plane, and special ones go by their own."""
    special = [c for c in CHARACTERS if len(c.upper()) > 1 or len(c.lower()) > 1]
    assert {"ß", "ŉ", "İ", "ﬃ", "ΐ", "ᾳ", "և"} <= set(special)
    rows = [(c + "'", "") for c in special]
    assert computed(con, "UCASE(A)", rows) == [c.upper() + "'" for c in special]
    assert computed(con, "LCASE(A)", rows) == [c.lower() + "'" for c in special]
    plain = [c for c in CHARACTERS if c not in set(special) and c != "Σ"]
    text = "".join(plain)
    (upper,), (lower,) = (computed(con, f"{name}(A)", [(text, "")]) for name in ("UCASE", "LCASE"))
    assert upper == text.upper()
    assert lower == text.lower()


@pytest.mark.parametrize(
    ("text", "upper", "lower"),
    [
        ("Straße", "STRASSE", "straße"),
        ("ẞ", "ẞ", "ß"),
        ("İstanbul", "İSTANBUL", "i̇stanbul"),
        ("ıI", "II", "ıi"),
        ("ŉ ǰ", "ʼN J̌", "ŉ ǰ"),
        ("ﬁ ﬀ ﬃ ﬆ", "FI FF FFI ST", "ﬁ ﬀ ﬃ ﬆ"),
        ("ᾳ ᾼ ῃ", "ΑΙ ΑΙ ΗΙ", "ᾳ ᾳ ῃ"),
        ("\u0390 և", "\u0399\u0308\u0301 ԵՒ", "\u0390 և"),
        ("ΟΔΥΣΣΕΥΣ ΣΑΣ", "ΟΔΥΣΣΕΥΣ ΣΑΣ", "οδυσσευς σας"),
        ("Σ ΑΣ. Α.Σ ΑΣ1 1Σ", "Σ ΑΣ. Α.Σ ΑΣ1 1Σ", "σ ας. α.ς ας1 1σ"),
        ("ΑΣ.Β ΑΣ'Β", "ΑΣ.Β ΑΣ'Β", "ασ.β ασ'β"),
        ("ς σ ϲ", "Σ Σ Ϲ", "ς σ ϲ"),
        ("ǆ ǅ Ǆ", "Ǆ Ǆ Ǆ", "ǆ ǆ ǆ"),
        ("ა Ა", "Ა Ა", "ა ა"),
        ("𐐨 𐐀", "𐐀 𐐀", "𐐨 𐐨"),
        ("ꭰ Ꭰ", "Ꭰ Ꭰ", "ꭰ ꭰ"),
    ],
)
def test_cases_of_java(con: duckdb.DuckDBPyConnection, text: str, upper: str, lower: str) -> None:
    assert computed(con, "UCASE(A)", [(text, "")]) == [upper]
    assert computed(con, "LCASE(A)", [(text, "")]) == [lower]


def test_the_first_letter_in_upper_case(con: duckdb.DuckDBPyConnection) -> None:
    """The rest of a word is a text of its own: a Σ alone in it has no letter before it."""
    rows = [("ßa ŉB", ""), ("ΑΣ ΣΑΣ", ""), (" İI\x0bab\u00a0cd", "")]
    assert computed(con, "INITCAP(A)", rows) == ["SSa ʼNb", "Ασ Σας", " İi\x0bAb\u00a0cd"]
