"""The bounds of event time, in ms."""

from __future__ import annotations

NEVER = -(1 << 63)
"""Before every row."""
END = (1 << 63) - 1
"""After every row."""
LATEST = 1 << 62
"""The latest time of a row. A length of time may be added to it: lengths are shorter, too."""
