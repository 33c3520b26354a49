"""JSON columns cut out of the text: records of one shape have their values in the same places.

Nothing is parsed: the places of the values are found for thousands of records at a time, which
proves the shape, and only the values that are wanted are taken out of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.json_digits import whole_numbers
from millstream.formats.json_places import Piece, Places, piece_of, places_of
from millstream.formats.json_shape import FlatField, Shapes
from millstream.model.physical import arrow_type
from millstream.model.types import (
    BIGINT,
    BYTES,
    DATE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    SqlType,
)

_SLICE_ROWS = 4096
"""So many records at a time: what is found of them stays in the processor's cache."""
_CARRIED: Mapping[SqlType, pa.DataType] = {
    BYTES: pa.string(),
    DATE: pa.int32(),
    TIME: pa.int64(),
    TIMESTAMP: pa.int64(),
}
"""Types that are carried in another one, as `json_shape.carrier_type` has it."""
_WHOLE = frozenset((INTEGER, BIGINT, DATE, TIME, TIMESTAMP))


class _NotCutError(Exception):
    """Records that another reader must look at."""


def cut_columns(text: pa.Array, shapes: Shapes) -> dict[str, pa.Array] | None:
    """The wanted columns that the records have, by name, in the types that carry them.

    None where a record has none of the shapes, and where cutting does not do: several shapes,
    nested fields, white space, escapes, a text that is `null` in some records only, a number out
    of range.
    """
    if not shapes.fields or not len(text) or text.null_count:
        return None
    try:
        pieces = [
            _cut(piece_of(text.slice(start, _SLICE_ROWS)), shapes.fields)
            for start in range(0, len(text), _SLICE_ROWS)
        ]
    except (_NotCutError, pa.ArrowInvalid):
        return None
    return {name: pa.concat_arrays([piece[name] for piece in pieces]) for name in pieces[0]}


def _cut(piece: Piece, fields: Sequence[FlatField]) -> dict[str, pa.Array]:
    places = places_of(piece, fields)
    if places is None:
        raise _NotCutError
    found = {}
    for field, (begin, end) in zip(fields, places, strict=True):
        if field.type is not None:
            found[field.column] = _read(piece, begin, end, field, field.type)
        elif not field.quoted:
            _prove(piece, begin, end, field)
    return found


def _prove(piece: Piece, begin: Places, end: Places, field: FlatField) -> None:
    fine, _ = whole_numbers(piece, begin, end, read=False)
    if not fine.all():
        _texts(piece, begin[~fine], end[~fine], field)


def _texts(piece: Piece, begin: Places, end: Places, field: FlatField) -> pa.Array:
    """What lies between the places, which must be what the field may hold."""
    texts = piece.texts(begin, end)
    if not pc.all(pc.match_substring_regex(texts, field.pattern)).as_py():
        raise _NotCutError
    return texts


def _read(
    piece: Piece, begin: Places, end: Places, field: FlatField, sql_type: SqlType
) -> pa.Array:
    if sql_type is STRING or sql_type is BYTES:
        return _read_texts(piece, begin, end, field)
    if field.quoted:
        raise _NotCutError
    target = _CARRIED.get(sql_type) or arrow_type(sql_type)
    if sql_type not in _WHOLE:
        return _carried(_texts(piece, begin, end, field), target)
    fine, values = whole_numbers(piece, begin, end, read=True)
    if fine.all():
        return pa.array(values).cast(target)
    others = _carried(_texts(piece, begin[~fine], end[~fine], field), pa.int64())
    values[~fine] = others.fill_null(0).to_numpy()
    absent = np.zeros(len(values), np.bool_)
    absent[~fine] = others.is_null().to_numpy(zero_copy_only=False)
    return pa.array(values, mask=absent).cast(target)


def _read_texts(piece: Piece, begin: Places, end: Places, field: FlatField) -> pa.Array:
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
        # The whole number -0 is 0, and what is too large is for the exact reader to refuse.
        if not np.isfinite(values).all() or (np.signbit(values) & (values == 0)).any():
            raise _NotCutError
    return array
