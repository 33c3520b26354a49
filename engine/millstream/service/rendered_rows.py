"""What rows are on the wire, made for one client and kept for the others that get the same rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

Key = tuple[int, str, int]
"""The number of a change, the media type, and the first of the rows."""


@dataclass(slots=True, eq=False)
class RenderedRows:
    """The texts that were asked for last, `bytes_max` of them in all: those who read at the same
    time get the same one; who is far behind has it made again. Used in one thread alone."""

    bytes_max: int
    size: int = 0
    _kept: OrderedDict[Key, bytes] = field(default_factory=OrderedDict)

    def of(self, key: Key, make: Callable[[], bytes]) -> bytes:
        """The text of these rows."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        made = make()
        if len(made) <= self.bytes_max:
            self._kept[key] = made
            self.size += len(made)
        while self.size > self.bytes_max:
            _, oldest = self._kept.popitem(last=False)
            self.size -= len(oldest)
        return made
