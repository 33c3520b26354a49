"""Handles Ctrl-C during statements that must not be interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Interrupt:
    """Whether Ctrl-C was pressed."""

    wanted: bool = False


@contextmanager
def noted() -> Iterator[Interrupt]:
    """Within this context, Ctrl-C sets a flag and interrupts nothing; the code inside checks the
    flag."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def note(_number: int, _frame: object) -> None:
        interrupt.wanted = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
