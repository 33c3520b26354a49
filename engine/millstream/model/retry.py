"""Retries an operation while a temporary conflict lasts."""

from __future__ import annotations

import time
from collections.abc import Callable

_SECONDS = 20.0
_PAUSE_SECONDS = 0.01


def retry_until(
    action: Callable[[], None], busy: type[Exception], seconds: float = _SECONDS
) -> None:
    """Retry until it no longer raises `busy`; after `seconds` the error is raised.

    DuckDB refuses to close a connection while a statement of one of its cursors runs, such as that
    of a reader that was cancelled a moment ago.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return action()
        except busy:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)
