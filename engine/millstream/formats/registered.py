"""The bytes before a payload that say which schema of a registry it has."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.formats.payload import Bytes, byte_content, present_rows

PREFIX = 5
"""The bytes before a payload: a zero, and the id of its schema, big-endian."""
NO_PREFIX = "it does not begin with a zero and the id of a schema"


def subject_of(topic: str, side: str) -> str:
    """The subject of the keys or values of a topic; `side` is "key" or "value"."""
    return f"{topic}-{side}"


@dataclass(frozen=True, slots=True)
class Framed:
    """Payloads and what their first bytes say. `ids`: of their schemas, where `present`; a NULL has
    none, nor have bytes that do not begin as they should."""

    payload: Bytes
    ids: npt.NDArray[np.int64]
    present: npt.NDArray[np.bool_]

    def by_schema(self) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """The ids of the schemas, each with its rows."""
        for schema_id in np.unique(self.ids[self.present]).tolist():
            yield schema_id, np.flatnonzero(self.present & (self.ids == schema_id))

    @property
    def bad(self) -> dict[int, str]:
        """The rows that have bytes, but none that say their schema."""
        rows = np.flatnonzero(present_rows(self.payload) & ~self.present)
        return dict.fromkeys(rows.tolist(), NO_PREFIX)

    def contents(self) -> Bytes:
        """The payloads without their prefixes; those that have none are NULL."""
        starts, content = byte_content(self.payload)
        kept = np.ones(len(content), np.bool_)
        for byte in range(PREFIX):
            kept[starts[:-1][self.present] + byte] = False
        # What is no payload of the format is left out as a whole.
        for row in np.flatnonzero(~self.present).tolist():
            kept[starts[row] : starts[row + 1]] = False
        kept[: starts[0]] = False
        kept[starts[-1] :] = False
        lengths = np.where(self.present, np.diff(starts) - PREFIX, 0)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        mask = pa.py_buffer(np.packbits(self.present, bitorder="little"))
        buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content[kept]))]
        return pa.BinaryArray.from_buffers(pa.binary(), len(self.payload), buffers)


def framed(payload: Bytes) -> Framed:
    """Read the prefixes of payloads."""
    starts, content = byte_content(payload)
    present = present_rows(payload) & (np.diff(starts) >= PREFIX)
    ids = np.zeros(len(payload), np.int64)
    if present.any():
        at = np.where(present, starts[:-1], 0)
        present &= content[at] == 0
        for byte in range(1, PREFIX):
            ids = ids << 8 | content[at + byte]
    return Framed(payload, ids, present)


def prefix_of(schema_id: int) -> bytes:
    """The bytes before a payload with a schema."""
    return struct.pack(">bI", 0, schema_id)
