"""How far a sub-topology has forwarded its input, in event time.

A reader of its output reaches the end of a repartition topic long before the last record is
written: under exactly-once nothing is readable before the commit, and while a query catches up,
most records are still to come. If the reader took that end as final, the other inputs of a join
would run ahead, and all records that arrive later would be late.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.log.log import Batch, Fetched
from millstream.model.event_time import END, NEVER
from millstream.runtime.ports import RunResult


@dataclass(slots=True)
class Watermark:
    """`reached`: rows up to this event time are processed, and no earlier row will come. `waiting`:
    the event time of the first processed row whose results wait for a commit."""

    reached: int = NEVER
    waiting: int = END

    def ran(self, result: RunResult[Batch], *, held: bool) -> None:
        """`held`: whether outputs are on the log only after the commit."""
        self.reached = result.watermark
        if held and result.productive:
            self.waiting = min(self.waiting, result.first)

    def idled(self, reached: int) -> None:
        """Note that there was nothing to run up to this time."""
        self.reached = max(self.reached, reached)

    def committed(self) -> None:
        """Note that all results are on the log."""
        self.waiting = END

    def reset(self) -> None:
        """Reset: nothing is known any more."""
        self.reached, self.waiting = NEVER, END

    @property
    def until(self) -> int:
        """The event time up to which all results are on the log; END: no more are pending."""
        return min(self.reached, self.waiting - 1 if self.waiting < END else END)

    def bound(self, fetched: Fetched[Batch]) -> Fetched[Batch]:
        """The fetched records of the topic that the results go to, at their end only if no more
        results are pending."""
        until = self.until
        return fetched if until == END else replace(fetched, end=False, until=until)
