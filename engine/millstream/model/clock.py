"""The default clocks of an engine."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch, UTC."""
    return time.time_ns() // 1_000_000


def ticks_ns() -> int:
    """Nanoseconds of a monotonic clock: only differences are meaningful."""
    return time.monotonic_ns()
