"""How far a sub-topology has handed on what it reads, in event time.

Who reads what it sends finds the end of a repartition topic long before the last record is on it:
exactly once, nothing is there before the commit, and while a query catches up, most is still to
come. Were that end believed, what else a join reads would run ahead, and all that comes after it
would be late.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.log.log import Batch, Fetched
from millstream.model.event_time import END, NEVER
from millstream.runtime.ports import RunResult


@dataclass(slots=True)
class Watermark:
    """`reached`: rows up to this event time are processed, and none before it will come.
    `waiting`: the event time of the first processed row whose results wait for a commit."""

    reached: int = NEVER
    waiting: int = END

    def ran(self, result: RunResult[Batch], *, held: bool) -> None:
        """`held`: whether outputs are on the log only after the commit."""
        self.reached = result.watermark
        if held and result.productive:
            self.waiting = min(self.waiting, result.first)

    def idled(self, reached: int) -> None:
        """There was nothing to run up to this time."""
        self.reached = max(self.reached, reached)

    def committed(self) -> None:
        """All results are on the log."""
        self.waiting = END

    def reset(self) -> None:
        """Nothing is known any more."""
        self.reached, self.waiting = NEVER, END

    def bound(self, fetched: Fetched[Batch]) -> Fetched[Batch]:
        """What was read of the topic that the results go to, which is at its end only if nothing
        more is on its way."""
        until = min(self.reached, self.waiting - 1 if self.waiting < END else END)
        return fetched if until == END else replace(fetched, end=False, until=until)
