"""Finds fractions in a client's rows that an INTEGER or BIGINT column would truncate.

The JSON format reads `1.5` into an INTEGER as Java's `intValue` does. The values that a client
inserts are converted like the constants of INSERT VALUES, which loses no digits (reference: 2,
implicit conversion).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from millstream.model.schema import Column
from millstream.model.types import Array, Map, Primitive, SqlType, Struct

_FRACTION = re.compile(rb"[0-9][.eE]")
"""Found in every row that has a number with a fraction or an exponent."""


def truncated_fractions(rows: Sequence[bytes], columns: Sequence[Column]) -> dict[int, str]:
    """The errors of the rows with such numbers, by index. Rows that are not JSON objects are
    skipped: the reader reports them."""
    types = {column.name.upper(): column.type for column in columns}
    errors: dict[int, str] = {}
    for number, row in enumerate(rows):
        if _FRACTION.search(row) is None:
            continue
        try:
            value = json.loads(row)
        except ValueError:
            continue
        if isinstance(value, dict) and (error := next(_member_errors(value, types), None)):
            errors[number] = error
    return errors


def _member_errors(row: Mapping[str, Any], types: Mapping[str, SqlType]) -> Iterator[str]:
    for name, value in row.items():
        if (sql_type := types.get(name.upper())) is None:
            continue
        for number, integer_type in _fractions(value, sql_type):
            yield f"{name.upper()}: {number!r} does not fit into {integer_type}"


def _fractions(value: Any, sql_type: SqlType) -> Iterator[tuple[float, SqlType]]:
    """The fractions in a value, each with the integer type that it should have."""
    match value, sql_type:
        case float(), Primitive.INTEGER | Primitive.BIGINT:
            yield value, sql_type
        case list(), Array(item):
            for element in value:
                yield from _fractions(element, item)
        case dict(), Map(_, item):
            for element in value.values():
                yield from _fractions(element, item)
        case dict(), Struct(fields):
            types = {field.name.upper(): field.type for field in fields}
            for name, element in value.items():
                if (field_type := types.get(name.upper())) is not None:
                    yield from _fractions(element, field_type)
