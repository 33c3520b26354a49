"""Loads checkpoints into a state that lacks what is in them."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millstream.checkpoints.fingerprint import Fingerprint
from millstream.checkpoints.manifest import Checkpoint, RowsFile
from millstream.checkpoints.repository import Repository, StateId
from millstream.checkpoints.stopping import Stopped
from millstream.executor.changelog import owned_rows
from millstream.model.errors import ConflictError, MillstreamError
from millstream.operators.program import StateTable
from millstream.state.bulk_table import BulkTable
from millstream.state.positions import stored_position
from millstream.state.store import Session, Store
from millstream.state.tables import DELETED

_LOG = logging.getLogger("millstream")


@dataclass(frozen=True, slots=True)
class Range:
    """What the changelog of a partition has: the offsets from `start` on, before `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Loading:
    """Loads checkpoints of some partitions of a sub-topology that nobody else holds meanwhile."""

    store: Store
    repository: Repository
    state: StateId
    tables: Sequence[StateTable]
    agrees: Callable[[int, Fingerprint], bool]
    """Whether the changelog of a partition has a record."""
    stopped: Callable[[], bool] = lambda: False

    def load(self, ranges: Mapping[int, Range], *, alone: bool) -> dict[int, int]:
        """Load the newest checkpoint that is ahead of the state of each partition, and from which
        its changelog goes on; returns the positions of those that were loaded. `alone`: no other
        partition is in use, either.

        A checkpoint that cannot be read is left out, for one before it or for the changelog. Raises
        UnavailableError when the place does not answer to the first request.
        """
        session = self.store.session(self.state.query_id, self.state.subtopology, self.tables)
        with closing(session):
            found = {p: self._candidates(session, p, ranges[p]) for p in sorted(ranges)}
            chosen = {p: each[0] for p, each in found.items() if each}
            loaded = {}
            if alone and chosen and not session.has_rows():
                loaded = self._load_together(session, chosen)
            for partition, candidates in found.items():
                for checkpoint in () if partition in loaded else candidates:
                    if self._load_one(session, partition, checkpoint):
                        loaded[partition] = checkpoint.position
                        break
            return loaded

    def _candidates(self, session: Session, partition: int, own: Range) -> list[Checkpoint]:
        """The checkpoints that a partition may be loaded from, the best first. Of one that has the
        rows of its state already, only changes are new, and the changelog has these, too."""
        stored = session.position(partition)
        at = 0 if stored is None else stored.at
        newest = self.repository.newest(self.state, partition, max(own.start, at + 1), own.end)
        return [
            found
            for found in newest
            if (at < found.base or at < own.start) and self.agrees(partition, found.fingerprint)
        ]

    def _load_together(self, session: Session, chosen: Mapping[int, Checkpoint]) -> dict[int, int]:
        """Fill empty tables with the rows of several partitions, of those that can be read."""
        marks = {partition: self._mark(session, partition) for partition in chosen}
        failed: set[int] = set()
        with ExitStack() as stack:
            bulks = {
                table.name: stack.enter_context(
                    BulkTable(self.store, self.state.query_id, self.state.subtopology, table)
                )
                for table in self.tables
            }
            for partition, checkpoint in chosen.items():
                try:
                    for file in checkpoint.files:
                        if not file.changes and file.table in bulks:
                            bulks[file.table].add(self._rows(partition, file))
                except (MillstreamError, duckdb.Error) as error:
                    self._tell(partition, checkpoint, error)
                    failed.add(partition)
            for bulk in bulks.values():
                bulk.finish()
        loaded = {}
        for partition, checkpoint in chosen.items():
            if partition in failed:
                continue
            try:
                changes = (file for file in checkpoint.files if file.changes)
                self._apply(session, partition, changes)
                self._settle(session, partition, checkpoint, marks[partition])
                loaded[partition] = checkpoint.position
            except (MillstreamError, duckdb.Error) as error:
                session.rollback()
                self._tell(partition, checkpoint, error)
        return loaded

    def _load_one(self, session: Session, partition: int, checkpoint: Checkpoint) -> bool:
        """Replace the state of a partition; returns whether all of it could be read. Otherwise it
        is one from which the changelog is replayed from its start."""
        try:
            fresh = not session.has_rows(partition)
            mark = self._mark(session, partition)
            self._apply(session, partition, iter(checkpoint.files), fresh=fresh)
            self._settle(session, partition, checkpoint, mark)
        except (MillstreamError, duckdb.Error) as error:
            session.rollback()
            self._tell(partition, checkpoint, error)
            return False
        return True

    def _mark(self, session: Session, partition: int) -> int:
        """Clear a partition, and mark its position as one that is being loaded: any other
        session that changes the state takes the mark away."""
        mark = -1 - secrets.randbits(62)
        session.clear(partition)
        session.commit({partition: 0}, {partition: mark})
        return mark

    def _apply(
        self, session: Session, partition: int, files: Iterator[RowsFile], *, fresh: bool = False
    ) -> None:
        """`fresh`: there were no rows of the partition."""
        for file in files:
            if file.table not in session.tables:
                continue
            rows = self._rows(partition, file)
            if fresh and not file.changes:
                session.insert(file.table, rows)
            else:
                if not pc.any(rows[DELETED]).as_py():
                    rows = rows.drop_columns([DELETED])
                session.upsert(file.table, rows)
            session.commit({}, {})

    def _rows(self, partition: int, file: RowsFile) -> pa.Table:
        if self.stopped():
            raise Stopped
        rows = self.repository.rows(self.state, partition, file)
        (table,) = (table for table in self.tables if table.name == file.table)
        return owned_rows(rows, table, partition)

    def _settle(self, session: Session, partition: int, checkpoint: Checkpoint, mark: int) -> None:
        """Note the position: from now on, this is the state of the partition."""
        session.begin()
        stored = stored_position(
            session.connection,
            self.store.database,
            self.state.query_id,
            self.state.subtopology,
            partition,
        )
        if stored is None or stored.written != mark:
            raise ConflictError(f"The state of partition {partition} was changed meanwhile")
        session.commit({partition: checkpoint.position}, {partition: checkpoint.written})

    def _tell(self, partition: int, checkpoint: Checkpoint, error: Exception) -> None:
        _LOG.warning(
            "The checkpoint of %s, sub-topology %d, partition %d as of %d was not loaded: %s",
            self.state.query_id,
            self.state.subtopology,
            partition,
            checkpoint.position,
            error,
        )
