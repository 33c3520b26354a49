"""Cuts JSON columns out of the text, for records of one shape.

Nothing is parsed. The positions of the values are found for thousands of records at a time, which
proves the shape, and only the requested values are copied out of the text. Compiled code does that
if it is available (`scan.c`), numpy otherwise, with the same result.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats import json_scan
from millstream.formats.json_digits import whole_numbers
from millstream.formats.json_places import Places, RecordBytes, piece_of, places_of
from millstream.formats.json_proof import BOUNDS
from millstream.formats.json_shape import WHOLE, FlatField, Shapes
from millstream.formats.library import compiled_formats
from millstream.model.physical import arrow_type
from millstream.model.types import BYTES, DATE, STRING, TIME, TIMESTAMP, SqlType

Mask = npt.NDArray[np.bool_]
_SLICE_ROWS = 4096
"""The number of records per pass: their results stay in the processor's cache."""
_CARRIED: Mapping[SqlType, pa.DataType] = {
    BYTES: pa.string(),
    DATE: pa.int32(),
    TIME: pa.int64(),
    TIMESTAMP: pa.int64(),
}
"""Types with another carrier type, as in `json_shape.carrier_type`."""


class _NotCutError(Exception):
    """Records that another reader must handle."""


def cut_columns(text: pa.Array, shapes: Shapes) -> dict[str, pa.Array] | None:
    """The requested columns that the records have, by name and in their carrier types.

    None where a record has none of the shapes, and where cutting is not possible: several shapes,
    nested fields, white space, escapes, a text that is `null` in some records only, a number out of
    range.
    """
    if not shapes.fields or not len(text) or text.null_count:
        return None
    library = compiled_formats()
    try:
        if library is not None:
            return _cut_compiled(library, text, shapes.fields)
        return _cut_by_numpy(text, shapes.fields)
    except (_NotCutError, pa.ArrowInvalid):
        return None


def _cut_compiled(
    library: ctypes.CDLL, text: pa.Array, fields: Sequence[FlatField]
) -> dict[str, pa.Array]:
    found = json_scan.scan(library, text, fields)
    if found is None:
        raise _NotCutError
    columns = {}
    for field, values in zip(fields, found, strict=True):
        if values is not None and field.type is None:
            _proved(json_scan.texts(library, values), field)
        elif values is not None:
            columns[field.column] = _typed(library, values, field)
        elif field.type is not None:
            columns[field.column] = pa.nulls(len(text), pa.string())
    return columns


def _typed(library: ctypes.CDLL, found: json_scan.Found, field: FlatField) -> pa.Array:
    assert field.type is not None
    target = _target(field, field.type)
    if found.numbers is not None:
        values, absent = found.numbers, found.absent
        if found.odd is not None:
            others = _proved(json_scan.texts(library, found.only(found.odd)), field)
            absent = _corrected(values, found.odd, others, absent)
        return pa.array(values, mask=absent).cast(target)
    texts = json_scan.texts(library, found)
    if field.type is STRING:
        return texts
    proved = _proved(texts, field)
    return proved if field.type is BYTES else _carried(proved, target)


def _target(field: FlatField, sql_type: SqlType) -> pa.DataType:
    """The carrier type of a column."""
    if field.quoted and sql_type not in (STRING, BYTES):
        raise _NotCutError
    return _CARRIED.get(sql_type) or arrow_type(sql_type)


def _corrected(
    values: npt.NDArray[np.int64], odd: Mask, others: pa.Array, absent: Mask | None
) -> Mask:
    """Insert the irregular numbers, with the texts `others`, into the values; returns which of the
    values are absent."""
    read = _carried(others, pa.int64())
    values[odd] = read.fill_null(0).to_numpy()
    absent = np.zeros(len(values), np.bool_) if absent is None else absent
    absent[odd] = read.is_null().to_numpy(zero_copy_only=False)
    return absent


def _cut_by_numpy(text: pa.Array, fields: Sequence[FlatField]) -> dict[str, pa.Array]:
    pieces = [
        _cut(piece_of(text.slice(start, _SLICE_ROWS)), fields)
        for start in range(0, len(text), _SLICE_ROWS)
    ]
    return {name: pa.concat_arrays([piece[name] for piece in pieces]) for name in pieces[0]}


def _cut(piece: RecordBytes, fields: Sequence[FlatField]) -> dict[str, pa.Array]:
    places = places_of(piece, fields)
    if places is None:
        raise _NotCutError
    found = {}
    for field, (begin, end) in zip(fields, places, strict=True):
        if field.type is not None:
            found[field.column] = _read(piece, begin, end, field, field.type)
        else:
            _prove(piece, begin, end, field)
    return found


def _prove(piece: RecordBytes, begin: Places, end: Places, field: FlatField) -> None:
    """Unread values must be valid for their columns."""
    free = field.declared is None or field.declared is STRING
    if free and field.quoted:
        return
    if field.quoted or not (free or field.declared in BOUNDS):
        _texts(piece, begin, end, field)
        return
    fine, values = whole_numbers(piece, begin, end, read=not free)
    if field.declared is not None and not free:
        low, high = BOUNDS[field.declared]
        fine &= (values >= low) & (values <= high)
    if not fine.all():
        _texts(piece, begin[~fine], end[~fine], field)


def _texts(piece: RecordBytes, begin: Places, end: Places, field: FlatField) -> pa.Array:
    """The texts between the positions, which must be valid for the field."""
    return _proved(piece.texts(begin, end), field)


def _proved(texts: pa.Array, field: FlatField) -> pa.Array:
    if not pc.all(pc.match_substring_regex(texts, field.pattern)).as_py():
        raise _NotCutError
    return texts


def _read(
    piece: RecordBytes, begin: Places, end: Places, field: FlatField, sql_type: SqlType
) -> pa.Array:
    if sql_type is STRING or sql_type is BYTES:
        return _read_texts(piece, begin, end, field)
    target = _target(field, sql_type)
    if sql_type not in WHOLE:
        return _carried(_texts(piece, begin, end, field), target)
    fine, values = whole_numbers(piece, begin, end, read=True)
    if fine.all():
        return pa.array(values).cast(target)
    others = _texts(piece, begin[~fine], end[~fine], field)
    return pa.array(values, mask=_corrected(values, ~fine, others, None)).cast(target)


def _read_texts(piece: RecordBytes, begin: Places, end: Places, field: FlatField) -> pa.Array:
    texts = piece.texts(begin, end)
    if not field.quoted:
        if not pc.all(pc.equal(texts, "null")).as_py():
            raise _NotCutError
        return pa.nulls(len(texts), pa.string())
    return _texts(piece, begin, end, field) if field.type is BYTES else texts


def _carried(texts: pa.Array, target: pa.DataType) -> pa.Array:
    absent = pc.equal(texts, "null")
    array = pc.if_else(absent, pa.scalar(None, pa.string()), texts).cast(target)
    if pa.types.is_floating(target):
        values = array.drop_null().to_numpy()
        # The whole number -0 is 0; the exact reader refuses numbers that are too large.
        if not np.isfinite(values).all() or (np.signbit(values) & (values == 0)).any():
            raise _NotCutError
    return array
