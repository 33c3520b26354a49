"""Names and constants as DuckDB text: all quoting and escaping happens here."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from functools import lru_cache

from sqlglot import exp

from millstream.model.expressions import Literal, Value
from millstream.model.physical import duckdb_type
from millstream.model.types import BIGINT, INTERVAL_UNIT, NULL, SqlType

DECIMAL_FUNCTIONS = {
    "+": "ms_decimal_add",
    "-": "ms_decimal_subtract",
    "*": "ms_decimal_multiply",
    "/": "ms_decimal_divide",
    "%": "ms_decimal_remainder",
}
"""Names of the functions in `udfs`, by operator."""

_PLAIN = re.compile(r"[A-Za-z0-9_.:@ ]*")


@lru_cache(maxsize=10_000)
def identifier(name: str) -> str:
    """A name, quoted."""
    return exp.to_identifier(name, quoted=True).sql(dialect="duckdb")


def unquoted(name: str) -> str:
    """The name that `identifier` quoted."""
    return name[1:-1].replace('""', '"')


def literal(value: Value) -> str:
    """A constant whose DuckDB type follows from the Python one; small integers are INTEGER."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value) if value >= 0 else f"({value})"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case decimal.Decimal():
            return format(value, "f") if value >= 0 else f"({value:f})"
        case str() if _PLAIN.fullmatch(value):
            # There is nothing to escape, and printing it costs more than a key lookup.
            return f"'{value}'"
        case str():
            return exp.Literal.string(value).sql(dialect="duckdb")
        case bytes():
            return f"from_hex('{value.hex()}')"
        case datetime.datetime():
            return f"TIMESTAMP '{value.isoformat(' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case datetime.time():
            return f"TIME '{value.isoformat()}'"


def typed_literal(constant: Literal) -> str:
    """A constant of exactly the DuckDB type that its SQL type has."""
    value, kind = constant.value, constant.type
    if kind is INTERVAL_UNIT:
        return literal(value)
    if value is None:
        return "NULL" if kind is NULL else cast("NULL", kind)
    if isinstance(value, decimal.Decimal):
        return cast(f"'{value:f}'", kind)
    if isinstance(value, int) and not isinstance(value, bool) and kind == BIGINT:
        return cast(str(value), kind)
    return literal(value)


def cast(text: str, kind: SqlType) -> str:
    """DuckDB's own conversion to the physical form of a type."""
    return f"CAST({text} AS {duckdb_type(kind)})"


def call(function: str, *arguments: str) -> str:
    """A function call."""
    return f"{function}({', '.join(arguments)})"


def guarded(text: str) -> str:
    """NULL where the expression raises.

    TRY alone is not enough: DuckDB moves subexpressions that occur twice in a SELECT out of TRY and
    evaluates them first. It does not do so with the body of a lambda.
    """
    return f"TRY(list_transform([0], lambda _try: {text})[1])"


def array(items: Sequence[str]) -> str:
    """A list constructor."""
    return f"[{', '.join(items)}]"


def struct(fields: Sequence[tuple[str, str]]) -> str:
    """A struct constructor from (physical name, text) pairs."""
    return call("struct_pack", *(f"{identifier(name)} := {text}" for name, text in fields))
