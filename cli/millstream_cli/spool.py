"""A copy of what a terminal shows, as plain text."""

from __future__ import annotations

import re
from typing import IO, TextIO

_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Tee:
    """Writes to the screen, and the same without colours to a file."""

    def __init__(self, screen: IO[str], copy: TextIO) -> None:
        self.screen = screen
        self.copy = copy

    def write(self, text: str) -> int:
        """Write to both."""
        self.copy.write(_STYLES.sub("", text))
        return self.screen.write(text)

    def flush(self) -> None:
        """Flush both."""
        self.copy.flush()
        self.screen.flush()

    def isatty(self) -> bool:
        """Whether the screen is one: colours and width go by it."""
        return self.screen.isatty()

    def fileno(self) -> int:
        """The screen's."""
        return self.screen.fileno()
