"""JSON functions (reference: functions, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.entry import function, rowwise
from millstream.functions.scalar.json_values import (
    concatenate,
    contains,
    extract,
    items,
    keys,
    length,
    of_value,
    records,
    steps,
    valid,
)

CATEGORY = "JSON"
# DuckDB accepts more than JSON: a comma before the end of a list, infinity and NaN.
_ODD = '(?i),\\s*[\\x5d\\x7d]|(^|[^a-z"])(nan|inf)'
_FAILS = f"WHEN regexp_matches({{0}}, '{_ODD}') THEN CAST('perhaps no JSON' AS INTEGER)"


def _to_json_string(column: Any) -> Any:
    values = column.to_pylist()
    return pa.array([of_value(value, column.type) for value in values], pa.string())


def _check_path(arguments: Sequence[Any]) -> None:
    path = arguments[1]
    if isinstance(path, str):
        steps(path)


JSON: tuple[ScalarFunction, ...] = (
    function(
        "EXTRACTJSONFIELD",
        CATEGORY,
        [Variant("STRING, STRING -> STRING", python=rowwise(extract, pa.string()))],
        "What a path such as $.a.b[0] leads to in JSON text: strings as they are, anything else as "
        "JSON; NULL where nothing or null is there.",
        (
            ("EXTRACTJSONFIELD('[1.50]', '$[0]')", "'1.50'"),
            ("EXTRACTJSONFIELD('{\"a\":{\"b\":[5,6]}}', '$.a.b[1]')", "'6'"),
            ("EXTRACTJSONFIELD('{\"a\": [1, 2]}', '$.a')", "'[1,2]'"),
            ("EXTRACTJSONFIELD('{\"a b\": 1}', '$[\"a b\"]')", "'1'"),
            ("EXTRACTJSONFIELD('no JSON', '$.a')", "NULL"),
        ),
        check=_check_path,
    ),
    function(
        "IS_JSON_STRING",
        CATEGORY,
        [
            Variant(
                "STRING -> BOOLEAN",
                f"CASE {_FAILS}::BOOLEAN ELSE coalesce(json_valid({{0}}), FALSE) END",
                python=rowwise(valid, pa.bool_(), nulls=True),
            )
        ],
        "Whether the text is JSON.",
        (
            ("IS_JSON_STRING('[1]')", "TRUE"),
            ("IS_JSON_STRING('')", "FALSE"),
            ("IS_JSON_STRING('[1,]')", "FALSE"),
            ("IS_JSON_STRING('NaN')", "FALSE"),
        ),
        null_propagates=False,
    ),
    function(
        "JSON_ARRAY_CONTAINS",
        CATEGORY,
        [
            Variant(
                f"STRING, {kind} -> BOOLEAN",
                python=rowwise(contains, pa.bool_(), nulls=True),
            )
            for kind in ("INTEGER", "BIGINT", "DOUBLE", "BOOLEAN", "STRING")
        ],
        "Whether a JSON array has an element of this value and type.",
        (
            ("JSON_ARRAY_CONTAINS('[1, 2]', 2)", "TRUE"),
            ("JSON_ARRAY_CONTAINS('[\"1\"]', 1)", "FALSE"),
            ("JSON_ARRAY_CONTAINS('[true]', TRUE)", "TRUE"),
            ("JSON_ARRAY_CONTAINS('[true', TRUE)", "FALSE"),
            ("JSON_ARRAY_CONTAINS('[1, null]', NULL)", "TRUE"),
        ),
        null_propagates=False,
    ),
    function(
        "JSON_ARRAY_LENGTH",
        CATEGORY,
        [
            Variant(
                "STRING -> INTEGER",
                f"CASE {_FAILS} WHEN json_type({{0}}) = 'ARRAY'"
                " THEN CAST(json_array_length({0}) AS INTEGER) END",
                python=rowwise(length, pa.int32()),
            )
        ],
        "The number of elements of a JSON array.",
        (("JSON_ARRAY_LENGTH('[1, null]')", "2"), ("JSON_ARRAY_LENGTH('7')", "NULL")),
    ),
    function(
        "JSON_CONCAT",
        CATEGORY,
        [
            Variant(
                "STRING, STRING... -> STRING",
                python=rowwise(concatenate, pa.string(), nulls=True),
            )
        ],
        "JSON values joined: objects are merged, arrays appended, anything else becomes an array.",
        (
            ("JSON_CONCAT('{\"a\": 1}', '[2]')", "'[{\"a\":1},2]'"),
            ("JSON_CONCAT('[1]', NULL)", "NULL"),
        ),
        null_propagates=False,
    ),
    function(
        "JSON_ITEMS",
        CATEGORY,
        [Variant("STRING -> ARRAY<STRING>", python=rowwise(items, pa.list_(pa.string())))],
        "The elements of a JSON array as JSON text.",
        (
            ("JSON_ITEMS('[1, {\"a\": 2}]')", "ARRAY['1', '{\"a\":2}']"),
            ("JSON_ITEMS('7')", "NULL"),
        ),
    ),
    function(
        "JSON_KEYS",
        CATEGORY,
        [Variant("STRING -> ARRAY<STRING>", python=rowwise(keys, pa.list_(pa.string())))],
        "The keys of a JSON object.",
        (('JSON_KEYS(\'{"a": 1, "b": 2}\')', "ARRAY['a', 'b']"), ("JSON_KEYS('[1]')", "NULL")),
    ),
    function(
        "JSON_RECORDS",
        CATEGORY,
        [
            Variant(
                "STRING -> MAP<STRING, STRING>",
                python=rowwise(records, pa.map_(pa.string(), pa.string())),
            )
        ],
        "The members of a JSON object: strings as they are, other values as JSON.",
        (
            ('JSON_RECORDS(\'{"a": 1, "b": "x"}\')', "MAP('a':='1', 'b':='x')"),
            ("JSON_RECORDS('[1]')", "NULL"),
        ),
    ),
    function(
        "TO_JSON_STRING",
        CATEGORY,
        [Variant("T -> STRING", python=_to_json_string)],
        "The value as JSON text. Dates and times are ISO text, bytes base64.",
        (
            ("TO_JSON_STRING(ARRAY[1, NULL])", "'[1,null]'"),
            ("TO_JSON_STRING(MAP('b':='x', 'a':='y'))", '\'{"a":"y","b":"x"}\''),
            ("TO_JSON_STRING(1E0)", "'1.0'"),
        ),
        null_propagates=False,
    ),
)
"""The functions of this category."""
