"""Compacts changelogs: the state is written again as a snapshot, one piece with each commit.

A snapshot is spread over as many commits as it has pieces, so that no commit blocks on a large
state. Rows that change meanwhile are in the changelog anyway, as is every removed row; an unchanged
row is in its piece. Hence everything before the first piece can be deleted once the last piece is
committed. An unfinished snapshot is harmless: its rows only repeat what the changelog contains.
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
"""Defaults for production."""


@dataclass(slots=True)
class _Snapshot:
    """A snapshot being written. `before`: rows in the changelog that it makes superfluous."""

    before: int
    pieces: int
    following: int = 0


@dataclass(slots=True)
class Compaction:
    """The changelog rows of each partition, and the snapshots in progress.

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
        """Note that a partition was opened, and how many rows its changelog has."""
        self.rows[partition] = rows

    def closed(self, partition: int) -> None:
        """Note that a partition was closed; its snapshot in progress is given up."""
        for known in (self.rows, self._limits, self._under_way):
            known.pop(partition, None)

    def wrote(self, changed: Mapping[str, pa.Table]) -> None:
        """Note rows that are about to be appended."""
        for rows in changed.values():
            for entry in rows[PART].value_counts().to_pylist():
                self.added(entry["values"], entry["counts"])

    def added(self, partition: int, rows: int) -> None:
        """Set the number of rows on a partition's changelog."""
        self.rows[partition] = self.rows.get(partition, 0) + rows

    def piece(self) -> dict[str, pa.Table]:
        """The next piece of the snapshot that is in progress or due: rows by table."""
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
        """Discard snapshots in progress; partitions are opened again."""
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
        """The rows of a piece: those whose key hash falls into it."""
        keys = ", ".join(quoted(name) for name, _ in table.key)
        topic_partition = f"hash({keys}) % {snapshot.pieces}" if keys else "0"
        own = "" if snapshot.pieces == 1 else f" AND {topic_partition} = {snapshot.following}"
        columns = ", ".join(map(quoted, columns_of(table)))
        return self.session.connection.sql(
            f"SELECT {columns} FROM {quoted(table.name)} WHERE {quoted(PART)} = {partition}{own}"
        ).to_arrow_table()
