"""Reads single key presses while a query runs."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@contextmanager
def quiet() -> Iterator[None]:
    """While statements run, type-ahead is not echoed: the next prompt shows it."""
    fd = _terminal()
    if fd is None:
        yield
        return
    before = termios.tcgetattr(fd)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(fd, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _terminal() -> int | None:
    """Standard input, where it is a terminal."""
    try:
        return sys.stdin.fileno() if sys.stdin.isatty() else None
    except (OSError, ValueError, AttributeError):
        return None


@dataclass(slots=True)
class Keys:
    """The keyboard without echo and without waiting for Enter; Ctrl-C works as usual. Without a
    terminal (`fd` None) no key is ever pressed."""

    fd: int | None
    before: list[Any] | None = None

    @staticmethod
    def of_terminal() -> Keys:
        """The keys of standard input."""
        return Keys(_terminal())

    def pressed(self) -> str:
        """The keys pressed since the last call."""
        if self.fd is None or not select.select([self.fd], [], [], 0)[0]:
            return ""
        return os.read(self.fd, 1024).decode(errors="replace").lower()

    def __enter__(self) -> Keys:
        if self.fd is not None:
            self.before = termios.tcgetattr(self.fd)
            tty.setcbreak(self.fd, termios.TCSANOW)
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd is not None and self.before is not None:
            termios.tcsetattr(self.fd, termios.TCSADRAIN, self.before)
