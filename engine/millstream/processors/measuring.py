"""Figures that processors keep of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from millstream.processors.names import NAME

MOST = 100
"""The names that the figures of a task may have."""


@dataclass(slots=True)
class ProcessorMetrics:
    """`context.metrics`: counters and values by name, which `Database.metrics()` and `/metrics`
    show for the query. They tell what the process has done, not what was committed: a record that
    is processed again counts again, and they begin anew with each start."""

    _counts: dict[str, float] = field(default_factory=dict)
    """What was added since the last `take_counts`."""
    _values: dict[str, float] = field(default_factory=dict)
    _kinds: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, amount: float = 1) -> None:
        """Add to a counter. Raises ValueError for an amount below 0 and for a name that cannot
        be."""
        self._check(name, "counter", amount)
        if amount < 0:
            raise ValueError(f"a counter only grows, and {name} gets {amount}: use set")
        self._counts[name] = self._counts.get(name, 0) + amount

    def set(self, name: str, value: float) -> None:
        """Set a value, such as the length of a queue. Those of all tasks are added up. Raises
        ValueError for a name that cannot be."""
        self._check(name, "value", value)
        self._values[name] = value

    def _check(self, name: str, kind: str, number: float) -> None:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise TypeError(f"{number!r} is no number")
        if not math.isfinite(number):
            raise ValueError(f"{name} cannot be {number}")
        known = self._kinds.get(name)
        if known == kind:
            return
        if known is not None:
            raise ValueError(f"{name} is a {known} already")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a figure")
        if len(self._kinds) == MOST:
            raise ValueError(f"a processor has at most {MOST} figures, and {name} is one more")
        self._kinds[name] = kind

    def take_counts(self) -> dict[str, float]:
        """What was added since the last call."""
        taken, self._counts = self._counts, {}
        return taken

    def values(self) -> dict[str, float]:
        """The values now."""
        return dict(self._values)
