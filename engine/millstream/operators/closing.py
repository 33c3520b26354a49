"""Programs that advance stream time without a record: behind everything that waits for it.

Such a program runs when the input of a query has been idle for long (`idle.window.close.ms`). It is
the ordinary one except for the clocks: the new stream time of a partition is the lowest one that
releases all results that its state holds back. The clock is stored, so that rows which come later
are late in the same way as after a record of that time.
"""

from __future__ import annotations

from millstream.model.batch import PART, ROWTIME
from millstream.operators.sql import identifier

P, RT = (identifier(name) for name in (PART, ROWTIME))


def closing_clock_text(label: str, moved: str, closed: str) -> str:
    """The clock of windows. `moved`: the relation of the clocks that rows have advanced; `closed`:
    the first stream time at which a stored window is closed."""
    stored, clock = identifier(label), identifier(f"{label}_clock")
    last = f'max({closed}) AS "time"'
    return (
        f'SELECT {P}, max("time") AS "time", min("before") AS "before", sum(late)::BIGINT AS late\n'
        f'FROM (\n  SELECT {P}, "time", "before", late FROM {identifier(moved)}\n  UNION ALL\n'
        f'  SELECT s.{P}, s."time", c."time", 0 FROM (\n'
        f"    SELECT {P}, {last} FROM {stored} GROUP BY {P}\n"
        f'  ) s JOIN {clock} c USING ({P}) WHERE s."time" > c."time"\n)\nGROUP BY {P}'
    )
