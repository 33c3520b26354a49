"""Whole numbers in JSON text, checked and read sixteen digits at a time.

The digits of a number are the bytes of one or two words; arithmetic on words treats all bytes at
once, and numpy all numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from millstream.formats.json_places import Places, RecordBytes, Words

_DIGITS = 16
_ZERO, _MINUS = b"0-"
_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x7676767676767676)
"""Added to a byte above nine, this sets the highest bit."""
_HIGHEST = np.uint64(0x8080808080808080)
_ALTERNATE = np.uint64(0x000000FF000000FF)


def _last_bytes(counts: range) -> Words:
    """A mask of the last bytes of a word, for each count of them."""
    kept = (min(max(count, 0), 8) for count in counts)
    return np.array([(1 << 64) - (1 << 64 - 8 * count) for count in kept], np.uint64)


_LAST_WORD = _last_bytes(range(_DIGITS + 1))
_FIRST_WORD = _last_bytes(range(-8, _DIGITS - 7))


def whole_numbers(
    piece: RecordBytes, begin: Places, end: Places, *, read: bool
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which of the positions hold a whole number of up to sixteen digits in JSON notation, and with
    `read` their values (undefined elsewhere)."""
    first = piece.content[begin]
    minus = first == _MINUS
    if minus.any():
        begin = begin + minus
        first = piece.content[begin]
    length = end - begin
    longest = int(length.max(initial=0))
    fine = (length > 0) & ((first != _ZERO) | (length == 1))
    if longest > _DIGITS:
        fine &= length <= _DIGITS
        length = np.minimum(length, _DIGITS)
    count = 1 if longest <= 8 else 2
    words = piece.words(end, count)
    digits = (words[count - 1 :: count] ^ _ZEROS) & _LAST_WORD[length]
    excess = digits | (digits + _ABOVE_NINE)
    values = _value(digits) if read else np.zeros(0, np.int64)
    if count == 2:
        digits = (words[::2] ^ _ZEROS) & _FIRST_WORD[length]
        excess |= digits | (digits + _ABOVE_NINE)
        if read:
            values += _value(digits) * 10**8
    fine &= (excess & _HIGHEST) == 0
    if read and minus.any():
        values = np.where(minus, -values, values)
    return fine, values


def _value(digits: Words) -> npt.NDArray[np.int64]:
    """The numbers whose eight digits the words hold, the first in the lowest byte."""
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    even = (pairs & _ALTERNATE) * np.uint64(100 + (1_000_000 << 32))
    odd = ((pairs >> np.uint64(16)) & _ALTERNATE) * np.uint64(1 + (10_000 << 32))
    return ((even + odd) >> np.uint64(32)).view(np.int64)
