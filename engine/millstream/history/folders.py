"""Folders that live as long as one process. The next process that creates a folder of the kind
removes those of killed processes.

A file lock, which the operating system releases when a process ends, distinguishes running from
ended processes. The lock file gets its final name only after it is locked, so no other process
finds it unlocked while its owner is about to lock it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_OWNER = "owner"


class OwnFolder:
    """An empty temporary folder, which exists until it is removed or this process ends."""

    def __init__(self, kind: str, beneath: Path | None = None) -> None:
        """`kind`: a word after the prefix of its name; `beneath`: the parent folder, instead of the
        one for temporary files."""
        prefix = f"millstream-{kind}-"
        parent = beneath or Path(tempfile.gettempdir())
        _sweep(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        unlocked = self.path / f".{_OWNER}"
        self._lock = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self.path / _OWNER)

    def remove(self) -> None:
        """Remove it with its contents; call this once."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(parent: Path, prefix: str) -> None:
    for owner in parent.glob(f"{prefix}*/{_OWNER}"):
        if not _living(owner):
            shutil.rmtree(owner.parent, ignore_errors=True)


def _living(owner: Path) -> bool:
    """Whether the process that a folder belongs to is running, or the folder is not one of ours."""
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
