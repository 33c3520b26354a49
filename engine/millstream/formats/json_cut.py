"""JSON columns cut out of the text: records of one shape have their quotes in the same places.

Of a record that is known to have a shape without white space and escapes, only the quotes need to
be found: field names and texts lie between two of them, all else between a colon and a comma.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.formats.json_shape import Shapes
from millstream.formats.payload import Layout, byte_content
from millstream.model.physical import arrow_type
from millstream.model.schema import Column
from millstream.model.types import BYTES, DATE, DOUBLE, TIME, TIMESTAMP, SqlType

_QUOTE = ord('"')
_SLICE_ROWS = 4096
"""So many records at a time: what is found of them stays in the processor's cache."""
_CARRIED: Mapping[SqlType, pa.DataType] = {
    BYTES: pa.string(),
    DATE: pa.int32(),
    TIME: pa.int64(),
    TIMESTAMP: pa.int64(),
}
"""Types that are carried in another one, as `json_shape.carrier_type` has it."""

_Places = npt.NDArray[np.int64]


def cut_columns(text: pa.Array, layout: Layout, shapes: Shapes) -> dict[str, pa.Array] | None:
    """The wanted columns that the shape has, by name, in the types that carry them.

    `text`: records that match `shapes.compact`, none NULL. None where cutting does not do: several
    shapes, nested fields, a text or number that is `null` in some record, a number out of range.
    """
    wanted = {
        shapes.names.fields[column.name]: column
        for column in layout.picked
        if column.name in shapes.names.fields
    }
    quoted = {name for name, quoted in shapes.fields if quoted}
    texts = {name for name, column in wanted.items() if _carrier(column.type) == pa.string()}
    # Where the sample has `null` for a text, so have the others.
    if not wanted or not shapes.fields or not texts <= quoted:
        return None
    pieces: list[list[pa.Array]] = []
    for start in range(0, len(text), _SLICE_ROWS):
        columns = _cut(text.slice(start, _SLICE_ROWS), wanted, shapes.fields)
        if columns is None:
            return None
        pieces.append(columns)
    cut = [pa.concat_arrays(arrays) for arrays in zip(*pieces, strict=True)]
    return {column.name: array for column, array in zip(wanted.values(), cut, strict=True)}


def _cut(
    text: pa.Array, wanted: Mapping[str, Column], fields: Sequence[tuple[str, bool]]
) -> list[pa.Array] | None:
    starts, content = byte_content(text)
    quotes = _quotes(content, starts, fields)
    bounds = None if quotes is None else _bounds(quotes, starts, fields, wanted)
    if bounds is None:
        return None
    pieces = dict(zip(bounds, _pieces(text, bounds.values()), strict=True))
    try:
        return [_carried(pieces[name], column.type) for name, column in wanted.items()]
    except pa.ArrowInvalid:
        return None


def _quotes(
    content: npt.NDArray[np.uint8], starts: _Places, fields: Sequence[tuple[str, bool]]
) -> _Places | None:
    """The places of the quotes, a row for each record; None unless all have as many as `fields`
    tell."""
    width = sum(4 if quoted else 2 for _, quoted in fields)
    found = np.flatnonzero(content[starts[0] : starts[-1]] == _QUOTE) + starts[0]
    if len(found) != width * (len(starts) - 1):
        return None
    quotes = found.reshape(-1, width)
    # The first of a record follows its brace: where it does everywhere, no row is out of step.
    return quotes if np.array_equal(quotes[:, 0], starts[:-1] + 1) else None


def _bounds(
    quotes: _Places, starts: _Places, fields: Sequence[tuple[str, bool]], wanted: Collection[str]
) -> dict[str, tuple[_Places, _Places]] | None:
    """Where the wanted values begin and end, in the order in which they lie in the records; None
    where a value is a text in one record and not in another."""
    bounds: dict[str, tuple[_Places, _Places]] = {}
    at = 0
    for name, quoted in fields:
        begin = quotes[:, at + 1] + 2
        at += 2
        last = at == quotes.shape[1]
        following = starts[1:] if last else quotes[:, at]
        texts = following == begin
        if quoted:
            if not texts.all():
                return None
            begin, end = begin + 1, quotes[:, at + 1]
            at += 2
        else:
            if texts.any():
                return None
            end = following - 1
        if name in wanted:
            bounds[name] = begin, end
        if len(bounds) == len(wanted):
            break
    return bounds


def _pieces(text: pa.Array, bounds: Iterable[tuple[_Places, _Places]]) -> list[pa.Array]:
    """What lies within the bounds. The text is taken for one array of the pieces and of what lies
    between them, whose bytes are where they are."""
    cuts = [place for pair in bounds for place in pair]
    rows, width = len(text), len(cuts)
    offsets = np.empty(rows * width + 1, np.int32)
    for index, places in enumerate(cuts):
        offsets[index:-1:width] = places
    offsets[-1] = offsets[-2]
    every = pa.Array.from_buffers(
        pa.string(), rows * width, [None, pa.py_buffer(offsets), text.buffers()[2]]
    )
    return [every.take(pa.array(np.arange(at, rows * width, width))) for at in range(0, width, 2)]


def _carrier(sql_type: SqlType) -> pa.DataType:
    return _CARRIED.get(sql_type) or arrow_type(sql_type)


def _carried(piece: pa.Array, sql_type: SqlType) -> pa.Array:
    array = piece.cast(_carrier(sql_type))
    if sql_type is DOUBLE:
        values = array.to_numpy()
        # The whole number -0 is 0, and what is too large is for the exact reader to refuse.
        if not np.isfinite(values).all() or (np.signbit(values) & (values == 0)).any():
            raise pa.ArrowInvalid("not an ordinary number")
    return array
