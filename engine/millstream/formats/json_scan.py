"""Finds the positions of values in JSON of one shape by compiled code (scan.c), with the same
result as `json_places` and `json_digits` with numpy."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.formats.json_proof import BOUNDS
from millstream.formats.json_shape import WHOLE, FlatField
from millstream.formats.library import Field
from millstream.model.types import BOOLEAN, BYTES, DOUBLE, STRING, Decimal

_SKIPPED, _TEXT, _LOOSE, _NUMBER, _ABSENT, _WITHIN, _DOUBLE, _BOOLEAN, _DECIMAL = range(9)
"""`enum kind` of scan.c."""
_ODD, _NONE = 1, 2
"""Values of `enum state` of scan.c."""


@dataclass(frozen=True, slots=True)
class Found:
    """The values of one field: the position of each in `content` (of a text, without its quotes)
    and their total bytes; for a field of whole numbers also the numbers. Then `odd` are values that
    are not numbers of up to sixteen digits, `absent` those that are null."""

    content: npt.NDArray[np.uint8]
    begin: npt.NDArray[np.int32]
    end: npt.NDArray[np.int32]
    bytes: int
    numbers: npt.NDArray[np.int64] | None = None
    odd: npt.NDArray[np.bool_] | None = None
    absent: npt.NDArray[np.bool_] | None = None

    def only(self, rows: npt.NDArray[np.bool_]) -> Found:
        """The values of some records."""
        begin, end = self.begin[rows], self.end[rows]
        return Found(self.content, begin, end, int((end - begin).sum()))


def scan(
    library: ctypes.CDLL, text: pa.Array, fields: Sequence[FlatField]
) -> list[Found | None] | None:
    """The values of the fields that are read, None for the others. None for all unless every record
    consists of exactly these fields, without white space and escapes, and the unread values are
    valid for their columns. The caller handles `Found.odd`, types that are neither texts nor whole
    numbers, and unread texts in columns of other types."""
    rows = len(text)
    _, offsets, data = text.buffers()
    starts = np.frombuffer(offsets, np.int32, rows + 1 + text.offset)[text.offset :]
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    kinds = [_kind(field) for field in fields]
    joints, last = _joints(fields)
    begins, ends = np.empty((2, len(fields), rows), np.int32)
    whole = [index for index, kind in enumerate(kinds) if kind == _NUMBER]
    numbers = {index: np.empty(rows, np.int64) for index in whole}
    states = {index: np.empty(rows, np.uint8) for index in whole}
    described = (Field * len(fields))(
        *(
            Field(
                joints[index],
                len(joints[index]),
                field.quoted,
                kinds[index],
                begins[index].ctypes.data,
                ends[index].ctypes.data,
                numbers[index].ctypes.data if index in numbers else None,
                states[index].ctypes.data if index in states else None,
                *_limits(field),
            )
            for index, field in enumerate(fields)
        )
    )
    matched = library.ms_scan(
        *(content.ctypes.data, len(content), starts.ctypes.data, rows),
        *(described, len(fields), last, len(last)),
    )
    if matched < rows:
        return None
    return [
        _found(content, begins[index], ends[index], each, numbers.get(index), states.get(index))
        if kind in (_TEXT, _LOOSE, _NUMBER)
        else None
        for index, (kind, each) in enumerate(zip(kinds, described, strict=True))
    ]


def _kind(field: FlatField) -> int:
    if field.type is None:
        return _unread_kind(field)
    if field.quoted:
        return _TEXT
    if field.type in (STRING, BYTES):
        return _ABSENT
    return _NUMBER if field.type in WHOLE else _LOOSE


def _unread_kind(field: FlatField) -> int:
    if field.declared is None or field.declared is STRING:
        return _SKIPPED
    if field.quoted:
        return _TEXT
    if field.declared in BOUNDS:
        return _WITHIN
    match field.declared:
        case Decimal():
            return _DECIMAL
        case _ if field.declared is DOUBLE:
            return _DOUBLE
        case _ if field.declared is BOOLEAN:
            return _BOOLEAN
    return _ABSENT


def _limits(field: FlatField) -> tuple[int, int]:
    """`low` and `high` of scan.c."""
    if isinstance(field.declared, Decimal):
        return field.declared.precision - field.declared.scale, field.declared.scale
    return (0, 0) if field.declared is None else BOUNDS.get(field.declared, (0, 0))


def _joints(fields: Sequence[FlatField]) -> tuple[list[bytes], bytes]:
    """The text before the value of each field, and behind the last one."""
    joints, before = [], b"{"
    for field in fields:
        joints.append(before + b'"' + field.name.encode() + (b'":"' if field.quoted else b'":'))
        before = b'",' if field.quoted else b","
    return joints, before[:-1] + b"}"


def _found(
    content: npt.NDArray[np.uint8],
    begin: npt.NDArray[np.int32],
    end: npt.NDArray[np.int32],
    field: Any,
    numbers: npt.NDArray[np.int64] | None,
    state: npt.NDArray[np.uint8] | None,
) -> Found:
    odd = state == _ODD if state is not None and field.odd else None
    absent = state == _NONE if state is not None and field.none else None
    return Found(content, begin, end, field.bytes, numbers, odd, absent)


def texts(library: ctypes.CDLL, found: Found) -> pa.Array:
    """The values of a field as written in the text."""
    rows = len(found.begin)
    starts, content = np.empty(rows + 1, np.int32), np.empty(found.bytes, np.uint8)
    library.ms_gather(
        *(found.content.ctypes.data, found.begin.ctypes.data, found.end.ctypes.data, rows),
        *(starts.ctypes.data, content.ctypes.data),
    )
    return pa.Array.from_buffers(
        pa.string(), rows, [None, pa.py_buffer(starts), pa.py_buffer(content)]
    )
