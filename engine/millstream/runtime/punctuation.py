"""When a sub-topology calls functions by the clock of the wall."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.runtime.ports import Punctuator


@dataclass(slots=True)
class Punctuation:
    """The calls for the tasks of a sub-topology that are open here. `punctuator`: None if there are
    none."""

    punctuator: Punctuator | None = None
    last: int | None = None
    """The time of the last call; None: there was none since the tasks were opened."""

    def due_at(self) -> int | None:
        """When a function may be due; None: never. At once for tasks that were just opened, because
        their clocks begin with the first call."""
        if self.punctuator is None:
            return None
        return 0 if self.last is None else self.last + self.punctuator.interval_ms

    def begin(self, now: int) -> bool:
        """Have the next run call what is due, if anything may be; returns whether it will."""
        at = self.due_at()
        if self.punctuator is None or at is None or now < at:
            return False
        late = self.last is None or now >= at + self.punctuator.interval_ms
        self.last = now if late else at
        self.punctuator.punctuate(now)
        return True
