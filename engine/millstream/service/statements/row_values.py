"""Fractions in a client's rows that an INTEGER or BIGINT column would cut off.

The JSON format reads `1.5` into an INTEGER as Java's `intValue` does. What a client inserts is
converted as the constants of INSERT VALUES are, which loses nothing (reference: 2, implicit
conversion).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from millstream.model.schema import Column
from millstream.model.types import Array, Map, Primitive, SqlType, Struct

_FRACTION = re.compile(rb"[0-9][.eE]")
"""What a row has in it that has a number with a fraction."""


def cut_fractions(rows: Sequence[bytes], columns: Sequence[Column]) -> dict[int, str]:
    """Why each row with such a number is refused, by its place. Rows that are no objects of JSON
    are left to the reader."""
    types = {column.name.upper(): column.type for column in columns}
    found: dict[int, str] = {}
    for number, row in enumerate(rows):
        if _FRACTION.search(row) is None:
            continue
        try:
            value = json.loads(row)
        except ValueError:
            continue
        if isinstance(value, dict) and (cut := next(_cut_members(value, types), None)):
            found[number] = cut
    return found


def _cut_members(row: Mapping[str, Any], types: Mapping[str, SqlType]) -> Iterator[str]:
    for name, value in row.items():
        if (kind := types.get(name.upper())) is None:
            continue
        for number, type_ in _cut(value, kind):
            yield f"{name.upper()}: {number!r} does not fit into {type_}"


def _cut(value: Any, kind: SqlType) -> Iterator[tuple[float, SqlType]]:
    """The fractions within a value, each with the type it should have."""
    match value, kind:
        case float(), Primitive.INTEGER | Primitive.BIGINT:
            yield value, kind
        case list(), Array(item):
            for one in value:
                yield from _cut(one, item)
        case dict(), Map(_, item):
            for one in value.values():
                yield from _cut(one, item)
        case dict(), Struct(fields):
            types = {field.name.upper(): field.type for field in fields}
            for name, one in value.items():
                if (own := types.get(name.upper())) is not None:
                    yield from _cut(one, own)
