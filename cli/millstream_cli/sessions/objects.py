"""Maps as objects: Arrow gives a map as a list of pairs, which no shell should show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.types as kinds

from millstream_cli.screen.cells import cell

Row = TypeVar("Row", bound=tuple[Any, ...])


def with_objects(rows: Iterable[Row], schema: pa.Schema) -> Iterator[Row]:
    """The rows of a table with each map as a dict of text to values, within arrays and structs
    too; rows keep their class."""
    found = [index for index, kind in enumerate(schema.types) if _has_map(kind)]
    if not found:
        yield from rows
        return
    for row in rows:
        values = list(row)
        for index in found:
            values[index] = _objects(values[index], schema.types[index])
        yield type(row)(values)


def _has_map(kind: pa.DataType) -> bool:
    if kinds.is_map(kind):
        return True
    if kinds.is_list(kind):
        return _has_map(kind.value_type)
    return kinds.is_struct(kind) and any(_has_map(field.type) for field in kind)


def _objects(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if kinds.is_map(kind):
        return {_text(key): _objects(item, kind.item_type) for key, item in value}
    if kinds.is_list(kind):
        return [_objects(item, kind.value_type) for item in value]
    if kinds.is_struct(kind):
        return {field.name: _objects(value[field.name], field.type) for field in kind}
    return value


def _text(key: Any) -> str:
    return key if isinstance(key, str) else cell(key)
