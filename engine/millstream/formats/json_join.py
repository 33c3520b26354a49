"""Records of JSON joined by compiled code from the columns of their fields (join.c)."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from millstream.formats.library import Column
from millstream.model.physical import arrow_type
from millstream.model.types import BIGINT, BOOLEAN, INTEGER, STRING, SqlType

_JSON = 1
_KINDS: Mapping[SqlType, int] = {STRING: 0, INTEGER: 2, BIGINT: 3, BOOLEAN: 4}
"""`enum kind` of join.c."""
_NOTHING = np.zeros(16, np.uint8)
"""Placeholder for a buffer that an array without content need not have."""


def is_joined_as_it_is(sql_type: SqlType) -> bool:
    """Whether a column needs no prior conversion to JSON."""
    return sql_type in _KINDS


def join(
    library: ctypes.CDLL, names: Sequence[str], types: Sequence[SqlType], columns: list[pa.Array]
) -> pa.Array | None:
    """Compact records with these fields, NULL as `null`; columns of types that are not
    `is_joined_as_it_is` hold their JSON as text. None where they are too large for one array."""
    rows = len(columns[0])
    arrays = [
        array if array.type == wanted else array.cast(wanted)
        for array, wanted in zip(columns, map(_carrier, types), strict=True)
    ]
    opened = (f"{',' if index else '{'}{_quoted(name)}:" for index, name in enumerate(names))
    leads = [lead.encode() for lead in opened]
    described = (Column * len(columns))(*map(_column, leads, types, arrays))
    size = library.ms_joined_size(described, len(columns), rows)
    if not 0 <= size < 1 << 31:
        return None
    starts, content = np.empty(rows + 1, np.int32), np.empty(size, np.uint8)
    library.ms_join(described, len(columns), rows, starts.ctypes.data, content.ctypes.data)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(content[: starts[-1]])]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def _carrier(sql_type: SqlType) -> pa.DataType:
    return arrow_type(sql_type) if sql_type in _KINDS else pa.string()


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _column(lead: bytes, sql_type: SqlType, array: pa.Array) -> Column:
    valid, values, *more = array.buffers()
    data = more[0] if more else None
    return Column(
        lead,
        len(lead),
        _KINDS.get(sql_type, _JSON),
        array.offset,
        None if valid is None else valid.address,
        _NOTHING.ctypes.data if values is None else values.address,
        _NOTHING.ctypes.data if data is None else data.address,
        0 if data is None else data.size,
    )
