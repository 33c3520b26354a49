"""A cache of serialised rows: rendered for one client, reused for the others that get the same
rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

Key = tuple[int, str, int]
"""The number of a change, the media type, and the index of the first row."""


@dataclass(slots=True, eq=False)
class RenderedRows:
    """The most recently used texts, of at most `bytes_max` bytes. Clients that read at the same
    time share a text; for a client that is far behind it is rendered again. For use from one
    thread."""

    bytes_max: int
    size: int = 0
    _cached: OrderedDict[Key, bytes] = field(default_factory=OrderedDict)

    def of(self, key: Key, render: Callable[[], bytes]) -> bytes:
        """The text of these rows, rendered if it is not cached."""
        cached = self._cached.get(key)
        if cached is not None:
            self._cached.move_to_end(key)
            return cached
        text = render()
        if len(text) <= self.bytes_max:
            self._cached[key] = text
            self.size += len(text)
        while self.size > self.bytes_max:
            _, oldest = self._cached.popitem(last=False)
            self.size -= len(oldest)
        return text
