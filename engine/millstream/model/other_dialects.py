"""Types and functions that people know from elsewhere, and what they are called here."""

from __future__ import annotations

from collections.abc import Mapping

TYPES: Mapping[str, str] = {
    **dict.fromkeys(("TEXT", "CHAR", "CHARACTER", "NVARCHAR", "STR", "UUID", "ENUM"), "STRING"),
    **dict.fromkeys(("FLOAT", "FLOAT8", "REAL", "FLOAT64", "NUMBER"), "DOUBLE"),
    **dict.fromkeys(("LONG", "INT8", "INT64", "HUGEINT", "SERIAL"), "BIGINT"),
    **dict.fromkeys(("SMALLINT", "TINYINT", "INT4", "INT32", "SHORT", "BYTE"), "INTEGER"),
    **dict.fromkeys(("DATETIME", "TIMESTAMPTZ", "INSTANT"), "TIMESTAMP"),
    **dict.fromkeys(("BLOB", "BINARY", "VARBINARY", "BYTEA"), "BYTES"),
    **dict.fromkeys(("JSON", "JSONB", "OBJECT", "ROW", "RECORD"), "STRUCT<…>, or STRING"),
    "BOOL": "BOOLEAN",
    "NUMERIC": "DECIMAL(10, 2)",
    "ARRAY": "ARRAY<STRING>",
    "MAP": "MAP<STRING, STRING>",
    "STRUCT": "STRUCT<name STRING, …>",
}
"""Type names of other databases."""

FUNCTIONS: Mapping[str, str] = {
    "UPPER": "UCASE(text)",
    "LOWER": "LCASE(text)",
    **dict.fromkeys(("LENGTH", "CHAR_LENGTH", "STRLEN"), "LEN(text)"),
    **dict.fromkeys(("NOW", "GETDATE", "SYSDATE"), "FROM_UNIXTIME(UNIX_TIMESTAMP()), or ROWTIME"),
    **dict.fromkeys(("IF", "DECODE"), "CASE WHEN … THEN … ELSE … END"),
    **dict.fromkeys(("NVL", "ISNULL"), "IFNULL(value, other)"),
    **dict.fromkeys(("STRPOS", "POSITION", "CHARINDEX", "LOCATE"), "INSTR(text, part)"),
    **dict.fromkeys(("ARRAY_AGG", "LIST", "GROUP_CONCAT", "STRING_AGG"), "COLLECT_LIST(value)"),
    **dict.fromkeys(("FIRST", "FIRST_VALUE", "ANY_VALUE"), "EARLIEST_BY_OFFSET(value)"),
    **dict.fromkeys(("LAST", "LAST_VALUE"), "LATEST_BY_OFFSET(value)"),
    "MEAN": "AVG(number)",
    "MOD": "a % b",
    "POW": "POWER(a, b)",
    **dict.fromkeys(("RAND", "RANDINT"), "RANDOM()"),
    **dict.fromkeys(
        ("TO_CHAR", "STRFTIME", "DATE_FORMAT"), "FORMAT_TIMESTAMP(time, 'yyyy-MM-dd HH:mm')"
    ),
    **dict.fromkeys(
        ("TO_TIMESTAMP", "STRPTIME", "STR_TO_DATE"), "PARSE_TIMESTAMP(text, 'yyyy-MM-dd HH:mm')"
    ),
    **dict.fromkeys(
        ("JSON_EXTRACT", "JSON_VALUE", "GET_JSON_OBJECT"), "EXTRACTJSONFIELD(text, '$.name')"
    ),
    **dict.fromkeys(("COUNT_IF", "COUNTIF"), "SUM(CASE WHEN … THEN 1 ELSE 0 END)"),
    "APPROX_COUNT_DISTINCT": "COUNT_DISTINCT(value)",
    "UNNEST": "EXPLODE(array)",
    "FLATTEN": "EXPLODE(array)",
    "CONVERT": "CAST(value AS type)",
    "TO_NUMBER": "CAST(value AS DOUBLE)",
    "TO_STRING": "CAST(value AS STRING)",
}
"""Functions of other databases; those that exist here are looked up before."""


def type_hint(name: str) -> str:
    """What a type is called here; empty where nobody knows."""
    known = TYPES.get(name.upper())
    return f"Here it is {known}." if known else ""


def function_hint(name: str) -> str:
    """What does what a function does elsewhere; empty where nobody knows."""
    known = FUNCTIONS.get(name.upper())
    return f"Here it is {known}." if known else ""
