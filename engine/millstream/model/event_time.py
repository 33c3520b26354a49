"""The bounds of event time, in ms."""

from __future__ import annotations

NEVER = -(1 << 63)
"""Before every row."""
END = (1 << 63) - 1
"""After every row."""
LATEST = 1 << 62
"""The latest time of a row. Adding a duration to it does not overflow, because durations are
smaller."""
