"""What the segments of an embedded log have, each measured once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import duckdb

from millstream.log import tables
from millstream.log.stored import Segment, Stored
from millstream.log.tables import Measured

Measures = Mapping[int, Measured]
"""By partition; those without a record are left out."""


class SegmentMeasures:
    """Used by one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], tuple[int, Measures]] = {}
        """By topic and table: how many records it had, and what was measured."""

    def of(
        self, cursor: duckdb.DuckDBPyConnection, stored: Stored, segment: Segment
    ) -> Measures | None:
        """What a segment has; None of one that has grown since the last look, which costs less than
        measuring it each time."""
        at, closed = (stored.id, *segment.table), segment is not stored.segments[-1]
        records, found = self._known.get(at, (-1, {}))
        if found and records == segment.records:
            return found
        grown = not closed and records != segment.records
        found = {} if grown else tables.measure(cursor, stored, segment)
        self._known[at] = segment.records, found
        return None if grown else found

    def now(self, cursor: duckdb.DuckDBPyConnection, stored: Stored, segment: Segment) -> Measures:
        """What a segment has now, also of one that has grown."""
        found = self.of(cursor, stored, segment)
        if found is None:
            found = tables.measure(cursor, stored, segment)
            self._known[stored.id, *segment.table] = segment.records, found
        return found

    def forget_others(self, topics: Iterable[Stored]) -> None:
        """Forget segments of other topics, and those that are gone."""
        seen = {(stored.id, *segment.table) for stored in topics for segment in stored.segments}
        self._known = {at: known for at, known in self._known.items() if at in seen}
