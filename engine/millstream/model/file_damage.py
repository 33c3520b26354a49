"""Notices that a file of DuckDB is damaged: by what it says, and by what it does to a process.

DuckDB's checksum of a block does not tell in which order its words are. Where parts of a block with
the directory have changed places, DuckDB may find blocks that are used twice, in a destructor: the
process is aborted, and nothing can catch that. So a file beside the database says that it is being
opened. Where it is there already, the process that wrote it has died, of whatever cause: another
process tries to open the database first.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from millstream.model.errors import CorruptionError

SUFFIX = ".opening"
_SIGNS = ("read enough bytes", "may be corrupt", "no more data remaining", "valid duckdb")
"""What DuckDB says of a file's content in an error of the class that tells of disks, too."""
_OPEN = "import sys, duckdb; duckdb.connect(sys.argv[1], read_only=True).close()"
_OWN_FAULT = {
    -number
    for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
}


def tells_of_damage(error: BaseException) -> bool:
    """Whether DuckDB's error is about the content of a file, though its class does not say so."""
    text = str(error).casefold()
    return any(sign in text for sign in _SIGNS)


@contextmanager
def marked(path: str) -> Iterator[None]:
    """Have the file at `path` opened, and that noted until it is. Raises CorruptionError, before
    anything is opened, if a process that opens it dies."""
    mark = Path(path + SUFFIX)
    # One in memory has no file, nor has a new one.
    if not Path(path).exists():
        yield
        return
    if mark.exists() and _ends_its_process(path):
        raise CorruptionError(
            f"The file '{path}' cannot be opened.",
            detail="DuckDB ends the process that opens it, because of damages in it",
            hint="Restore the file from a copy, together with its .wal file.",
        )
    # Where it cannot be written, nothing is noticed, as without it.
    with suppress(OSError):
        mark.touch()
    try:
        yield
    finally:
        with suppress(OSError):
            mark.unlink(missing_ok=True)


def _ends_its_process(path: str) -> bool:
    """Whether a process that opens a file, without changing it, dies of that."""
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-c", _OPEN, path], check=False, capture_output=True
        )
    except OSError:
        return False
    return ended.returncode in _OWN_FAULT
