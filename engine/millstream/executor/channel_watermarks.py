"""The watermarks of each task: one for each of its inputs and exchange channels, where there are
several (see `order`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from millstream.executor.exchange_read import ChannelWatermark, Slot
from millstream.operators.program import Program, StateTable
from millstream.state.store import Session
from millstream.topology.topology import SubTopology, channels_of, senders_of

MARKS = StateTable(
    "$marks",
    (("input", "INTEGER"),),
    (("m", "BIGINT"), ("offset", "BIGINT"), ("done", "BIGINT")),
    plain=True,
)


def state_tables(program: Program, sub: SubTopology) -> tuple[StateTable, ...]:
    """All tables that the state of a sub-topology consists of."""
    channels = (*channels_of(sub).values(), *senders_of(sub).values())
    several = len(sub.inputs) > 1 or any(count > 1 for count in channels)
    return (*program.tables, *((MARKS,) if several else ()))


class ChannelWatermarks:
    """The watermarks of a sub-topology's tasks, read from its state once and kept in memory."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept = MARKS.name in session.tables
        self._known: dict[Slot, ChannelWatermark] | None = None
        self._moved: dict[Slot, ChannelWatermark] = {}

    @property
    def moved(self) -> bool:
        """Whether there are watermarks to write."""
        return bool(self._moved)

    def known(self) -> Mapping[Slot, ChannelWatermark]:
        """The current watermarks."""
        if self._known is None:
            self._known = dict(self._moved)
            if self._kept:
                found = self._session.connection.sql(
                    f'SELECT "$part", input, m, "offset", done FROM "{MARKS.name}"'
                ).fetchall()
                stored = {
                    Slot(part, number): ChannelWatermark(*rest) for part, number, *rest in found
                }
                self._known = stored | self._moved
        return self._known

    def move(self, marks: Mapping[Slot, ChannelWatermark], obsolete: Collection[Slot] = ()) -> None:
        """Replace the watermarks by those that a run has reached. The `obsolete` ones say nothing
        any more; they stay in the state."""
        if self._kept and self._known is not None:
            self._known.update(marks)
            self._moved.update(marks)
            for slot in obsolete:
                self._known.pop(slot, None)

    def reread(self) -> None:
        """Invalidate the cache because the stored state has changed; the next use reads it
        again."""
        self._known = None

    def discard(self) -> None:
        """Discard watermarks that are not written yet."""
        self._known, self._moved = None, {}

    def write(self) -> pa.Table | None:
        """Write the watermarks that moved into the state; returns what was written."""
        if not self._moved:
            return None
        marks = self._moved.values()
        rows = pa.table(
            {
                "$part": pa.array([part for part, _ in self._moved], pa.int32()),
                "input": pa.array([index for _, index in self._moved], pa.int32()),
                "m": pa.array([mark.m for mark in marks], pa.int64()),
                "offset": pa.array([mark.offset for mark in marks], pa.int64()),
                "done": pa.array([mark.done for mark in marks], pa.int64()),
            }
        )
        self._moved = {}
        self._session.upsert(MARKS.name, rows)
        return rows
