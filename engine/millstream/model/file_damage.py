"""Finds damages of DuckDB's files: from its errors, and before they abort the process.

DuckDB's checksum of a block does not depend on the order of its words. Where parts of a block with
the directory have changed places, DuckDB may find blocks that are used twice, in a destructor: the
process is aborted, and no handler can prevent it. So a child process tries to open the file first
if its directory differs from what it was after the last checkpoint, or if a process died while it
opened the file. Files beside the database record both.
"""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from millstream.model.errors import CorruptionError

OPENING = ".opening"
"""The suffix of the file that is there while a database is opened."""
SUMS = ".sums"
"""The suffix of the file with the checksums of a database's directory."""
HEADERS = (4096, 2 * 4096)
"""Where DuckDB's headers of a file are, and how long. One of them is written by each checkpoint."""
Places = tuple[tuple[int, int], ...]
"""Parts of a file: where, and how long."""
_MAGIC = b"mssums01"
_SUMS = struct.Struct("<8sIII")
_PLACE = struct.Struct("<qq")
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


def note_directory(
    path: str, read: Callable[[int, int], bytes], places: Iterable[tuple[int, int]]
) -> None:
    """Write down what the directory of the file at `path` is after a checkpoint. `read`: reads a
    part of that file; `places`: where the directory is."""
    found = tuple(places)
    content = b"".join(_PLACE.pack(*place) for place in found)
    sums = _SUMS.pack(_MAGIC, zlib.crc32(read(*HEADERS)), _sum(read, found), zlib.crc32(content))
    # Where it cannot be written, nothing is noticed, as without it.
    with suppress(OSError):
        Path(path + SUMS).write_bytes(sums + content)


def _sum(read: Callable[[int, int], bytes], places: Places) -> int:
    """Of the content of parts of a file, in their order."""
    checksum = 0
    for place in places:
        checksum = zlib.crc32(read(*place), checksum)
    return checksum


def is_changed(path: str) -> bool:
    """Whether the directory of a file is another one than after the last checkpoint, as far as is
    known. A checkpoint that was under way may have changed it, too. This process must not have the
    file open: reading it releases the locks that the process has on it."""
    with suppress(OSError, struct.error):
        noted = Path(path + SUMS).read_bytes()
        magic, *sums = _SUMS.unpack_from(noted)
        headers, directory, own = map(int, sums)
        content = noted[_SUMS.size :]
        if magic == _MAGIC and zlib.crc32(content) == own:
            places = tuple((at, length) for at, length in _PLACE.iter_unpack(content))
            with Path(path).open("rb") as file:

                def read(at: int, length: int) -> bytes:
                    file.seek(at)
                    return file.read(length)

                same = zlib.crc32(read(*HEADERS)) == headers
                return same and _sum(read, places) != directory
    return False


@contextmanager
def marked(path: str, *, suspect: bool = False) -> Iterator[None]:
    """Have the file at `path` opened, and that noted until it is. `suspect`: whether there is
    reason to have another process try first. Raises CorruptionError, before anything is opened, if
    that one dies."""
    mark = Path(path + OPENING)
    # One in memory has no file, nor has a new one.
    if not Path(path).exists():
        yield
        return
    if (suspect or mark.exists()) and _ends_its_process(path):
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
    """Whether a process that opens a file, without changing it, dies of that. Not tried in a frozen
    program, which would start itself."""
    if not sys.executable or getattr(sys, "frozen", False):
        return False
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-c", _OPEN, path], check=False, capture_output=True
        )
    except OSError:
        return False
    return ended.returncode in _OWN_FAULT
