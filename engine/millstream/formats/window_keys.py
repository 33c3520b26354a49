"""Windows in key bytes: `key ‖ start` for time windows, `key ‖ end ‖ start` for sessions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.payload import Bytes, byte_content, fixed_bytes, present_rows
from millstream.model.schema import WindowedKey, WindowKind


def split_window(
    keys: Bytes, window: WindowedKey
) -> tuple[Bytes, pa.Array, pa.Array, dict[int, str]]:
    """The bare keys, window starts and ends (ms, BIGINT), and the errors of bad rows.

    All NULL where the key is NULL.
    """
    session = window.kind is WindowKind.SESSION
    width = 16 if session else 8
    starts, content = byte_content(keys)
    present = present_rows(keys)
    fits = present & (np.diff(starts) >= width)
    suffix = np.zeros((len(keys), width), np.uint8)
    ends = starts[1:][fits]
    suffix[fits] = content[ends[:, None] - width + np.arange(width)]
    bounds = np.ascontiguousarray(suffix).view(">i8").astype(np.int64)
    start = bounds[:, -1]
    end = bounds[:, 0] if session else start + (window.size_ms or 0)
    bad = {
        int(
            row
        ): f"a windowed key has at least {width} bytes, this one {starts[row + 1] - starts[row]}"
        for row in np.flatnonzero(present & ~fits)
    }
    return (
        _cut(keys, starts, content, fits, width),
        pa.array(start, mask=~fits),
        pa.array(end, mask=~fits),
        bad,
    )


def join_window(keys: Bytes, start: pa.Array, end: pa.Array, window: WindowedKey) -> Bytes:
    """The keys followed by their windows; NULL stays NULL."""
    bounds = [end, start] if window.kind is WindowKind.SESSION else [start]
    numbers = [bound.fill_null(0).to_numpy(zero_copy_only=False) for bound in bounds]
    matrix = np.stack(numbers, axis=1).astype(">i8").view(np.uint8).reshape(len(keys), -1)
    suffix = fixed_bytes(np.ascontiguousarray(matrix), np.ones(len(keys), np.bool_))
    return pc.binary_join_element_wise(keys, suffix, pa.scalar(b"", pa.binary()))


def _cut(
    keys: Bytes,
    starts: np.ndarray[tuple[int], np.dtype[np.int64]],
    content: np.ndarray[tuple[int], np.dtype[np.uint8]],
    fits: np.ndarray[tuple[int], np.dtype[np.bool_]],
    width: int,
) -> Bytes:
    lengths = np.where(fits, np.diff(starts) - width, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    place = np.repeat(starts[:-1] - offsets[:-1], lengths) + np.arange(offsets[-1])
    validity = pa.array(fits).buffers()[1]
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(keys), [validity, pa.py_buffer(offsets), pa.py_buffer(content[place])]
    )
