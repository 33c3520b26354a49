"""Serialises Arrow tables for repartition topics and changelogs, one batch per record."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.model.errors import CorruptionError

RECORD_BYTES = 800_000
"""The largest size of a record, unless a single row is larger: brokers refuse more than a MiB."""
# At that size, handing the columns to Arrow's threads takes longer than the work on them.
_READING = pa.ipc.IpcReadOptions(use_threads=False)
_WRITING = pa.ipc.IpcWriteOptions(use_threads=False)
_COMPRESSING = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def pieces(
    rows: pa.Table, changes: np.ndarray[Any, np.dtype[np.int64]] | None = None
) -> Iterator[pa.Table]:
    """The rows split into one table for each record. `changes`: a number for each row, ascending;
    rows of the same number stay together."""
    size = math.ceil(rows.num_rows / (1 + rows.nbytes // RECORD_BYTES))
    start = 0
    while start < rows.num_rows:
        end = min(start + size, rows.num_rows)
        if changes is not None:
            end = int(np.searchsorted(changes, changes[end - 1], side="right"))
        yield rows.slice(start, end - start)
        start = end


def pack(table: pa.Table, *, compressed: bool = True) -> bytes:
    """The table as one Arrow IPC stream, its buffers compressed with LZ4 unless it stays in this
    process."""
    sink = pa.BufferOutputStream()
    options = _COMPRESSING if compressed else _WRITING
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def unpack(content: bytes) -> pa.Table:
    """The table that `pack` wrote. Raises CorruptionError for any other bytes."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(content), options=_READING) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(
            f"Cannot read {len(content)} bytes of an internal topic as an Arrow batch: {error}"
        ) from error
