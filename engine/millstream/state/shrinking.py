"""Gives the space of what has left a state database back to the file system, before it is used."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

from millstream.model import file_space
from millstream.model.duckdb_settings import SECURE
from millstream.model.file_space import FileSpace, file_space_query

UNFINISHED = ".small"
"""What the name of the new file has behind that of the old one until it is complete."""


def sparse(connection: duckdb.DuckDBPyConnection, database: str) -> bool:
    """Whether the file of an attached database has much more than is in use."""
    return _space(connection, database).exceeds(file_space.MOST)


def _space(connection: duckdb.DuckDBPyConnection, database: str) -> FileSpace:
    (row,) = connection.execute(file_space_query("?"), [database]).fetchall()
    return FileSpace(*row)


def shrink(file: str) -> None:
    """Replace a state database by a copy without its free blocks; nobody may have it open. Raises
    duckdb.Error or OSError where that is not possible, and the file stays as it was."""
    small = Path(file + UNFINISHED)
    _remove(small)
    try:
        _copy(file, str(small))
        with small.open("rb") as made:
            os.fsync(made.fileno())
        # A write-ahead log that is left belongs to the old file: the new one would replay it.
        if not Path(file + ".wal").exists():
            small.replace(file)
    finally:
        _remove(small)


def _copy(file: str, small: str) -> None:
    old, new = (path.replace("'", "''") for path in (file, small))
    with duckdb.connect(":memory:", config=dict(SECURE)) as connection:
        connection.execute(f"ATTACH '{old}' AS old")
        block_bytes = _space(connection, "old").block_bytes
        connection.execute(f"ATTACH '{new}' AS new (BLOCK_SIZE {block_bytes})")
        connection.execute("COPY FROM DATABASE old TO new")
        connection.execute("DETACH new")
        connection.execute("DETACH old")


def _remove(small: Path) -> None:
    for path in (small, Path(f"{small}.wal")):
        path.unlink(missing_ok=True)
