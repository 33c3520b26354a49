"""How long tests wait for expected events."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 120.0
"""Nothing takes this long, even on a slow machine: an event that has not happened by then never
does."""
PATIENCE_MS = int(1000 * PATIENCE_S)
_AGAIN_S = 0.02


def until(holds: Callable[[], bool]) -> None:
    """Return when it does; for conditions without a notification."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(_AGAIN_S)
