"""Keeping changelogs short: the state is written anew, a piece with each commit.

A snapshot is spread over as many commits as it has pieces, so that no commit waits for a large
state. Rows that change meanwhile are in the changelog anyway, as is every row that is removed; a
row that stays as it was is in its piece. So whatever lies before the first piece may go once the
last piece is committed, and a snapshot that is never finished does no harm: its rows say again
what the changelog says already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.model.batch import PART
from millstream.operators.program import StateTable
from millstream.runtime.ports import Snapshots
from millstream.state.store import Session
from millstream.state.tables import columns_of, quoted


@dataclass(frozen=True, slots=True)
class Pace:
    """When a snapshot begins: once the rows written to a partition's changelog exceed both
    `fewest` and twice the rows of its state. `piece`: rows of a piece, about."""

    fewest: int = 50_000
    piece: int = 100_000


PACE = Pace()
"""Fit for production."""


@dataclass(slots=True)
class _Snapshot:
    """One being written. `before`: rows in the changelog that it makes superfluous."""

    before: int
    pieces: int
    following: int = 0


@dataclass(slots=True)
class Compaction:
    """How much lies on the changelog of each partition, and the snapshots under way.

    >>> compaction.wrote(changed); compaction.piece(); ...; compaction.committed()
    """

    session: Session
    pace: Pace
    rows: dict[int, int] = field(default_factory=dict)
    """Rows on the changelog of each partition since its last snapshot began."""
    last: Snapshots = field(default_factory=Snapshots)
    _limits: dict[int, int] = field(default_factory=dict)
    _under_way: dict[int, _Snapshot] = field(default_factory=dict)

    def opened(self, partition: int, rows: int) -> None:
        """A partition was opened, with so many rows on its changelog."""
        self.rows[partition] = rows

    def wrote(self, changed: Mapping[str, pa.Table]) -> None:
        """These rows are about to be appended."""
        for rows in changed.values():
            for entry in rows[PART].value_counts().to_pylist():
                self.added(entry["values"], entry["counts"])

    def added(self, partition: int, rows: int) -> None:
        """So many rows of a partition are on its changelog."""
        self.rows[partition] = self.rows.get(partition, 0) + rows

    def piece(self) -> dict[str, pa.Table]:
        """The next piece of the snapshot that is under way or due: rows by table."""
        begun: frozenset[int] = frozenset()
        complete: frozenset[int] = frozenset()
        partition = next(iter(self._under_way), None)
        if partition is None:
            partition = next(filter(self._due, self.rows), None)
            if partition is None:
                self.last = Snapshots()
                return {}
            begun = frozenset({partition})
            pieces = 1 + self._live(partition) // self.pace.piece
            self._under_way[partition] = _Snapshot(self.rows[partition], pieces)
        snapshot = self._under_way[partition]
        rows = {
            table.name: self._slice(table, partition, snapshot)
            for table in self.session.tables.values()
        }
        snapshot.following += 1
        if snapshot.following == snapshot.pieces:
            complete = frozenset({partition})
            del self._under_way[partition]
            self.rows[partition] -= snapshot.before
        self.last = Snapshots(begun, complete)
        return {name: found for name, found in rows.items() if found.num_rows}

    def discard(self) -> None:
        """Forget snapshots under way; partitions are opened again."""
        self.rows.clear()
        self._under_way.clear()
        self._limits.clear()
        self.last = Snapshots()

    def _due(self, partition: int) -> bool:
        if self.rows[partition] <= self._limits.get(partition, self.pace.fewest):
            return False
        self._limits[partition] = max(self.pace.fewest, 2 * self._live(partition))
        return self.rows[partition] > self._limits[partition]

    def _live(self, partition: int) -> int:
        counts = " + ".join(
            f"(SELECT count(*) FROM {quoted(name)} WHERE {quoted(PART)} = {partition})"
            for name in self.session.tables
        )
        found = self.session.connection.sql(f"SELECT {counts}").fetchall()
        return int(found[0][0])

    def _slice(self, table: StateTable, partition: int, snapshot: _Snapshot) -> pa.Table:
        """The rows of a piece: those whose keys fall into it by their hash."""
        keys = ", ".join(quoted(name) for name, _ in table.key)
        topic_partition = f"hash({keys}) % {snapshot.pieces}" if keys else "0"
        own = "" if snapshot.pieces == 1 else f" AND {topic_partition} = {snapshot.following}"
        columns = ", ".join(map(quoted, columns_of(table)))
        return self.session.connection.sql(
            f"SELECT {columns} FROM {quoted(table.name)} WHERE {quoted(PART)} = {partition}{own}"
        ).to_arrow_table()
