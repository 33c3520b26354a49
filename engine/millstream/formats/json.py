"""JSON read as columns."""

from __future__ import annotations

import duckdb

from millstream.formats.json_rows import read_json_rows
from millstream.formats.payload import Bytes, Layout, Read


def read_json(con: duckdb.DuckDBPyConnection, payload: Bytes, layout: Layout) -> Read:
    """Read the wanted columns of a batch."""
    return read_json_rows(payload.to_pylist(), layout)
