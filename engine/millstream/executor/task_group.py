"""Some tasks of a sub-topology, with the session that reads and writes their state.

The groups of an executor run at the same time, each in a thread: their rows differ in `$part`, so
their transactions never conflict. A task changes its group only while no transaction holds any of
its state, because another session would not see that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.executor import changelog
from millstream.executor.channel_watermarks import MARKS, ChannelWatermarks, state_tables
from millstream.executor.compaction import Compaction, Pace
from millstream.executor.decode import Decoder, TakenIn, take_in
from millstream.executor.exchange_read import ChannelWatermark, Unpacked, slot_of
from millstream.executor.exchange_write import rest_of
from millstream.executor.execution import Ready, output_of, run_steps
from millstream.executor.problems import failed_rows, late_rows, processor_failed
from millstream.executor.processors import ProcessingError, Processors, Punctuating
from millstream.executor.source_reader import SourceReader
from millstream.executor.upkeep import Upkeep
from millstream.log.log import Appended, Fetched
from millstream.model.problem import Problem
from millstream.operators.program import Program
from millstream.processors.sending import Sent
from millstream.runtime.calls import NO_CALLS, Calls
from millstream.runtime.ports import Snapshots
from millstream.state.store import Store
from millstream.topology.topology import SubTopology

_GUARDED_RUNS = 16
"""After a failing row, this many runs use the exact program at once, because failures come in
bursts."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """What the groups of an executor have in common. `program` names the state tables."""

    store: Store
    query_id: str
    sub: SubTopology
    program: Program
    pace: Pace
    readers: tuple[SourceReader | None, ...]
    """What decodes each source, for all groups: each reads its own partitions."""
    by_arrival: bool
    skipping: bool
    """Whether processors skip records for which they raise exceptions."""


class TaskGroup:
    """The tasks whose partitions are `open` here. One thread at a time may call it."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        tables = state_tables(spec.program, spec.sub)
        self.session = spec.store.session(spec.query_id, spec.sub.index, tables)
        self.work = spec.store.cursor()
        """For statements that read no state."""
        self.open: set[int] = set()
        self.guarded = 0
        """For how many runs the exact program is still chosen at once."""
        self.pending: list[pa.Table] = []
        """Changes of a cached table, by run."""
        self._processors = Processors(self.session, spec.sub.index, spec.skipping)
        self._upkeep = Upkeep(self.session)
        self._compaction = Compaction(self.session, spec.pace)
        self._marks = ChannelWatermarks(self.session)
        self._moved = Unpacked()
        self._written: dict[str, list[pa.Table]] = {}
        self._restored: list[tuple[str, pa.Table]] = []
        self._cleared: set[int] = set()
        """Partitions that had no state when they were opened, since the last commit."""

    # ---- tasks -------------------------------------------------------------------------------

    def take(self, partition: int) -> int:
        """Open a partition; returns the changelog position of its state."""
        self.open.add(partition)
        self._marks.reread()
        if not self.session.tables:
            return 0
        position = self.session.position(partition)
        if position is None:
            self.session.clear(partition)
            self._cleared.add(partition)
        self._compaction.opened(partition, position.written if position else 0)
        return position.at if position else 0

    def give(self, partition: int) -> None:
        """Close a partition whose state is committed, for another group to take it. An unfinished
        snapshot of it is given up, which is harmless."""
        self.open.discard(partition)
        self._processors.forget(partition)
        self._compaction.closed(partition)
        self._marks.reread()
        self._moved.forget()

    def settle(self) -> bool:
        """Whether all state of its tasks is committed. That a task was opened without any state is
        committed here, if nothing else has happened since."""
        if self._written or self._restored or self.pending or self._marks.moved:
            return False
        if self._cleared:
            self.session.commit(dict.fromkeys(self._cleared, 0))
            self._cleared.clear()
        return not self.session.begun

    def clear(self, partition: int, position: int) -> None:
        """See `runtime.ports.Executor`."""
        self._processors.forget(partition)
        self.session.clear(partition)
        self._cleared.discard(partition)
        self._compaction.opened(partition, 0)
        self._marks.reread()
        # No run happens while a query is being opened, so this transaction holds nothing else.
        self.session.commit({partition: position})

    def restore(self, partition: int, fetched: Fetched[pa.Table]) -> None:
        """See `runtime.ports.Executor`."""
        self._processors.forget(partition)
        rows, count = changelog.apply(self.session, partition, fetched.batch)
        self._compaction.added(partition, count)
        self._cleared.discard(partition)
        self._marks.reread()
        if self._written or self._marks.moved or self._restored:
            self._restored += rows
        else:
            # The log has committed these changes, so they may be committed here: a later failure
            # cannot undo them.
            self.session.commit({partition: fetched.next_offset}, self._compaction.rows)

    # ---- runs --------------------------------------------------------------------------------

    def take_in(self, inputs: Sequence[Fetched[pa.Table]]) -> TakenIn:
        """Decode what was fetched for its tasks."""
        spec = self._spec
        return take_in(
            self.work,
            spec.sub,
            spec.readers,
            inputs,
            self._marks.known(),
            self._moved,
            by_arrival=spec.by_arrival,
        )

    def accept(self, taken: Decoder) -> None:
        """Note what its tasks have consumed."""
        self._moved.passed(taken.consumed)
        self._marks.move(taken.marks, taken.obsolete)

    def process(
        self, taken: Decoder, chosen: Ready, now: int | None = None
    ) -> tuple[pa.Table, tuple[Problem, ...]]:
        """Run the fast program, or, after a failure, the exact one. `now`: processors call what is
        due by the clock of the wall."""
        parts = tuple(sorted(self.open))
        self._processors.punctuating = None if now is None else Punctuating(now, parts)
        try:
            return self._processed(taken, chosen)
        except ProcessingError as error:
            self._processors.forget()
            raise processor_failed(error, taken, self._spec.sub) from error.__cause__
        except duckdb.Error:
            self._processors.forget()
            raise

    def _processed(self, taken: Decoder, chosen: Ready) -> tuple[pa.Table, tuple[Problem, ...]]:
        sub = self._spec.sub
        tables = taken.with_columns(chosen.program.carried)
        inputs = dict(zip(chosen.program.inputs, tables, strict=True))
        if self.guarded == 0:
            try:
                relations, written = run_steps(self.session, self._processors, chosen.fast, inputs)
            except duckdb.Error:
                self.guarded = _GUARDED_RUNS
                self._processors.forget()
                self._replay()
        if self.guarded:
            self.guarded -= 1
            relations, written = run_steps(self.session, self._processors, chosen.exact, inputs)
        # The fast program has none of these relations, unless it is the exact one.
        listed = [name for name in chosen.program.problems if name in relations]
        problems = failed_rows(relations, listed, taken, sub)
        for name, rows in written:
            self._written.setdefault(name, []).append(rows)
        return output_of(relations), (*problems, *late_rows(relations, chosen.program.late, sub))

    def take_called(self) -> tuple[list[Sent], bool, Calls]:
        """Since the last call: what processors have sent, whether one has asked for a commit, and
        the calls of functions in Python."""
        processors = self._processors
        taken = processors.sent, processors.commits, processors.calls
        processors.sent, processors.commits, processors.calls = [], False, NO_CALLS
        return taken

    @property
    def changes(self) -> int:
        """How often state was written since the last commit."""
        return sum(map(len, self._written.values()))

    def _replay(self) -> None:
        """The failed statement has aborted the transaction: write its changes again."""
        self.session.rollback()
        for name, rows in self._restored:
            self.session.upsert(name, rows)
        for name, written in self._written.items():
            for rows in written:
                self.session.upsert(name, rows)

    # ---- commit ------------------------------------------------------------------------------

    def hand_back(
        self, index: int, partition: int, first: int, records: Sequence[Appended[pa.Table]]
    ) -> Sequence[Appended[pa.Table]]:
        """See `runtime.ports.Executor`; `index`: the number of the input."""
        # On the log, other records will have these offsets.
        self._moved.forget()
        slot = slot_of(self._spec.sub, index, partition)
        mark = self._marks.known().get(slot, ChannelWatermark())
        if mark.offset != first:
            return records
        self._marks.move({slot: ChannelWatermark(mark.m)})
        return (rest_of(records[0], mark.done), *records[1:]) if mark.done else records

    def flush(self) -> tuple[Appended[pa.Table], ...]:
        """The changelog of all changes since the last commit, then perhaps a piece of a
        snapshot."""
        marks = self._marks.write()
        if marks is not None:
            self._written.setdefault(MARKS.name, []).append(marks)
        topic = self._spec.sub.changelog
        if topic is None:
            return ()
        changed = {
            name: changelog.latest(self.work, self.session.tables[name], written)
            for name, written in self._written.items()
        }
        self._written = {name: [rows] for name, rows in changed.items()}
        self._compaction.wrote(changed)
        records = changelog.changelog_records(topic, changed)
        return (*records, *changelog.changelog_records(topic, self._compaction.piece()))

    @property
    def snapshots(self) -> Snapshots:
        """See `runtime.ports.Executor`."""
        return self._compaction.last

    def commit(self, changelog_positions: Mapping[int, int]) -> None:
        """Commit the state of its tasks; the positions of others are left out."""
        if self._written:
            rows = sum(each.num_rows for written in self._written.values() for each in written)
            self._upkeep.before_commit(rows, self.open)
        own = {part: at for part, at in changelog_positions.items() if part in self.open}
        self.session.commit(own, self._compaction.rows)
        self._written, self._restored = {}, []
        self._cleared.clear()

    def discard(self) -> None:
        """See `runtime.ports.Executor`."""
        self._processors.forget()
        self.session.rollback()
        self._compaction.discard()
        self._written, self.pending, self._restored = {}, [], []
        self._marks.discard()
        self._moved.forget()
        self._cleared.clear()
        self.open.clear()

    def close(self) -> None:
        """See `runtime.ports.Executor`."""
        self._processors.forget()
        self.session.close()
        self.work.close()
