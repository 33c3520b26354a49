"""The output: the screen, a copy in a file while the session is spooled, a pager."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.text import Text

from millstream.model.errors import StatementError
from millstream_cli.sessions.interrupts import noted

PAGER = "less -RFX"


@dataclass(slots=True)
class Output:
    """A terminal or a pipe, and the copy of what it shows."""

    screen: Console
    copy: TextIO | None = None

    @property
    def width(self) -> int:
        """Cells in a line."""
        return self.screen.width

    def line(self, text: str, style: str = "") -> None:
        """Print a text verbatim."""
        self.lines([text], style)

    def lines(self, lines: Sequence[str], style: str = "") -> None:
        """Print texts below each other, verbatim."""
        if lines:
            self.screen.print(
                Text("\n".join(lines), style=style), soft_wrap=True, highlight=False, end="\n"
            )
            self.keep(lines)

    def keep(self, lines: Sequence[str]) -> None:
        """Write to the copy alone."""
        if self.copy is not None:
            self.copy.write("".join(f"{line}\n" for line in lines))
            self.copy.flush()

    def pages(self, lines: Sequence[str]) -> None:
        """Print text that may be longer than the screen, through `$PAGER` on a terminal."""
        command = os.environ.get("PAGER", PAGER)
        if not (self.screen.is_terminal and command and len(lines) >= self.screen.height):
            self.lines(lines)
            return
        try:
            # Ctrl-C is the pager's: a pager that is killed leaves the terminal without echo.
            with noted():
                subprocess.run(
                    shlex.split(command), input="\n".join(lines) + "\n", text=True, check=False
                )
            self.keep(lines)
        except (OSError, ValueError):
            self.lines(lines)

    def spool(self, path: str | None) -> None:
        """Start spooling to a file, or end it with None."""
        if path is not None and self.copy is not None:
            raise StatementError(
                "The session is spooled to a file already.", hint="SPOOL OFF ends that."
            )
        if self.copy is not None:
            self.copy.close()
        self.copy = None if path is None else _opened(path)


def _opened(path: str) -> TextIO:
    try:
        return Path(path).expanduser().open("w", encoding="utf-8")
    except OSError as failure:
        raise StatementError(f"Cannot write to {path}: {failure.strerror}") from failure
