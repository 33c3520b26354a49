"""Arrays (reference: functions, section 2)."""

from __future__ import annotations

from millstream.functions.function import ScalarFunction
from millstream.functions.scalar.bounds import ELEMENTS_MAX, too_large
from millstream.functions.scalar.entry import function, joined, let
from millstream.model.java_number import JAVA_DOUBLE, decimal_text

ARRAY = "ARRAY"

_COMPARABLE = (
    "BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "BYTES", "DATE", "TIME",
    "TIMESTAMP",
)  # fmt: skip
_PRIMITIVES = _COMPARABLE


def _distinct(array: str) -> str:
    """The first of each value, in order; DuckDB's list_distinct drops order and NULL."""
    return let("_a", array, "list_filter(_a, lambda _x, _i: list_position(_a, _x) = _i)")


def _against(found: str) -> str:
    """Distinct elements of the first array that do (not) occur in the second."""
    return (
        "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL ELSE "
        + let(
            "_b",
            "{1}",
            _distinct("{0}").replace("_i)", f"_i AND list_position(_b, _x) {found})"),
        )
        + " END"
    )


_TEXTS = {
    "DOUBLE": f"{JAVA_DOUBLE}(_x)",
    "DECIMAL": decimal_text("CAST(_x AS VARCHAR)"),
    "BYTES": "to_base64(_x)",
    "TIMESTAMP": "strftime(_x, '%Y-%m-%dT%H:%M:%S.%g')",
}


def _joined(kind: str, delimiter: str) -> str:
    text = _TEXTS.get(kind, "CAST(_x AS VARCHAR)")
    return (
        "CASE WHEN {0} IS NOT NULL THEN "
        + joined(
            f"list_transform({{0}}, lambda _x: coalesce({text}, 'null'))",
            f"coalesce({delimiter}, '')",
        )
        + " END"
    )


_SORT = (
    "CASE WHEN upper(%s) IN ('ASC', 'ASCENDING') THEN list_sort({0}, 'ASC', 'NULLS LAST')"
    " WHEN upper(%s) IN ('DESC', 'DESCENDING') THEN list_sort({0}, 'DESC', 'NULLS LAST') END"
)
_SLICE = (
    "CASE WHEN coalesce({1}, 1) < 1 OR coalesce({2}, len({0})) > len({0})"
    " OR coalesce({1}, 1) - 1 > coalesce({2}, len({0})) THEN NULL"
    " ELSE list_slice({0}, coalesce({1}, 1), coalesce({2}, len({0}))) END"
)
_REMOVE = "list_filter({0}, lambda _x: _x IS DISTINCT FROM _y)"

ARRAYS: tuple[ScalarFunction, ...] = (
    function(
        "ARRAY_CONCAT",
        ARRAY,
        [
            (
                "ARRAY<T>, ARRAY<T> -> ARRAY<T>",
                "CASE WHEN {0} IS NULL THEN {1} WHEN {1} IS NULL THEN {0}"
                f" WHEN len({{0}}) + len({{1}}) > {ELEMENTS_MAX}"
                f" THEN CAST({too_large('ARRAY_CONCAT', ELEMENTS_MAX)}::VARCHAR AS {{t}})"
                " ELSE list_concat({0}, {1}) END",
            )
        ],
        "The elements of the first array, then those of the second. A NULL array adds nothing.",
        (
            ("ARRAY_CONCAT(ARRAY[1, 2], ARRAY[2])", "ARRAY[1, 2, 2]"),
            ("ARRAY_CONCAT(ARRAY['a'], NULL)", "ARRAY['a']"),
        ),
        null_propagates=False,
    ),
    function(
        "ARRAY_CONTAINS",
        ARRAY,
        [("ARRAY<T>, T -> BOOLEAN", "coalesce(list_position({0}, {1}) IS NOT NULL, FALSE)")],
        "Whether the value, or NULL, is an element. FALSE for a NULL array.",
        (
            ("ARRAY_CONTAINS(ARRAY[1, NULL], NULL)", "TRUE"),
            ("ARRAY_CONTAINS(ARRAY['a'], 'b')", "FALSE"),
        ),
        null_propagates=False,
    ),
    function(
        "ARRAY_DISTINCT",
        ARRAY,
        [("ARRAY<T> -> ARRAY<T>", _distinct("{0}"))],
        "The distinct elements in the order of their first occurrence.",
        (
            ("ARRAY_DISTINCT(ARRAY[3, NULL, 1, 3, NULL])", "ARRAY[3, NULL, 1]"),
            ("ARRAY_DISTINCT(ARRAY['a', 'a'])", "ARRAY['a']"),
        ),
    ),
    function(
        "ARRAY_EXCEPT",
        ARRAY,
        [("ARRAY<T>, ARRAY<T> -> ARRAY<T>", _against("IS NULL"))],
        "The distinct elements of the first array that the second does not contain.",
        (
            ("ARRAY_EXCEPT(ARRAY[1, 2, 3, 1], ARRAY[2])", "ARRAY[1, 3]"),
            ("ARRAY_EXCEPT(ARRAY['a', NULL], ARRAY[NULL, 'b'])", "ARRAY['a']"),
        ),
    ),
    function(
        "ARRAY_INTERSECT",
        ARRAY,
        [("ARRAY<T>, ARRAY<T> -> ARRAY<T>", _against("IS NOT NULL"))],
        "The distinct elements of the first array that the second contains too.",
        (
            ("ARRAY_INTERSECT(ARRAY[3, 1, 1, 2], ARRAY[1, 3])", "ARRAY[3, 1]"),
            ("ARRAY_INTERSECT(ARRAY['a', NULL], ARRAY[NULL, 'b'])", "ARRAY[CAST(NULL AS STRING)]"),
        ),
    ),
    function(
        "ARRAY_JOIN",
        ARRAY,
        [(f"ARRAY<{kind}> -> STRING", _joined(kind, "','")) for kind in _PRIMITIVES]
        + [(f"ARRAY<{kind}>, STRING -> STRING", _joined(kind, "{1}")) for kind in _PRIMITIVES],
        "The elements as text with a delimiter (a comma) between them; a NULL element is `null`.",
        (
            ("ARRAY_JOIN(ARRAY['x', NULL, 'z'], '/')", "'x/null/z'"),
            ("ARRAY_JOIN(ARRAY[1, 2])", "'1,2'"),
            ("ARRAY_JOIN(ARRAY[1E10, 1.5E-5, 2E0], NULL)", "'1.0E101.5E-52.0'"),
        ),
        null_propagates=False,
    ),
    function(
        "ARRAY_LENGTH",
        ARRAY,
        [("ARRAY<T> -> INTEGER", "CAST(len({0}) AS INTEGER)")],
        "The number of elements.",
        (("ARRAY_LENGTH(ARRAY[1, NULL])", "2"), ("ARRAY_LENGTH(NULL)", "NULL")),
    ),
    function(
        "ARRAY_MAX",
        ARRAY,
        [(f"ARRAY<{kind}> -> {kind}", "list_max({0})") for kind in _COMPARABLE],
        "The greatest element that is not NULL.",
        (("ARRAY_MAX(ARRAY[3, NULL, 7])", "7"), ("ARRAY_MAX(ARRAY['a', 'B'])", "'a'")),
    ),
    function(
        "ARRAY_MIN",
        ARRAY,
        [(f"ARRAY<{kind}> -> {kind}", "list_min({0})") for kind in _COMPARABLE],
        "The smallest element that is not NULL.",
        (("ARRAY_MIN(ARRAY[3, NULL, 7])", "3"), ("ARRAY_MIN(ARRAY['a', 'B'])", "'B'")),
    ),
    function(
        "ARRAY_REMOVE",
        ARRAY,
        [("ARRAY<T>, T -> ARRAY<T>", let("_y", "{1}", _REMOVE))],
        "The array without the elements that equal the value, or without NULLs.",
        (
            ("ARRAY_REMOVE(ARRAY[1, 2, 1], 1)", "ARRAY[2]"),
            ("ARRAY_REMOVE(ARRAY['a', NULL], NULL)", "ARRAY['a']"),
        ),
        null_propagates=False,
    ),
    function(
        "ARRAY_SORT",
        ARRAY,
        [(f"ARRAY<{k}> -> ARRAY<{k}>", "list_sort({0}, 'ASC', 'NULLS LAST')") for k in _COMPARABLE]
        + [(f"ARRAY<{k}>, STRING -> ARRAY<{k}>", _SORT % ("{1}", "{1}")) for k in _COMPARABLE],
        "The elements in ascending order, or descending with 'DESC'; NULLs last.",
        (
            ("ARRAY_SORT(ARRAY[3, NULL, 1], 'desc')", "ARRAY[3, 1, NULL]"),
            ("ARRAY_SORT(ARRAY['b', 'a'])", "ARRAY['a', 'b']"),
            ("ARRAY_SORT(ARRAY[2, 1], 'up')", "NULL"),
        ),
    ),
    function(
        "ARRAY_UNION",
        ARRAY,
        [
            (
                "ARRAY<T>, ARRAY<T> -> ARRAY<T>",
                "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL ELSE "
                + _distinct("list_concat({0}, {1})")
                + " END",
            )
        ],
        "The distinct elements of both arrays in the order in which they come.",
        (
            ("ARRAY_UNION(ARRAY[3, 1], ARRAY[1, 2])", "ARRAY[3, 1, 2]"),
            ("ARRAY_UNION(ARRAY['a'], NULL)", "NULL"),
        ),
    ),
    function(
        "ELT",
        "STRING",
        [("INTEGER, STRING... -> STRING", "CASE WHEN {0} > 0 THEN ([{rest}])[{0}] END")],
        "The argument at the position given first, counted from 1.",
        (("ELT(2, 'p', 'q')", "'q'"), ("ELT(3, 'p', 'q')", "NULL")),
        null_propagates=False,
    ),
    function(
        "FIELD",
        "STRING",
        [
            (
                "STRING, STRING... -> INTEGER",
                "CASE WHEN {0} IS NULL THEN 0 ELSE coalesce(list_position([{rest}], {0}), 0) END",
            )
        ],
        "The position of the first argument among the others, counted from 1; 0 if absent.",
        (("FIELD('q', 'p', 'q')", "2"), ("FIELD(NULL, 'p')", "0")),
        null_propagates=False,
    ),
    function(
        "SLICE",
        ARRAY,
        [("ARRAY<T>, INTEGER, INTEGER -> ARRAY<T>", _SLICE)],
        "The elements from one position to another, both included, counted from 1; NULL outside "
        "the array. A NULL position is the beginning or the end.",
        (
            ("SLICE(ARRAY[10, 20, 30, 40], 2, 3)", "ARRAY[20, 30]"),
            ("SLICE(ARRAY[1], 2, 5)", "NULL"),
            ("SLICE(ARRAY[1, 2], 2, NULL)", "ARRAY[2]"),
            ("SLICE(ARRAY[1, 2], 0, 1)", "NULL"),
            ("ARRAY_LENGTH(SLICE(ARRAY[1, 2], 2, 1))", "0"),
        ),
        null_propagates=False,
    ),
)
"""The functions of this file."""
