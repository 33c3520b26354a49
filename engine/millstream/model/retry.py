"""To do something again while somebody else is in the way who is known to leave."""

from __future__ import annotations

import time
from collections.abc import Callable

_SECONDS = 20.0
_PAUSE_SECONDS = 0.01


def retry_until(
    action: Callable[[], None], busy: type[Exception], seconds: float = _SECONDS
) -> None:
    """Until it does not raise `busy` any more; what it raises after so many seconds gets through.

    DuckDB refuses to close a connection while a statement of one of its cursors runs, such as
    that of a reader who was told to end a moment ago.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return action()
        except busy:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)
