"""Gives the space of what has left a state database back to the file system, before it is used."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

from millstream.model.duckdb_settings import SECURE

SPARE_BYTES = 128 << 20
"""What a file may have besides; a smaller one is left alone."""
MOST = 1.5
"""A file that has more than so many times the bytes in use is written again."""
UNFINISHED = ".small"
"""What the name of the new file has behind that of the old one until it is complete."""


def sparse(connection: duckdb.DuckDBPyConnection, database: str) -> bool:
    """Whether the file of an attached database has much more than is in use."""
    ((size, used),) = connection.execute(
        "SELECT block_size * total_blocks, block_size * used_blocks FROM pragma_database_size()"
        " WHERE database_name = ?",
        [database],
    ).fetchall()
    return bool(size > MOST * used + SPARE_BYTES)


def shrink(file: str) -> None:
    """Write a state database that nobody has open again, without what is free in it. Raises
    duckdb.Error or OSError where that is not possible; the old one stays then."""
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
        ((block,),) = connection.execute(
            "SELECT block_size FROM pragma_database_size() WHERE database_name = 'old'"
        ).fetchall()
        connection.execute(f"ATTACH '{new}' AS new (BLOCK_SIZE {block})")
        connection.execute("COPY FROM DATABASE old TO new")
        connection.execute("DETACH new")
        connection.execute("DETACH old")


def _remove(small: Path) -> None:
    for path in (small, Path(f"{small}.wal")):
        path.unlink(missing_ok=True)
