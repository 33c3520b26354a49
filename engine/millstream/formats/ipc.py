"""Arrow tables as bytes: what repartition topics and changelogs carry, one batch per record."""

from __future__ import annotations

import pyarrow as pa

from millstream.model.errors import CorruptionError


def pack(table: pa.Table, *, compressed: bool = True) -> bytes:
    """The table as one Arrow IPC stream, its buffers compressed with LZ4 unless it stays here."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4" if compressed else None)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def unpack(content: bytes) -> pa.Table:
    """The table that `pack` wrote. CorruptionError when the bytes are anything else."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(
            f"Cannot read {len(content)} bytes of an internal topic as an Arrow batch: {error}"
        ) from error
