"""Texts as Java has them: UTF-16 units, its maps of case, its classes of characters."""

from __future__ import annotations

import pytest

from tests.unit.functions.evaluating import check

# What String, Character and Splitter of Java make of the same arguments.
TEXTS = [
    ("LEN('😀a')", "3"),
    ("INSTR('😀a', 'a')", "3"),
    ("INSTR('😀a', '😀')", "1"),
    ("INSTR('a😀a😀', '😀', 1, 2)", "5"),
    ("INSTR('a😀a😀', 'a', -3)", "4"),
    ("INSTR('a😀a😀', 'a', -4)", "1"),
    ("INSTR('a😀a😀', 'a', 0)", "0"),
    ("INSTR('a😀a😀', 'a', 1, 0)", "0"),
    ("INSTR('a😀', NULL, 1)", "0"),
    ("SUBSTRING('😀ab', 3)", "'ab'"),
    ("SUBSTRING('😀ab', 3, 1)", "'a'"),
    ("SUBSTRING('😀ab', 1, 2)", "'😀'"),
    ("SUBSTRING('😀ab', -2)", "'ab'"),
    ("SUBSTRING('😀ab', -9, 2)", "'😀'"),
    ("SUBSTRING('😀ab', 9)", "''"),
    ("SUBSTRING('😀ab', 0, -1)", "''"),
    ("SUBSTRING('😀', 1, 1)", "'?'"),
    ("LPAD('😀', 3, 'x')", "'x😀'"),
    ("RPAD('a', 3, '😀')", "'a😀'"),
    ("RPAD('a😀b', 3, 'x')", "'a😀'"),
    ("LPAD('😀', -1, 'x')", "NULL"),
    ("LPAD('😀', 3, '')", "NULL"),
    ("SPLIT('', '')", "ARRAY['']"),
    ("SPLIT('', 'x')", "ARRAY['']"),
    ("SPLIT(NULL, '')", "NULL"),
    ("UCASE('ŉ ﬁ ß')", "'ʼN FI SS'"),
    ("LCASE('ΑΣ İ')", "'ας i̇'"),
    ("UCASE('straße')", "'STRASSE'"),
    ("INITCAP('ǆ élan ΑΑΣ')", "'Ǆ Élan Αας'"),
    ("INITCAP('a-b c_d')", "'A-b C_d'"),
    ("MASK('Aa1_')", "'Xxn-'"),
    ("MASK('ÄäǅªŉⅧ٣½')", "'Xx--x-n-'"),
    ("MASK('𝐀')", "'--'"),
    ("MASK('Ä1', NULL, 'y', NULL, NULL)", "'Ä1'"),
    ("MASK('a', 'XY', 'yz', 'n', '-')", "'y'"),
    ("MASK('a', 'X', '', 'n', '-')", "NULL"),
    ("MASK('', 'X', 'x', 'n', '-')", "''"),
    ("MASK_LEFT('😀ab', 3)", "'--xb'"),
    ("MASK_RIGHT('äbc', 2)", "'äxx'"),
    ("MASK_KEEP_LEFT('äbc', 2)", "'äbx'"),
    ("MASK_KEEP_RIGHT('äbc', 2)", "'xbc'"),
    ("MASK_KEEP_RIGHT('äbc', 9)", "'äbc'"),
    ("MASK_LEFT('ä', -1)", "NULL"),
]


@pytest.mark.parametrize(("expression", "result"), TEXTS)
def test_text(expression: str, result: str) -> None:
    check(expression, result)
