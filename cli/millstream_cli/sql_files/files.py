"""The files of SQL that a command is given."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from millstream.scripts.text import read_script

STDIN = "-"


def files_of(given: Sequence[str]) -> Iterator[str]:
    """The names of files: those of folders are their *.sql; standard input if none is given."""
    for name in given or (STDIN,):
        if Path(name).is_dir():
            yield from (str(path) for path in sorted(Path(name).rglob("*.sql")))
        else:
            yield name


def text_of(name: str) -> str:
    """The text of a file. Raises StatementError if it cannot be read."""
    return sys.stdin.read() if name == STDIN else read_script(name)
