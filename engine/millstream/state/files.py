"""The file that holds the state of an embedded log."""

from __future__ import annotations

from pathlib import Path

from millstream.model.file_damage import OPENING, SUMS

SUFFIX = ".state"
"""What its name has behind that of the log."""
QUARANTINE = ".quarantine"
"""What its name has behind that when it is not used any more."""


def put_aside(file: str) -> None:
    """Rename a state's file, which cannot be used; an empty one takes its place when the log is
    opened, and is filled from the changelogs."""
    for suffix in ("", ".wal"):
        old = Path(file + suffix)
        if old.exists():
            old.replace(f"{file}{QUARANTINE}{suffix}")
    for noted in (OPENING, SUMS):
        Path(file + noted).unlink(missing_ok=True)
