"""Opens a log that was being written when power was lost.

A checkpoint may have been under way (`block_copies`), or the last transaction. DuckDB leaves out an
unfinished end of its write-ahead log, but refuses one of which a later part has reached the disk
and an earlier one has not. Nothing of it was committed, as long as the log holds what `commit_mark`
expects without it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb

from millstream.log import tables
from millstream.log.block_copies import forget, put_back, there_are_copies
from millstream.log.commit_mark import noted
from millstream.log.duckfile import close_unchanged
from millstream.log.stored import records_given
from millstream.model.errors import CorruptionError

_CORRUPT = re.compile(r"Corrupt WAL file: entry at byte position (\d+)")


def open_mended(
    path: str, connect: Callable[[], duckdb.DuckDBPyConnection]
) -> duckdb.DuckDBPyConnection:
    """What `connect` returns, after the file at `path` is mended where that is needed. Raises what
    `connect` raises."""
    try:
        connection = _after_checkpoint(path, connect)
    except CorruptionError as error:
        cause = error.__cause__
        if not isinstance(cause, duckdb.Error) or not _without_torn_end(path, cause):
            raise
        connection = _after_checkpoint(path, connect)
    forget(path)
    return connection


def _after_checkpoint(
    path: str, connect: Callable[[], duckdb.DuckDBPyConnection]
) -> duckdb.DuckDBPyConnection:
    """What `connect` returns, after a checkpoint that was torn is taken back."""
    if there_are_copies(path):
        # A process that has the file open may be taking that checkpoint; then this raises.
        with suppress(CorruptionError):
            close_unchanged(connect())
        put_back(path)
    return connect()


def _without_torn_end(path: str, error: duckdb.Error) -> bool:
    """Cut off the end of the write-ahead log at `path` that `error` is about, if that loses nothing
    that was committed; returns whether it did."""
    found = _CORRUPT.search(str(error))
    wal, kept = Path(f"{path}.wal"), Path(f"{path}.wal.torn")
    if found is None or f"{path}.wal" not in str(error):
        return False
    with suppress(OSError):
        shutil.copyfile(wal, kept)
        os.truncate(wal, int(found[1]))
        if _held(path) >= noted(path):
            kept.unlink()
            return True
        kept.replace(wal)
    return False


def _held(path: str) -> int:
    """How many records a log holds; -1 if it cannot be read. The file is not changed."""
    try:
        with duckdb.connect(path, read_only=True, config={"threads": 1}) as connection:
            return records_given(tables.load_topics(connection).values())
    except Exception:
        # Whatever is wrong with it, it is not mended by a shorter write-ahead log.
        return -1
