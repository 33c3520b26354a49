"""The oracle cuts and pads texts by UTF-16 units, as Java's strings do; a half of a character that
is left alone is the `?` that Java writes for it.

The expected values are those of String.substring and of StringBuilder, computed by a JDK 17.
"""

from __future__ import annotations

import duckdb
import pytest

from tests.differential.expressions import MACROS


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    for macro in MACROS:
        made.execute(f"CREATE MACRO {macro}")
    return made


CASES = (
    ("whole(halves('a😀b')[:2])", "a?"),
    ("whole(halves('a😀b')[3:])", "?b"),
    ("whole(halves('a😀b')[2:3])", "😀"),
    ("whole(halves('a😀b'))", "a😀b"),
    ("whole(ending('a😀'))", "😀"),
    ("whole(ending('😀b'))", "?b"),
    ("whole(ending(''))", ""),
    ("whole(padding('a😀b', 3, '*'))", "a😀"),
    ("whole(padding('a😀b', 8, '😀'))", "😀😀a😀b"),
    ("whole(padding('a😀b', 7, '😀'))", "😀?a😀b"),
    ("whole(padded('ab', 5, '😀'))", "ab😀?"),
    ("whole(padded('a😀', 2, '-'))", "a?"),
    ("whole(padded(NULL, 2, '-'))", None),
    ("whole(halves(CAST(NULL AS VARCHAR)))", None),
    ("whole(halves('a' || chr(0)))", "a\0"),
)


@pytest.mark.parametrize(("sql", "expected"), CASES)
def test_texts_are_cut_by_units(
    con: duckdb.DuckDBPyConnection, sql: str, expected: str | None
) -> None:
    assert con.execute(f"SELECT {sql}").fetchall() == [(expected,)]
