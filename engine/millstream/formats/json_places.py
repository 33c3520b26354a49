"""Finds the positions of the values of flat JSON records, for many records at a time.

In a record without escapes the quotes determine all positions: the quotes of field names and texts
come in pairs, and every other value is between a colon and a comma. The text between two values, a
*joint*, is the same in all records of one shape, so comparing the joints proves the shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.formats.json_shape import FlatField
from millstream.formats.payload import byte_content

Places = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_QUOTE, _ESCAPE, _BLANK = b'"\\ '
_WORD = 8
_MARGIN = 64
"""The padding in bytes before the first record, for code that reads backwards from the end of a
value."""


@dataclass(frozen=True, slots=True)
class RecordBytes:
    """Records in one run of bytes: where each starts (and the last ends) in `content`."""

    content: npt.NDArray[np.uint8]
    starts: Places

    def texts(self, begin: Places, end: Places) -> pa.Array:
        """The texts between ascending positions, one for each pair."""
        offsets = np.empty(2 * len(begin) + 1, np.int32)
        offsets[:-1:2], offsets[1::2], offsets[-1] = begin, end, end[-1] if len(end) else 0
        # Every second one is the gap between two of the texts.
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.content)]
        every = pa.Array.from_buffers(pa.string(), 2 * len(begin), buffers)
        return every.take(pa.array(np.arange(0, 2 * len(begin), 2)))

    def words(self, ends: Places, count: int) -> Words:
        """The bytes before each position as little-endian words, `count` for each position."""
        width = count * _WORD
        every: npt.NDArray[np.void] = np.ndarray(
            (len(self.content) - width + 1,), f"V{width}", self.content, 0, (1,)
        )
        return every[ends - width].view("<u8")


def piece_of(text: pa.Array) -> RecordBytes:
    """The records of an array without NULL."""
    starts, content = byte_content(text)
    first = int(starts[0])
    if first >= _MARGIN:
        return RecordBytes(content[first - _MARGIN : int(starts[-1])], starts - (first - _MARGIN))
    padded = np.zeros(_MARGIN + int(starts[-1]) - first, np.uint8)
    padded[_MARGIN:] = content[first : int(starts[-1])]
    return RecordBytes(padded, starts + (_MARGIN - first))


def places_of(
    piece: RecordBytes, fields: Sequence[FlatField]
) -> list[tuple[Places, Places]] | None:
    """Where the value of each field begins and ends; for a text, without its quotes.

    None unless every record consists of just these fields, without white space and escapes. For
    other values than texts, this proves that they are between colon and comma, not that they are
    valid.
    """
    quotes = _quotes(piece, fields)
    if quotes is None:
        return None
    places: list[tuple[Places, Places]] = []
    at, before = 0, b"{"
    begin = piece.starts[:-1]
    for field in fields:
        key = quotes[:, at]
        joint = before + b'"' + field.name.encode() + (b'":"' if field.quoted else b'":')
        ends = key + (len(joint) - len(before))
        if not _agree(piece, ends, joint):
            return None
        if at:
            places.append((begin, key - len(before)))
        begin = ends
        at, before = (at + 4, b'",') if field.quoted else (at + 2, b",")
    last = before[:-1] + b"}"
    if not _agree(piece, piece.starts[1:], last):
        return None
    places.append((begin, piece.starts[1:] - len(last)))
    return places


def _quotes(piece: RecordBytes, fields: Sequence[FlatField]) -> Places | None:
    """The positions of the quotes, a row for each record; None unless all records have the number
    that the fields imply and nothing is escaped."""
    content = piece.content[_MARGIN:]
    if content.min(initial=_BLANK) < _BLANK or (content == _ESCAPE).any():
        return None
    found = np.flatnonzero(content == _QUOTE)
    found += _MARGIN
    width = sum(4 if field.quoted else 2 for field in fields)
    if len(found) != width * (len(piece.starts) - 1):
        return None
    quotes = found.reshape(-1, width)
    # The first quote of a record follows its brace; if that holds everywhere, no row is misaligned.
    return quotes if np.array_equal(quotes[:, 0], piece.starts[:-1] + 1) else None


def _agree(piece: RecordBytes, ends: Places, joint: bytes) -> bool:
    """Whether the joint precedes each of the positions."""
    # They ascend, so checking the last one is enough for bounds.
    if ends[-1] > len(piece.content):
        return False
    count = -(-len(joint) // _WORD)
    found = piece.words(ends, count)
    wanted = np.frombuffer(joint.rjust(count * _WORD, b"\0"), "<u8")
    mask = np.frombuffer((b"\xff" * len(joint)).rjust(count * _WORD, b"\0"), "<u8")[0]
    return bool(((found[::count] & mask) == wanted[0]).all()) and all(
        bool((found[index::count] == wanted[index]).all()) for index in range(1, count)
    )
