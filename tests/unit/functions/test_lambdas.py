"""TRANSFORM, FILTER and REDUCE over every type, with NULL, nothing in them, and bodies that fail.

The rule (ksqlDB's functions Transform, Filter and Reduce, and the reference of functions, section
3): a collection that is NULL gives NULL, or REDUCE's start; a start that is NULL gives NULL.
Elements that are NULL reach the body, where arithmetic fails for them. What fails in a body is
NULL for the whole call, but for parts that fail by themselves: a cast in a body is NULL, and the
call is where it is the argument of another one. Java unboxes the condition of FILTER and makes maps
by `Collectors.toMap`: a condition that is NULL, a value that is NULL in the map that is made, and a
key made twice fail, too. Arrays may hold NULL.
"""

from __future__ import annotations

import duckdb
import pytest

from tests.unit.functions.evaluating import check, value

FAILS = "fails"
HALF_NULL = "MAP('a':=1, 'b':=NULL)"
NO_ARRAY, NO_MAP = "CAST(NULL AS ARRAY<INT>)", "CAST(NULL AS MAP<STRING, INT>)"
EMPTY_ARRAY, EMPTY_MAP = "FILTER(ARRAY[1], x => false)", "FILTER(MAP('a':=1), (k, v) => false)"

VALUES = {
    # Elements that are NULL.
    "TRANSFORM(ARRAY[1, NULL], x => x * 2)": FAILS,
    "TRANSFORM(ARRAY[1E0, NULL], x => x / 2)": FAILS,
    "TRANSFORM(ARRAY[1, NULL], x => COALESCE(x, 0))": "ARRAY[1, 0]",
    "TRANSFORM(ARRAY[1, 2], x => NULLIF(x, 1))": "ARRAY[NULL, 2]",
    "FILTER(ARRAY[1, NULL, 3], x => x > 1)": "ARRAY[3]",
    "FILTER(ARRAY[1, NULL, 3], x => NOT (x > 1))": "ARRAY[1, NULL]",
    "FILTER(ARRAY[1, NULL], x => x IS NULL)": "ARRAY[CAST(NULL AS INT)]",
    "REDUCE(ARRAY[1, NULL], 0, (s, x) => s + x)": FAILS,
    "REDUCE(ARRAY[1, NULL], 0, (s, x) => s + COALESCE(x, 9))": "10",
    f"REDUCE({HALF_NULL}, 0, (s, k, v) => s + COALESCE(v, 9))": "10",
    # Conditions that are NULL.
    "FILTER(ARRAY[true, NULL], x => x)": FAILS,
    "FILTER(ARRAY[2, 1], x => NULLIF(x > 1, true))": FAILS,
    "FILTER(ARRAY[2, 1], x => CASE WHEN x > 1 THEN true END)": FAILS,
    "FILTER(MAP('a':=true, 'b':=NULL), (k, v) => v)": FAILS,
    # Values of maps that are NULL: what is left out may be.
    f"FILTER({HALF_NULL}, (k, v) => true)": FAILS,
    f"FILTER({HALF_NULL}, (k, v) => v IS NOT NULL)": "MAP('a':=1)",
    f"FILTER({HALF_NULL}, (k, v) => v > 0)": "MAP('a':=1)",
    f"TRANSFORM({HALF_NULL}, (k, v) => k, (k, v) => v)": FAILS,
    f"TRANSFORM({HALF_NULL}, (k, v) => k, (k, v) => COALESCE(v, 0))": "MAP('a':=1, 'b':=0)",
    "TRANSFORM(MAP('a':=1), (k, v) => k, (k, v) => NULLIF(v, 1))": FAILS,
    "TRANSFORM(MAP('a':=1), (k, v) => k, (k, v) => ARRAY[NULLIF(v, 1)])": (
        "MAP('a':=ARRAY[CAST(NULL AS INT)])"
    ),
    "TRANSFORM(MAP('a':=1, 'b':=2), (k, v) => 'x', (k, v) => v)": FAILS,
    # No collection, no start, nothing in it.
    f"TRANSFORM({NO_ARRAY}, x => 1 / 0)": "NULL",
    f"TRANSFORM({NO_MAP}, (k, v) => k, (k, v) => 1 / 0)": "NULL",
    f"FILTER({NO_ARRAY}, x => x > 0)": "NULL",
    f"FILTER({NO_MAP}, (k, v) => v > 0)": "NULL",
    f"REDUCE({NO_ARRAY}, 5, (s, x) => s + x)": "5",
    f"REDUCE({NO_MAP}, 5, (s, k, v) => s + v)": "5",
    f"REDUCE({NO_ARRAY}, CAST(NULL AS INT), (s, x) => s)": "NULL",
    "REDUCE(ARRAY[1], CAST(NULL AS INT), (s, x) => 1)": "NULL",
    f"ARRAY_LENGTH(TRANSFORM({EMPTY_ARRAY}, x => 1 / x))": "0",
    f"ARRAY_LENGTH(FILTER({EMPTY_ARRAY}, x => 1 / x > 0))": "0",
    f"ARRAY_LENGTH(MAP_KEYS(TRANSFORM({EMPTY_MAP}, (k, v) => k, (k, v) => 1 / v)))": "0",
    f"ARRAY_LENGTH(MAP_KEYS(FILTER({EMPTY_MAP}, (k, v) => 1 / v > 0)))": "0",
    f"REDUCE({EMPTY_ARRAY}, 5, (s, x) => s / 0)": "5",
    f"REDUCE({EMPTY_MAP}, 5, (s, k, v) => s / 0)": "5",
    # Bodies that fail, and that would where they are not looked at.
    "TRANSFORM(ARRAY[1, 0], x => 4 / x)": FAILS,
    "TRANSFORM(ARRAY['1', 'x'], x => CAST(x AS INT))": "ARRAY[1, NULL]",
    "TRANSFORM(MAP('a':=1, 'b':=0), (k, v) => k, (k, v) => 1 / v)": FAILS,
    "TRANSFORM(MAP('1':=1, 'b':=0), (k, v) => CAST(k AS INT), (k, v) => v)": FAILS,
    "FILTER(ARRAY[1, 0], x => 1 / x > 0)": FAILS,
    "FILTER(MAP('a':=0), (k, v) => 1 / v > 0)": FAILS,
    "REDUCE(ARRAY[1, 0], 6, (s, x) => s / x)": FAILS,
    "REDUCE(MAP('a':=0), 6, (s, k, v) => s / v)": FAILS,
    "COALESCE(TRANSFORM(ARRAY[0], x => 4 / x), ARRAY[9])": "ARRAY[9]",
    "TRANSFORM(ARRAY[1, 2], x => CASE WHEN x = 1 THEN 0 ELSE 1 / (x - 1) END)": "ARRAY[0, 1]",
    "FILTER(ARRAY[0, 1], x => x <> 0 AND 1 / x > 0)": "ARRAY[1]",
    # Integers wrap.
    "TRANSFORM(ARRAY[2147483647], x => x + 1)": "ARRAY[CAST(-2147483648 AS INT)]",
    "REDUCE(ARRAY[1], 2147483647, (s, x) => s + x)": "CAST(-2147483648 AS INT)",
    # A state that is NULL on the way goes on.
    "REDUCE(ARRAY[1, 2], 5, (s, x) => COALESCE(NULLIF(s, 5), 7))": "7",
    # One inside of another; a parameter hides that of the same name outside.
    "TRANSFORM(ARRAY[ARRAY[1, 2], ARRAY[3]], x => REDUCE(x, 0, (s, y) => s + y))": "ARRAY[3, 3]",
    "TRANSFORM(ARRAY[1, 2], x => TRANSFORM(ARRAY[1], x => x + 1))": "ARRAY[ARRAY[2], ARRAY[2]]",
    "TRANSFORM(ARRAY[ARRAY[true, NULL]], x => FILTER(x, y => y))": FAILS,
    "TRANSFORM(ARRAY[ARRAY[1]], x => TRANSFORM(x, y => y + ARRAY_LENGTH(x)))": "ARRAY[ARRAY[2]]",
    "TRANSFORM(MAP('a':=MAP('b':=1)), (k, v) => k, (k, v) => FILTER(v, (l, w) => k < l))": (
        "MAP('a':=MAP('b':=1))"
    ),
    "FILTER(MAP('a':=MAP('b':=1)), (k, v) => REDUCE(v, 0, (s, l, w) => s + w) > 0)": (
        "MAP('a':=MAP('b':=1))"
    ),
    # Doubles as values and in keys.
    "TRANSFORM(MAP('a':=1.5E0), (k, v) => CAST(v AS STRING), (k, v) => v)": "MAP('1.5':=1.5E0)",
    "TRANSFORM(MAP('a':=1E10), (k, v) => CAST(v AS STRING), (k, v) => k)": "MAP('1.0E10':='a')",
    "REDUCE(MAP('a':=1.5E0, 'b':=2E0), 0E0, (s, k, v) => s + v)": "3.5E0",
    # The order of the entries is that of the map.
    "MAP_KEYS(TRANSFORM(MAP('b':=1, 'a':=2), (k, v) => UCASE(k), (k, v) => v))": "ARRAY['B', 'A']",
    "MAP_KEYS(FILTER(MAP('b':=1, 'c':=0, 'a':=2), (k, v) => v > 0))": "ARRAY['b', 'a']",
    "REDUCE(MAP('b':=1, 'a':=2), '', (s, k, v) => s || k)": "'ba'",
}

TYPES = (
    "true",
    "7",
    "9223372036854775807",
    "2.50",
    "1.5E0",
    "'text'",
    "CAST('2020-02-29' AS DATE)",
    "CAST('10:11:12' AS TIME)",
    "CAST('2020-02-29T01:02:03.004' AS TIMESTAMP)",
    "TO_BYTES('ab', 'utf8')",
    "ARRAY[1, NULL]",
    "MAP('x':=1)",
    "STRUCT(A:=1, B:='t')",
)
"""A value of each type."""


@pytest.mark.parametrize("text", VALUES)
def test_values(text: str) -> None:
    if VALUES[text] != FAILS:
        check(text, VALUES[text])
        return
    assert value(text, exact=True) is None
    with pytest.raises(duckdb.Error):
        value(text, exact=False)


@pytest.mark.parametrize("item", TYPES)
def test_every_type_passes_through(item: str) -> None:
    null = f"NULLIF({item}, {item})" if not item.startswith(("MAP", "STRUCT")) else None
    check(f"TRANSFORM(ARRAY[{item}], x => x)", f"ARRAY[{item}]")
    check(f"FILTER(ARRAY[{item}], x => x IS NOT NULL)", f"ARRAY[{item}]")
    check(f"REDUCE(ARRAY[{item}], {item}, (s, x) => x)", item)
    check(f"TRANSFORM(MAP('k':={item}), (k, v) => k, (k, v) => v)", f"MAP('k':={item})")
    check(f"FILTER(MAP('k':={item}), (k, v) => v IS NOT NULL)", f"MAP('k':={item})")
    check(f"REDUCE(MAP('k':={item}), {item}, (s, k, v) => v)", item)
    if null is None:
        return
    check(f"TRANSFORM(ARRAY[{item}, {null}], x => x)", f"ARRAY[{item}, {null}]")
    check(f"FILTER(ARRAY[{item}, {null}], x => x IS NOT NULL)", f"ARRAY[{item}]")
    assert value(f"FILTER(MAP('k':={null}), (k, v) => true)", exact=True) is None
    assert value(f"TRANSFORM(MAP('k':={null}), (k, v) => k, (k, v) => v)", exact=True) is None
