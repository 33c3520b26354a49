"""Maps (reference: functions, section 2)."""

from __future__ import annotations

from millstream.functions.function import ScalarFunction
from millstream.functions.scalar.entry import function, let

MAP = "MAP"

_AS_MAP = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL ELSE "
    + let(
        "_k",
        "{0}",
        let(
            "_v",
            "{1}",
            "map_from_entries(list_transform(list_filter(_k, lambda _x, _i:"
            " list_position(_k, _x) = _i), lambda _x: struct_pack(key := _x,"
            " value := _v[len(_k) + 1 - list_position(list_reverse(_k), _x)])))",
        ),
    )
    + " END"
)
_ENTRIES = (
    "list_transform(CASE WHEN {1} THEN list_sort(map_entries({0})) WHEN NOT {1} THEN"
    " map_entries({0}) END, lambda _e: struct_pack(K := _e.key, V := _e.value))"
)

MAPS: tuple[ScalarFunction, ...] = (
    function(
        "AS_MAP",
        MAP,
        [("ARRAY<STRING>, ARRAY<T> -> MAP<STRING, T>", _AS_MAP)],
        "A map of an array of keys and one of values. A key without a value maps to NULL.",
        (
            ("AS_MAP(ARRAY['a', 'b'], ARRAY[1])", "MAP('a':=1, 'b':=NULL)"),
            ("AS_MAP(ARRAY['a', 'a'], ARRAY[1, 2])", "MAP('a':=2)"),
        ),
    ),
    function(
        "ENTRIES",
        MAP,
        [
            (f"MAP<STRING, {kind}>, BOOLEAN -> ARRAY<STRUCT<K STRING, V {kind}>>", _ENTRIES)
            for kind in ("INTEGER", "BIGINT", "DOUBLE", "BOOLEAN", "STRING")
        ],
        "The entries as structs K and V, sorted by key if the second argument is TRUE.",
        (
            (
                "ENTRIES(MAP('b':=1, 'a':=2), TRUE)",
                "ARRAY[STRUCT(K:='a', V:=2), STRUCT(K:='b', V:=1)]",
            ),
            ("ENTRIES(MAP('a':='x'), FALSE)", "ARRAY[STRUCT(K:='a', V:='x')]"),
        ),
    ),
    function(
        "MAP_KEYS",
        MAP,
        [("MAP<K, V> -> ARRAY<K>", "map_keys({0})")],
        "The keys, in no particular order.",
        (("MAP_KEYS(MAP('a':=1))", "ARRAY['a']"), ("ARRAY_LENGTH(MAP_KEYS(MAP('a':=1)))", "1")),
    ),
    function(
        "MAP_VALUES",
        MAP,
        [("MAP<K, V> -> ARRAY<V>", "map_values({0})")],
        "The values, in no particular order.",
        (("MAP_VALUES(MAP('a':=1))", "ARRAY[1]"), ("MAP_VALUES(MAP('a':='x'))", "ARRAY['x']")),
    ),
    function(
        "MAP_UNION",
        MAP,
        [
            (
                "MAP<STRING, T>, MAP<STRING, T> -> MAP<STRING, T>",
                "CASE WHEN {0} IS NULL THEN {1} WHEN {1} IS NULL THEN {0}"
                " ELSE map_concat({0}, {1}) END",
            )
        ],
        "The entries of both maps; the second's win. A NULL map adds nothing.",
        (
            ("MAP_UNION(MAP('a':=1, 'b':=1), MAP('a':=2))", "MAP('a':=2, 'b':=1)"),
            ("MAP_UNION(NULL, MAP('a':=2))", "MAP('a':=2)"),
        ),
        null_propagates=False,
    ),
)
"""The functions of this category."""
