"""Functions that take lambdas (reference: functions, section 3)."""

from __future__ import annotations

from millstream.functions.function import ScalarFunction
from millstream.functions.scalar.entry import function

CATEGORY = "LAMBDA"


def _over_entry(lambda_at: int, first: int = 0) -> str:
    """The body of a (key, value) lambda for an entry `_e`. DuckDB would bind the second parameter
    to the position, so each parameter is bound by its own lambda."""
    key, value = f"{{p{lambda_at}_{first}}}", f"{{p{lambda_at}_{first + 1}}}"
    inner = f"list_transform([_e.value], lambda {value}: {{b{lambda_at}}})[1]"
    return f"list_transform([_e.key], lambda {key}: {inner})[1]"


_UNDECIDED = "CAST('a lambda of FILTER gave NULL' AS BOOLEAN)"
_NO_VALUE = "CAST('a map with NULL as a value' AS BOOLEAN)"


def _kept(body: str) -> str:
    """The condition of FILTER: Java unboxes it, which fails for NULL."""
    return f"coalesce({body}, {_UNDECIDED})"


def _with_values(texts: str) -> str:
    """A list of values, unless one is NULL: Java's `Collectors.toMap` fails for that."""
    return f"list_filter({texts}, lambda _v: CASE WHEN _v IS NULL THEN {_NO_VALUE} ELSE TRUE END)"


_STARTED = "CASE WHEN {1} IS NULL THEN NULL WHEN {0} IS NULL THEN CAST({1} AS {t}) ELSE %s END"
_ENTRIES = "map_entries({0})"

LAMBDAS: tuple[ScalarFunction, ...] = (
    function(
        "TRANSFORM",
        CATEGORY,
        [
            ("ARRAY<T>, LAMBDA(T)->U -> ARRAY<U>", "list_transform({0}, {1})"),
            (
                "MAP<K, V>, LAMBDA(K, V)->K2, LAMBDA(K, V)->V2 -> MAP<K2, V2>",
                f"map(list_transform({_ENTRIES}, lambda _e: {_over_entry(1)}),"
                f" {_with_values(f'list_transform({_ENTRIES}, lambda _e: {_over_entry(2)})')})",
            ),
        ],
        "The array with each element, or the map with each key and value, replaced by the result "
        "of a lambda.",
        (
            ("TRANSFORM(ARRAY[1, 2], x => x * 2)", "ARRAY[2, 4]"),
            ("TRANSFORM(MAP('a':=1), (k, v) => UCASE(k), (k, v) => v * 2)", "MAP('A':=2)"),
        ),
        null_propagates=False,
    ),
    function(
        "FILTER",
        CATEGORY,
        [
            (
                "ARRAY<T>, LAMBDA(T)->BOOLEAN -> ARRAY<T>",
                f"list_filter({{0}}, lambda {{p1_0}}: {_kept('{b1}')})",
            ),
            (
                "MAP<K, V>, LAMBDA(K, V)->BOOLEAN -> MAP<K, V>",
                f"map_from_entries(list_filter({_ENTRIES}, lambda _e: CASE WHEN NOT"
                f" {_kept(_over_entry(1))} THEN FALSE WHEN _e.value IS NULL THEN {_NO_VALUE}"
                " ELSE TRUE END))",
            ),
        ],
        "The elements, or entries, for which the lambda is true.",
        (
            ("FILTER(ARRAY[1, 5, 9], x => x > 4)", "ARRAY[5, 9]"),
            ("FILTER(MAP('a':=1, 'b':=2), (k, v) => v > 1)", "MAP('b':=2)"),
            ("FILTER(ARRAY[true, NULL], x => x)", "NULL"),
        ),
        null_propagates=False,
    ),
    function(
        "REDUCE",
        CATEGORY,
        [
            (
                "ARRAY<T>, S, LAMBDA(S, T)->S -> S",
                _STARTED % "list_reduce({0}, {2}, CAST({1} AS {t}))",
            ),
            (
                "MAP<K, V>, S, LAMBDA(S, K, V)->S -> S",
                _STARTED % f"list_reduce({_ENTRIES}, lambda {{p2_0}}, _e: {_over_entry(2, 1)},"
                " CAST({1} AS {t}))",
            ),
        ],
        "Starts from the state and replaces it, element by element, by the result of the lambda.",
        (
            ("REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x)", "16"),
            ("REDUCE(MAP('a':=1, 'b':=2), 0, (s, k, v) => s + v)", "3"),
        ),
        null_propagates=False,
    ),
)
"""The functions of this category."""
