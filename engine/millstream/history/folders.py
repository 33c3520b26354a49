"""Folders for what is of use to one process, and gone with it: what a process that was killed has
left is removed when the next one makes a folder of the kind.

A lock that the executor takes from whoever ends tells the living from the dead. The lock is held
before it goes by its name, so nobody finds one that is free while its owner is about to take it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_OWNER = "owner"


class OwnFolder:
    """An empty folder among the temporary ones, until it is removed or this process ends."""

    def __init__(self, kind: str, beneath: Path | None = None) -> None:
        """`kind`: a word that its name begins with, behind ours; `beneath`: a folder to make it
        in, instead of the one for temporary files."""
        prefix = f"millstream-{kind}-"
        parent = beneath or Path(tempfile.gettempdir())
        _sweep(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        unlocked = self.path / f".{_OWNER}"
        self._lock = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self.path / _OWNER)

    def remove(self) -> None:
        """Remove it with all that is in it; to be called once."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(parent: Path, prefix: str) -> None:
    for owner in parent.glob(f"{prefix}*/{_OWNER}"):
        if not _living(owner):
            shutil.rmtree(owner.parent, ignore_errors=True)


def _living(owner: Path) -> bool:
    """Whether the process is there that a folder belongs to, or a folder is not ours to judge."""
    try:
        if owner.parent.is_symlink() or owner.parent.stat().st_uid != os.geteuid():
            return True
        lock = os.open(owner, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
