"""The table functions: one row in, any number of rows out."""

from __future__ import annotations

from millstream.functions.function import Example, TableFunction

_CUBE = (
    "list_transform(range(CASE WHEN len(list_filter({0}, lambda _v: _v IS NOT NULL)) > 20"
    " THEN CAST('CUBE_EXPLODE takes at most 20 elements' AS BIGINT)"
    " ELSE 1::BIGINT << len(list_filter({0}, lambda _v: _v IS NOT NULL)) END),"
    " lambda _row: list_transform({0}, lambda _e, _i: CASE WHEN (_row >>"
    " len(list_filter(list_slice({0}, _i + 1, len({0})), lambda _v: _v IS NOT NULL))) & 1 = 1"
    " THEN _e END))"
)

TABLES: tuple[TableFunction, ...] = (
    TableFunction(
        "EXPLODE",
        "ARRAY<DECIMAL> input -> DECIMAL; ARRAY<T> list -> T",
        "{0}",
        "One row for each element of the array; none for NULL or an empty array.",
        (
            Example("EXPLODE(ARRAY[1, 2])", "ARRAY[1, 2]"),
            Example("EXPLODE(ARRAY['a', NULL])", "ARRAY['a', NULL]"),
        ),
    ),
    TableFunction(
        "CUBE_EXPLODE",
        "ARRAY<T> -> ARRAY<T>",
        _CUBE,
        "One row for each way of replacing some of the elements by NULL. At most 20 elements that "
        "are not NULL.",
        (
            Example(
                "CUBE_EXPLODE(ARRAY[1, 2])",
                "ARRAY[ARRAY[CAST(NULL AS INT), NULL], ARRAY[NULL, 2],"
                " ARRAY[1, NULL], ARRAY[1, 2]]",
            ),
            Example(
                "CUBE_EXPLODE(ARRAY['a', NULL])",
                "ARRAY[ARRAY[CAST(NULL AS STRING), NULL], ARRAY['a', NULL]]",
            ),
        ),
    ),
)
"""Every table function. The examples show the rows as one array."""
