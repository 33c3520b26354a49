"""NONE: a side of the record without columns; its bytes are never read."""

from __future__ import annotations

import pyarrow as pa

from millstream.formats.payload import Bytes, Layout, Read, nothing_read


def read_none(payload: Bytes, layout: Layout) -> Read:
    """No columns, whatever the bytes are."""
    return nothing_read(layout, len(payload))


def write_none(rows: int) -> Bytes:
    """NULL for every row."""
    return pa.nulls(rows, pa.binary())
