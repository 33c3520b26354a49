"""The bytes before a payload that say which schema of a registry it has."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.formats.payload import Bytes, byte_content, present_rows

PREFIX = 5
"""The bytes before a payload: a zero, and the id of its schema, big-endian."""


def subject_of(topic: str, side: str) -> str:
    """The subject of the keys or values of a topic; `side` is "key" or "value"."""
    return f"{topic}-{side}"


def schema_ids(payload: Bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The id of the schema of each payload, and where there is one: a NULL has none, nor have bytes
    that do not begin as they should."""
    starts, content = byte_content(payload)
    framed = present_rows(payload) & (np.diff(starts) >= PREFIX)
    at = np.where(framed, starts[:-1], 0)
    ids = np.zeros(len(payload), np.int64)
    if not framed.any():
        return ids, framed
    framed &= content[at] == 0
    for byte in range(1, PREFIX):
        ids = ids << 8 | content[at + byte]
    return ids, framed


def by_schema(payload: Bytes) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """The ids of the schemas of payloads, each with its rows."""
    ids, framed = schema_ids(payload)
    for schema_id in np.unique(ids[framed]).tolist():
        yield schema_id, np.flatnonzero(framed & (ids == schema_id))


def unframed(payload: Bytes) -> Bytes:
    """The payloads without their prefixes; those that have none are NULL."""
    _, framed = schema_ids(payload)
    starts, content = byte_content(payload)
    kept = np.ones(len(content), np.bool_)
    begins = starts[:-1]
    for byte in range(PREFIX):
        kept[begins[framed] + byte] = False
    # What is no payload of the format is left out as a whole.
    for row in np.flatnonzero(~framed).tolist():
        kept[starts[row] : starts[row + 1]] = False
    kept[: starts[0]] = False
    kept[starts[-1] :] = False
    lengths = np.where(framed, np.diff(starts) - PREFIX, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = pa.py_buffer(np.packbits(framed, bitorder="little"))
    buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content[kept]))]
    return pa.BinaryArray.from_buffers(pa.binary(), len(payload), buffers)


def prefix_of(schema_id: int) -> bytes:
    """The bytes before a payload with a schema."""
    return struct.pack(">bI", 0, schema_id)
