"""Opens a DuckDB file for a log and translates DuckDB's errors."""

from __future__ import annotations

import glob
import os
import time
import uuid
from contextlib import suppress
from pathlib import Path

import duckdb

from millstream.model.duckdb_settings import SECURE
from millstream.model.errors import (
    ConflictError,
    CorruptionError,
    MillstreamError,
    StatementError,
    UnavailableError,
)
from millstream.model.file_damage import marked, tells_of_damage

# We take checkpoints ourselves: one that fails for lack of space invalidates the instance, and one
# at an arbitrary commit pauses it at an arbitrary moment.
_OWN_CHECKPOINTS = {"wal_autocheckpoint": "1TB"}
_FULL = ("no space left", "file too large", "disk quota", "not enough space")
_CREATION_S = 60
"""Longer than creating a file takes."""
_MARKER = "millstream_log_is_open"
MEMORY = ":memory:"
STATE = "millstream_state"
"""The name of the database that holds the state, attached to the log's."""
_TAKEN = {"log", _MARKER, STATE}
"""DuckDB calls a database after its file: these names would be those of the log's schema and of
databases that we attach."""


def open_file(
    path: str, threads: int, memory_limit: str | None, temp_directory: str | None
) -> duckdb.DuckDBPyConnection:
    """Open the file with the settings of a server that runs untrusted expressions.

    Raises UnavailableError when another process has it, ConflictError when this one has,
    CorruptionError if it cannot be read, and StatementError (E-CONFIG) for a file of a name that
    cannot be.
    """
    _check_name(path)
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": threads,
        **SECURE,
        **_OWN_CHECKPOINTS,
    }
    if memory_limit is not None:
        config["memory_limit"] = memory_limit
    if temp_directory is not None:
        config["temp_directory"] = temp_directory
    _create(path)
    try:
        with marked(path):
            connection = duckdb.connect(path, config=config)
    except duckdb.Error as error:
        raise opening_error(path, error) from error
    try:
        # DuckDB returns the same instance to two openers of one process. Our offsets are kept in
        # memory, so the second opener must be refused. The marker belongs to the instance and
        # disappears with it.
        connection.execute(f"ATTACH ':memory:' AS {_MARKER}")
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
    except duckdb.Error as error:
        connection.close()
        raise _open_here(path) from error
    return connection


def _create(path: str) -> None:
    """Make a file that does not exist, complete before it has its name: a loss of power while it is
    made would leave a file that does not open. What fails here fails again when it is opened."""
    file = Path(path)
    if path == MEMORY:
        return
    _remove_unfinished(file)
    if file.exists():
        return
    unfinished = Path(f"{path}.{uuid.uuid4().hex}.new")
    with suppress(duckdb.Error, OSError):
        try:
            duckdb.connect(str(unfinished)).close()
            with unfinished.open("rb") as made:
                os.fsync(made.fileno())
            # Unlike a renaming, this takes the place of no file that another process has made.
            file.hardlink_to(unfinished)
        finally:
            unfinished.unlink(missing_ok=True)


def _remove_unfinished(file: Path) -> None:
    """Remove the unfinished files of processes that died while they created a database."""
    with suppress(OSError):
        for left in file.parent.glob(f"{glob.escape(file.name)}.{'[0-9a-f]' * 32}.new"):
            if time.time() - left.stat().st_mtime > _CREATION_S:
                left.unlink(missing_ok=True)


def close_unchanged(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a file that is not used, without the checkpoint that DuckDB takes otherwise: its
    write-ahead log stays as it was found."""
    with suppress(duckdb.Error):
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
    connection.close()


def _check_name(path: str) -> None:
    name = next(filter(None, Path(path).name.split(".")), "")
    if name.casefold() in _TAKEN:
        raise StatementError(
            f"The log '{path}' cannot be called '{name}', which is the name of a part of it.",
            hint=f"Call it otherwise, such as {name}1.db.",
            code="E-CONFIG",
        )


def _open_here(path: str) -> ConflictError:
    return ConflictError(
        f"The log '{path}' is open in this process already.",
        hint="Use the database that has it open, or close that one first.",
        code="E-LOG-OPEN",
    )


def opening_error(path: str, error: duckdb.Error) -> MillstreamError:
    """Translate a failure to open."""
    text = str(error)
    if "different configuration" in text:
        return _open_here(path)
    if "lock" in text and isinstance(error, duckdb.IOException):
        return UnavailableError(
            f"The log '{path}' is open in another process.",
            detail=text.split(". See also")[0],
            hint="One process at a time can open a log file. Stop that process, or connect to "
            "it over HTTP (start it as a server) instead of opening the file.",
            code="E-LOG-LOCKED",
        )
    if isinstance(error, duckdb.InvalidInputException | duckdb.ParserException):
        return StatementError(
            f"Cannot open the log '{path}' with these settings.",
            detail=text,
            hint="threads is a number from 1 on, memory_limit a size such as '2GB'.",
            code="E-CONFIG",
        )
    if isinstance(error, duckdb.IOException) and not tells_of_damage(error):
        return UnavailableError(
            f"Cannot open the log '{path}'.",
            detail=text,
            hint="Check that the folder exists and that its owner may write to it.",
            code="E-DISK-IO",
        )
    return CorruptionError(
        f"The file '{path}' cannot be read as a log.",
        detail=text,
        hint="Restore the file from a copy, together with its .wal file.",
    )


def is_full(error: BaseException) -> bool:
    """Whether the disk, a quota or a file size limit stopped a write."""
    text = str(error).casefold()
    return any(sign in text for sign in _FULL)


def is_fatal(error: BaseException) -> bool:
    """Whether the whole DuckDB instance is unusable from now on."""
    text = str(error).casefold()
    return isinstance(error, duckdb.FatalException) or "invalidated" in text


def is_shared(error: BaseException) -> bool:
    """Whether a write failed because of the file, so that no other write can succeed now."""
    return isinstance(error, UnavailableError) and error.code in {"E-LOG-FULL", "E-LOG-BROKEN"}


def writing_error(path: str, error: duckdb.Error) -> UnavailableError:
    """Translate a write that certainly did not happen."""
    if is_fatal(error):
        return _broken(path, error)
    if is_full(error):
        return UnavailableError(
            f"Cannot append to the log '{path}': no space is left. Nothing was written; "
            "reads go on.",
            detail=str(error),
            hint="Free some space; writing goes on by itself then.",
            code="E-LOG-FULL",
        )
    return UnavailableError(
        f"Cannot write to the log '{path}'. Nothing was written.",
        detail=str(error),
        code="E-DISK-IO",
    )


def reading_error(path: str, topic: str, error: duckdb.Error) -> UnavailableError:
    """Translate a read that failed."""
    if is_fatal(error):
        return _broken(path, error)
    return UnavailableError(
        f"Cannot read topic '{topic}' of the log '{path}'.", detail=str(error), code="E-DISK-IO"
    )


def _broken(path: str, error: duckdb.Error) -> UnavailableError:
    return UnavailableError(
        f"The log '{path}' has to be opened again: an earlier write to its file failed.",
        detail=str(error),
        hint="Close it and open it again; what was committed is there.",
        code="E-LOG-BROKEN",
    )
