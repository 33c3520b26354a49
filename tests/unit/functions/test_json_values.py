"""JSON as Jackson reads and writes it: strict text, numbers with all their digits."""

from __future__ import annotations

import pytest

from tests.unit.functions.evaluating import check

NUMBERS = [
    ("1", "1"),
    ("-0", "0"),
    ("-0.0", "0.0"),
    ("1.50", "1.50"),
    ("1e5", "1E+5"),
    ("1.5E3", "1.5E+3"),
    ("1e-7", "1E-7"),
    ("0.000001", "0.000001"),
    ("0.0000001", "1E-7"),
    ("1E400", "1E+400"),
    ("12345678901234567890123", "12345678901234567890123"),
]
"""JSON numbers and what Java's BigDecimal and BigInteger print."""

NO_JSON = [
    *("", " ", "abc", "{a:1}", "{''a'':1}", "[1,]", '{"a":1,}', "[1", "01", "+1", "1.", ".5"),
    *("NaN", "nan", "Infinity", "-Infinity", "[inf]", '{"a":NaN}', "[1] 2", "[1]]", "tru"),
]
JSON = ["1", " 1 ", "null", '"abc"', '"info, nano"', "{}", "[]", '{"a":{"b":[1,{}]}}', "1E400"]

OTHERS = [
    ("EXTRACTJSONFIELD('[[1,2],[3]]', '$[0][1]')", "'2'"),
    ("EXTRACTJSONFIELD('[5,6]', '$.1')", "'6'"),
    ("EXTRACTJSONFIELD('{\"0\":7}', '$[0]')", "'7'"),
    ("EXTRACTJSONFIELD('[5,6]', '$[-1]')", "NULL"),
    ("EXTRACTJSONFIELD('[5,6]', '$.a')", "NULL"),
    ("EXTRACTJSONFIELD('7', '$.a')", "NULL"),
    ("EXTRACTJSONFIELD('{\"a\":1,\"a\":2}', '$.a')", "'2'"),
    ("EXTRACTJSONFIELD('[\"\\ud800\"]', '$[0]')", "'?'"),
    ("EXTRACTJSONFIELD('[NaN]', '$[0]')", "NULL"),
    ("JSON_ITEMS('[\"a\", null, true, {\"b\" : [1, 2]}]')",
     "ARRAY['\"a\"', 'null', 'true', '{\"b\":[1,2]}']"),
    ("JSON_ITEMS('[\"\\u001f\\n\"]')", "ARRAY['\"\\u001F\\n\"']"),
    ("JSON_ITEMS('{}')", "NULL"),
    ("JSON_KEYS('{\"a\":1,\"b\":2,\"a\":3}')", "ARRAY['a', 'b']"),
    ("JSON_KEYS('[1]')", "NULL"),
    ("JSON_RECORDS('{\"a\":1.50,\"b\":null,\"c\":\"x\",\"d\":{\"e\":[1, 2]}}')",
     "MAP('a':='1.50', 'b':='null', 'c':='x', 'd':='{\"e\":[1,2]}')"),
    ("JSON_RECORDS('{\"a\":1,\"a\":2}')", "MAP('a':='2')"),
    ("JSON_RECORDS('[1]')", "NULL"),
    ("JSON_ARRAY_LENGTH('{}')", "NULL"),
    ("JSON_ARRAY_CONTAINS('[NaN, 1]', 1)", "FALSE"),
    ("JSON_CONCAT('[1,]', '2')", "NULL"),
    ("TO_JSON_STRING(4.9E-324)", "'4.9E-324'"),
    ("TO_JSON_STRING(SQRT(-1))", "'\"NaN\"'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "printed"), NUMBERS)
def test_number(text: str, printed: str) -> None:
    check(f"EXTRACTJSONFIELD('{{\"a\": {text}}}', '$.a')", f"'{printed}'")
    check(f"EXTRACTJSONFIELD('[[{text}]]', '$[0]')", f"'[{printed}]'")
    check(f"JSON_ITEMS('[ {text} ]')", f"ARRAY['{printed}']")
    check(f"JSON_RECORDS('{{\"a\" : {text}}}')", f"MAP('a':='{printed}')")
    check(f"JSON_CONCAT('[{text}]', '[]')", f"'[{printed}]'")


@pytest.mark.parametrize("text", NO_JSON)
def test_invalid(text: str) -> None:
    check(f"IS_JSON_STRING('{text}')", "FALSE")
    for function in ("JSON_ARRAY_LENGTH", "JSON_ITEMS", "JSON_KEYS", "JSON_RECORDS"):
        check(f"{function}('{text}')", "NULL")


@pytest.mark.parametrize("text", JSON)
def test_valid(text: str) -> None:
    check(f"IS_JSON_STRING('{text}')", "TRUE")


@pytest.mark.parametrize(("expression", "result"), OTHERS)
def test_function(expression: str, result: str) -> None:
    check(expression, result)


def test_nesting_has_an_end() -> None:
    deep = "[" * 100_000
    check(f"IS_JSON_STRING('{deep}')", "FALSE")
    check(f"JSON_ITEMS('{deep}')", "NULL")
