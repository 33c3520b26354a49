"""Notices that a log has lost the end of what was committed.

DuckDB takes an entry of its write-ahead log that is damaged for one that was being written when
power was lost, and leaves out all that follows. So a file beside the log says how many records were
committed. It is written after the commit is durable, and not waited for: after a loss of power it
may be behind, but not ahead. When records are about to leave, it is made durable before they do. A
log that holds fewer records has lost some.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path

from millstream.log.duckfile import MEMORY
from millstream.model.errors import CorruptionError

SUFFIX = ".mark"
_LAYOUT = struct.Struct("<8sqI")
_MAGIC = b"msmark01"


class CommitMark:
    """How many records a log of one process holds, counted over all topics that it has."""

    def __init__(self, path: str, held: int, *, new: bool) -> None:
        """`held`: what was found in the log, which is a `new` one or not. Raises CorruptionError
        (E-LOG-CUT) if more had been committed."""
        self._held = held
        self._descriptor = -1
        if path == MEMORY:
            return
        expected = noted(path)
        if expected > held and not new:
            raise CorruptionError(
                f"The log '{path}' has lost records: it holds {held}, {expected} were committed."
                " Its write-ahead log is damaged, or the file is not the newest one.",
                hint=f"Restore a backup. To go on with what is there, delete '{path}{SUFFIX}'.",
                code="E-LOG-CUT",
            )
        # Where it cannot be written, losses go unnoticed, as without it.
        with suppress(OSError):
            self._descriptor = os.open(path + SUFFIX, os.O_RDWR | os.O_CREAT, 0o600)
        self._note()

    def add(self, records: int) -> None:
        """Note that so many records were committed; a negative number of those that are about to
        leave with their topic."""
        self.set(self._held + records)

    def set(self, held: int) -> None:
        """Note how many records the log holds."""
        fewer, self._held = held < self._held, held
        self._note()
        if fewer and self._descriptor >= 0:
            with suppress(OSError):
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _note(self) -> None:
        if self._descriptor >= 0:
            checksum = zlib.crc32(self._held.to_bytes(8, "little", signed=True))
            with suppress(OSError):
                os.pwrite(self._descriptor, _LAYOUT.pack(_MAGIC, self._held, checksum), 0)


def noted(path: str) -> int:
    """How many records were committed to the log at `path`, as far as is known: 0 if nothing is."""
    try:
        magic, held, checksum = _LAYOUT.unpack(Path(path + SUFFIX).read_bytes()[: _LAYOUT.size])
    except (OSError, struct.error):
        return 0
    whole = magic == _MAGIC and checksum == zlib.crc32(held.to_bytes(8, "little", signed=True))
    return int(held) if whole else 0
