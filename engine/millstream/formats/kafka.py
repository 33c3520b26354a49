"""KAFKA: one column in Kafka's own serialization, big-endian numbers and UTF-8 text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.formats.payload import (
    Bytes,
    Layout,
    Read,
    byte_content,
    fixed_bytes,
    nothing_read,
    present_rows,
)
from millstream.model.types import BIGINT, BYTES, DOUBLE, INTEGER, STRING, SqlType

_NUMBERS: Mapping[SqlType, tuple[str, str]] = {
    INTEGER: (">i4", "=i4"),
    BIGINT: (">i8", "=i8"),
    DOUBLE: (">f8", "=f8"),
}


def read_kafka(payload: Bytes, layout: Layout) -> Read:
    """Read the single column; a payload of the wrong length or with invalid UTF-8 is bad."""
    if not layout.columns:
        return nothing_read(layout, len(payload))
    column = layout.columns[0]
    if column.type in _NUMBERS:
        read, bad = _read_numbers(payload, *_NUMBERS[column.type])
    elif column.type is STRING:
        read, bad = read_text(payload)
    else:
        read, bad = payload, {}
    return Read((read,) if layout.wanted else (), bad)


def write_kafka(columns: list[pa.Array], layout: Layout) -> Bytes:
    """Write the single column; NULL gives a NULL payload."""
    column, array = layout.columns[0], columns[0]
    if column.type in _NUMBERS:
        wire, native = _NUMBERS[column.type]
        filled = array.fill_null(0) if array.null_count else array
        numbers = filled.to_numpy(zero_copy_only=False).astype(native, copy=False).astype(wire)
        return fixed_bytes(numbers.view(np.uint8).reshape(len(array), -1), present_rows(array))
    return array.cast(pa.binary()) if column.type in (STRING, BYTES) else array


def read_text(payload: Bytes) -> tuple[pa.Array, dict[int, str]]:
    """Bytes as UTF-8 text, NULL and a message for those that are not."""
    try:
        return payload.cast(pa.string()), {}
    except pa.ArrowInvalid:
        rows = payload.to_pylist()
    bad = {}
    for row, value in enumerate(rows):
        try:
            rows[row] = None if value is None else value.decode()
        except UnicodeDecodeError as error:
            bad[row] = f"the bytes are not UTF-8 text ({error.reason} at byte {error.start})"
            rows[row] = None
    return pa.array(rows, pa.string()), bad


def _read_numbers(payload: Bytes, wire: str, native: str) -> tuple[pa.Array, dict[int, str]]:
    width = np.dtype(wire).itemsize
    present = present_rows(payload)
    starts, content = byte_content(payload)
    fits = present & (np.diff(starts) == width)
    chosen = starts[:-1][fits]
    found: npt.NDArray[np.generic] = np.zeros(len(payload), native)
    if len(chosen) == len(payload) and (
        len(chosen) == 0 or starts[-1] - starts[0] == width * len(chosen)
    ):
        packed = content[starts[0] : starts[-1]]
    else:
        packed = content[chosen[:, None] + np.arange(width)].reshape(-1)
    found[fits] = packed.view(wire).astype(native)
    bad = {
        int(row): f"expected {width} bytes, got {starts[row + 1] - starts[row]}"
        for row in np.flatnonzero(present & ~fits)
    }
    return pa.array(found, mask=None if fits.all() else ~fits), bad
