"""The DuckDB instance under an embedded log: transactions, in-doubt commits, checkpoints."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import duckdb

from millstream.log.block_copies import BlockCopies, Directory
from millstream.log.bound_rows import BoundRows
from millstream.log.duckfile import MEMORY, close_unchanged, is_fatal, is_full, writing_error
from millstream.model.duckdb_settings import LOCK
from millstream.model.errors import UnavailableError
from millstream.model.file_damage import is_changed, marked
from millstream.model.retry import retry_until

SPARE_BYTES = 64 << 20
STATE_BLOCK_BYTES = 64 << 10
"""The block size of a new attached database. An index takes at least a block of memory, however few
rows its table has: with DuckDB's 256 KB, the two indexes of a state table took 500 KB. 16 KB cost
a tenth of the CPU of a large state (W5), and in the log itself a tenth of an append (W1)."""


class InDoubtError(UnavailableError):
    """A commit failed with an unknown outcome."""


def in_doubt(path: str, error: Exception | None = None) -> InDoubtError:
    """The error of a commit, and of every write after it, until the outcome is known."""
    return InDoubtError(
        f"The outcome of the last commit to the log '{path}' is unknown.",
        detail=str(error or ""),
        hint="Open a new writer to settle it; if that fails, close the log and open it again.",
        code="E-LOG-UNKNOWN",
    )


Writing = tuple[duckdb.DuckDBPyConnection, BoundRows]
"""The connection of a transaction, and names for the rows that it inserts."""
Change = Callable[[], AbstractContextManager[Writing]]
"""Begins a transaction of the file."""


class LogFile:
    """One open file. Not thread-safe but for `cursor`: the log's lock guards it."""

    def __init__(
        self, path: str, connection: duckdb.DuckDBPyConnection, *, new: bool = False
    ) -> None:
        self.path = path
        self.new = new
        """Whether there was no such file before."""
        self.connection = connection
        self._databases = {"": path}
        """Paths by name; the first one has no name."""
        self._copies = BlockCopies(path)
        self._directories: dict[str, Directory] = {}
        """Those of attached databases, by name."""
        self._writing: Writing | None = None
        """Kept between transactions: opening a connection costs as much as inserting a record."""
        self.doubt = False
        """Whether the last commit's outcome is unknown; nothing is written until it is resolved."""

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for one use."""
        cursor = self.connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()

    @contextmanager
    def change(self) -> Iterator[Writing]:
        """A transaction, and names for rows that it inserts; raises UnavailableError when nothing
        was written, and InDoubtError when that is unknown."""
        if self.doubt:
            raise in_doubt(self.path)
        cursor, rows = self._writing or self._write_cursor()
        # Unless it succeeds, the next one has another connection.
        self._writing = None
        try:
            cursor.begin()
            yield cursor, rows
        except BaseException as error:
            with suppress(duckdb.Error):
                cursor.rollback()
            cursor.close()
            if isinstance(error, duckdb.Error):
                raise writing_error(self.path, error) from error
            raise
        try:
            self._commit(cursor)
        except UnavailableError:
            cursor.close()
            raise
        self._writing = cursor, rows

    def _write_cursor(self) -> Writing:
        cursor = self.connection.cursor()
        return cursor, BoundRows(cursor)

    def _commit(self, cursor: duckdb.DuckDBPyConnection) -> None:
        try:
            cursor.commit()
        except duckdb.Error as error:
            # DuckDB handles a full disk: it truncates the write-ahead log and rolls the transaction
            # back. After any other failure the file may contain bytes that a restart replays.
            if is_full(error) and not is_fatal(error):
                raise writing_error(self.path, error) from error
            self.doubt = True
            raise in_doubt(self.path, error) from error

    def settle(self) -> None:
        """Make the file equal to the instance's contents, so that no restart replays an in-doubt
        transaction. Raises InDoubtError when the file cannot be written."""
        try:
            with self.cursor() as cursor, self._copies.kept(cursor):
                cursor.execute("FORCE CHECKPOINT")
        except (duckdb.Error, OSError) as error:
            raise in_doubt(self.path, error) from error
        self.doubt = False

    def attach(self, path: str, name: str) -> None:
        """Attach a second database, whose checkpoints are then taken with ours. Raises what
        `marked` raises."""
        literal = path.replace("'", "''")
        new = path != MEMORY and not Path(path).exists()
        size = f" (BLOCK_SIZE {STATE_BLOCK_BYTES})" if new else ""
        with marked(path, suspect=is_changed(path)):
            self.connection.execute(f"ATTACH '{literal}' AS {name}{size}")
        self._databases[name] = path
        self._directories[name] = Directory(path, name)

    def lock(self) -> None:
        """Close the instance to other files and to changes of its settings."""
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute(LOCK)

    def detach(self, name: str) -> None:
        """Take back `attach`."""
        self._databases.pop(name, None)
        self.connection.execute(f"DETACH {name}")
        if directory := self._directories.pop(name, None):
            directory.close()

    def wal_bytes(self) -> int:
        """The size of the largest write-ahead log."""
        return max(map(_wal_bytes, self._databases.values()))

    def checkpoint(self, at_least: int = 0, *, attached: bool = True) -> bool:
        """Move write-ahead logs of `at_least` this many bytes into their files, where possible now;
        returns whether all were moved. `attached`: those of attached databases, too."""
        if self.doubt:
            return False
        done = True
        for name, path in self._databases.items():
            if name and not attached:
                continue
            if path != MEMORY and _wal_bytes(path) >= at_least:
                done = _room(path) and self._checkpoint(name) and done
        return done

    def _checkpoint(self, name: str) -> bool:
        with suppress(duckdb.Error, OSError), self.cursor() as cursor:
            # The state can be made again.
            copied = nullcontext() if name else self._copies.kept(cursor)
            with copied:
                cursor.execute(f"CHECKPOINT {name}")
            if name:
                self._directories[name].note(cursor)
            return True
        return False

    def close_unchanged(self) -> None:
        """Release a file that is not used; see `duckfile.close_unchanged`."""
        close_unchanged(self.connection)
        self._release()

    def close(self) -> None:
        """Release the file, after the last statement that reads it has ended."""
        self.checkpoint()
        if self._writing:
            self._writing[0].close()
            self._writing = None
        retry_until(self.connection.close, duckdb.ResourceInUseException)
        self._release()

    def _release(self) -> None:
        """Only after DuckDB has closed the files."""
        self._copies.close()
        for directory in self._directories.values():
            directory.close()


def _wal_bytes(path: str) -> int:
    try:
        return 0 if path == MEMORY else os.stat(path + ".wal").st_size  # noqa: PTH116 often called
    except FileNotFoundError:
        return 0


def _room(path: str) -> bool:
    """A checkpoint that runs out of space makes the instance unusable; it writes at most twice the
    size of the log (an unfinished row group is written again)."""
    if path == MEMORY:
        return True
    free = shutil.disk_usage(Path(path).absolute().parent).free
    return free >= 2 * _wal_bytes(path) + SPARE_BYTES
