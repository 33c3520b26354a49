"""The wall clock, in the one place that reads it."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch, UTC."""
    return time.time_ns() // 1_000_000
