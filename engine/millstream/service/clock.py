"""The clocks, in the one place that reads them."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch, UTC."""
    return time.time_ns() // 1_000_000


def ticks_ns() -> int:
    """Nanoseconds since some time: only differences mean anything, and they never shrink."""
    return time.monotonic_ns()
