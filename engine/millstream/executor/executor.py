"""The production executor: a sub-topology's program on DuckDB, for all partitions of a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millstream.executor import changelog, exchange_write, sink
from millstream.executor.channel_watermarks import MARKS, ChannelWatermarks, state_tables
from millstream.executor.compaction import PACE, Compaction, Pace
from millstream.executor.decode import Decoder, decode_spec, take_in
from millstream.executor.exchange_read import Unpacked
from millstream.executor.execution import Ready, output_of, ready, run_steps
from millstream.executor.problems import failed_rows, late_rows, refuse_fatal, stopped
from millstream.executor.source_reader import Sharing, SourceReader
from millstream.executor.upkeep import Upkeep
from millstream.formats.codec import EncodeSpec
from millstream.functions.function import Catalogue
from millstream.log.log import Appended, Fetched
from millstream.model.batch import MOMENT, ROWTIME, SEQ
from millstream.model.event_time import END, NEVER
from millstream.model.physical import physical_names
from millstream.model.problem import Problem
from millstream.model.schema import Role, SourceKind
from millstream.operators.compile import compile_subtopology
from millstream.operators.deletions import knows_what_was_there
from millstream.operators.program import ActiveProgram
from millstream.plan.nodes import Deliver, Repartition, Write
from millstream.runtime.ports import RunResult, Snapshots
from millstream.state.store import Store
from millstream.topology.topology import SourceInput, SubTopology

_GUARDED_RUNS = 16
"""After a failing row, this many runs use the exact program at once, because failures come in
bursts."""


class _Emitted(NamedTuple):
    """The result of a run: records, rows that cannot be written, and bytes that are kept until the
    flush."""

    outputs: tuple[Appended[pa.Table], ...] = ()
    problems: tuple[Problem, ...] = ()
    kept: int = 0


class DuckDBExecutor:
    """Implements `runtime.ports.Executor` over Arrow tables.

    `output_partitions`: the number of partitions of the topic that the root writes to; with
    `output_channels`, the partitions of each channel. `labelled`: its records say which tasks have
    sent their rows. `cached`: intermediate revisions of a key may
    be dropped between commits; outputs of a table sink then leave with `flush`. `delivering`:
    whether the rows of a Deliver root are consumed; a SOURCE TABLE only stores them. `fatal`: kinds
    of problems in the input that stop the query instead of being reported. `pace`: when changelogs
    are compacted. `by_arrival`: order records by the arrival numbers of the log instead of their
    event times; output records keep the number of the record that caused them. `moments`: rows that
    move always carry their m (see `order`). `held`: rows that move leave with `flush`, in few large
    records, because no task reads them before the commit. `sharing`: decode together with other
    queries that read the same records.
    """

    def __init__(
        self,
        store: Store,
        query_id: str,
        sub: SubTopology,
        catalogue: Catalogue,
        *,
        output_partitions: int = 1,
        output_channels: int = 0,
        labelled: bool = False,
        cached: bool = False,
        delivering: bool = True,
        fatal: frozenset[str] = frozenset(),
        pace: Pace = PACE,
        by_arrival: bool = False,
        moments: bool = False,
        held: bool = False,
        sharing: Sharing | None = None,
    ) -> None:
        self._by_arrival = by_arrival
        self._moments = moments or by_arrival
        self._held = held
        self._moment = NEVER
        self._sub = sub
        self._catalogue = catalogue
        self._output_partitions = output_partitions
        self._output_channels = output_channels
        self._labelled = labelled
        self._cached = cached
        self._delivering = delivering
        self._fatal = fatal
        self._programs: dict[tuple[bool, bool], Ready] = {}
        program = self._program(headers=False).program
        self._session = store.session(query_id, sub.index, state_tables(program, sub))
        self._upkeep = Upkeep(self._session, program.upkeep)
        self._compaction = Compaction(self._session, pace)
        self._work = store.cursor()
        self._readers = tuple(
            SourceReader(item.topic, decode_spec(item), sharing, sub.partitions)
            if isinstance(item, SourceInput)
            else None
            for item in sub.inputs
        )
        self._encode = _encode_spec(sub.root) if isinstance(sub.root, Write) else None
        self._written: dict[str, list[pa.Table]] = {}
        self._restored: list[tuple[str, pa.Table]] = []
        self._pending: list[pa.Table] = []
        self._leaving: list[exchange_write.Leaving] = []
        self._marks = ChannelWatermarks(self._session)
        self._moved = Unpacked()
        self._open: set[int] = set()
        self._guarded = 0
        self._headers = False

    @property
    def active(self) -> ActiveProgram:
        """The program of the last batch, or the first one to run."""
        ready = self._program(headers=self._headers)
        return ActiveProgram(ready.program, self._cached, self._headers, self._guarded > 0)

    def open(self, partition: int) -> int:
        """See `runtime.ports.Executor`."""
        self._open.add(partition)
        for reader in self._readers:
            if reader is not None:
                reader.open(partition)
        self._marks.reread()
        if not self._session.tables:
            return 0
        position = self._session.position(partition)
        if position is None:
            self._session.clear(partition)
        self._compaction.opened(partition, position.written if position else 0)
        return position.at if position else 0

    def clear(self, partition: int, position: int) -> None:
        """See `runtime.ports.Executor`."""
        self._session.clear(partition)
        self._compaction.opened(partition, 0)
        self._marks.reread()
        # No run happens while a query is being opened, so this transaction holds nothing else.
        self._session.commit({partition: position})

    def restore(self, partition: int, fetched: Fetched[pa.Table]) -> None:
        """See `runtime.ports.Executor`."""
        rows, count = changelog.apply(self._session, partition, fetched.batch)
        self._compaction.added(partition, count)
        self._marks.reread()
        if self._written or self._marks.moved or self._restored:
            self._restored += rows
        else:
            # The log has committed these changes, so they may be committed here: a later failure
            # cannot undo them.
            self._session.commit({partition: fetched.next_offset}, self._compaction.rows)

    def run(
        self,
        inputs: Sequence[Fetched[pa.Table]],
        *,
        together: bool = False,
        closing: bool = False,
    ) -> RunResult[pa.Table]:
        """See `runtime.ports.Executor`."""
        taken = take_in(
            self._work,
            self._sub,
            self._readers,
            inputs,
            self._marks.known(),
            self._moved,
            by_arrival=self._by_arrival,
        )
        refuse_fatal(taken.problems, self._fatal)
        self._marks.move(taken.marks, taken.obsolete)
        if taken.rows == 0 and not closing:
            return RunResult((), taken.consumed, taken.problems, taken.watermark, ahead=taken.ahead)
        try:
            if closing:
                return self._close_windows(taken, together=together)
            out, problems = self._process(taken)
            made = self._emit(out, taken, together=together)
        except duckdb.Error as error:
            raise stopped(error, self._sub) from error
        told = (*taken.problems, *problems, *made.problems)
        return RunResult(
            made.outputs,
            taken.consumed,
            told,
            taken.watermark,
            taken.first,
            made.kept,
            ahead=taken.ahead,
        )

    def _close_windows(self, taken: Decoder, *, together: bool) -> RunResult[pa.Table]:
        """Release what waits for stream time, until nothing waits: what one operator releases may
        wait in the next one."""
        made, problems, first = _Emitted(), taken.problems, END
        closed, before = False, self._changes
        while True:
            out, failed = self._process(taken, closing=True)
            if self._changes == before:
                break
            closed, before = True, self._changes
            more = self._emit(out, taken, together=together)
            made = _Emitted(
                made.outputs + more.outputs, made.problems + more.problems, made.kept + more.kept
            )
            problems += failed
            if out.num_rows:
                first = min(first, pc.min(out[ROWTIME]).as_py())
        told = (*problems, *made.problems)
        return RunResult(
            made.outputs,
            taken.consumed,
            told,
            taken.watermark,
            first,
            made.kept,
            closed,
            taken.ahead,
        )

    @property
    def _changes(self) -> int:
        """How often state was written since the last commit."""
        return sum(map(len, self._written.values()))

    def flush(self) -> tuple[Appended[pa.Table], ...]:
        """See `runtime.ports.Executor`."""
        outputs: tuple[Appended[pa.Table], ...] = ()
        if self._pending:
            outputs = self._records(self._coalesced()).outputs
            self._pending = []
        if self._leaving:
            assert isinstance(self._sub.root, Repartition)
            outputs = exchange_write.sent(self._leaving, self._sub.root, str(self._sub.output))
            self._leaving = []
        marks = self._marks.write()
        if marks is not None:
            self._written.setdefault(MARKS.name, []).append(marks)
        topic = self._sub.changelog
        if topic is None:
            return outputs
        changed = {
            name: changelog.latest(self._work, self._session.tables[name], written)
            for name, written in self._written.items()
        }
        self._written = {name: [rows] for name, rows in changed.items()}
        self._compaction.wrote(changed)
        records = changelog.changelog_records(topic, changed)
        piece = changelog.changelog_records(topic, self._compaction.piece())
        return (*outputs, *records, *piece)

    def snapshots(self) -> Snapshots:
        """See `runtime.ports.Executor`."""
        return self._compaction.last

    def commit(self, changelog_positions: Mapping[int, int]) -> None:
        """See `runtime.ports.Executor`."""
        if self._written:
            rows = sum(each.num_rows for written in self._written.values() for each in written)
            self._upkeep.before_commit(rows, self._open)
        self._session.commit(changelog_positions, self._compaction.rows)
        self._written, self._restored = {}, []

    def discard(self) -> None:
        """See `runtime.ports.Executor`."""
        self._session.rollback()
        self._compaction.discard()
        self._written, self._pending = {}, []
        self._restored, self._leaving = [], []
        self._marks.discard()
        self._moved.forget()
        self._open.clear()
        for reader in self._readers:
            if reader is not None:
                reader.forget()

    def close(self) -> None:
        """See `runtime.ports.Executor`."""
        for reader in self._readers:
            if reader is not None:
                reader.close()
        self._session.close()
        self._work.close()

    def _program(self, *, headers: bool, closing: bool = False) -> Ready:
        if (headers, closing) not in self._programs:
            program = compile_subtopology(
                self._sub,
                self._catalogue,
                headers=headers,
                cached=self._cached,
                moments=self._by_arrival,
                closing=closing,
            )
            self._programs[headers, closing] = ready(program)
        return self._programs[headers, closing]

    def _process(
        self, taken: Decoder, *, closing: bool = False
    ) -> tuple[pa.Table, tuple[Problem, ...]]:
        """Run the fast program, or, after a failure, the exact one."""
        chosen = self._program(headers=taken.headers, closing=closing)
        self._headers = taken.headers
        tables = taken.with_columns(chosen.program.carried)
        inputs = dict(zip(chosen.program.inputs, tables, strict=True))
        problems: tuple[Problem, ...] = ()
        if self._guarded == 0:
            try:
                relations, written = run_steps(self._session, chosen.fast, inputs)
            except duckdb.Error:
                self._guarded = _GUARDED_RUNS
                self._replay()
        if self._guarded:
            self._guarded -= 1
            relations, written = run_steps(self._session, chosen.exact, inputs)
            problems = failed_rows(relations, chosen.program.problems, taken, self._sub)
        for name, rows in written:
            self._written.setdefault(name, []).append(rows)
        return output_of(relations), (
            *problems,
            *late_rows(relations, chosen.program.late, self._sub),
        )

    def _replay(self) -> None:
        """The failed statement has aborted the transaction: write its changes again."""
        self._session.rollback()
        for name, rows in self._restored:
            self._session.upsert(name, rows)
        for name, written in self._written.items():
            for rows in written:
                self._session.upsert(name, rows)

    def _emit(self, out: pa.Table, taken: Decoder, *, together: bool) -> _Emitted:
        root = self._sub.root
        match root:
            case Repartition():
                return self._send(out, root, taken, together=together)
            case Deliver() if not self._delivering:
                return _Emitted()
            case Write() | Deliver():
                waiting = self._cached and root.kind is SourceKind.TABLE
                rows = out if waiting else sink.reduced(out, root.kind)
                if self._by_arrival and isinstance(root, Write) and rows.num_rows:
                    rows = self._with_moments(rows, taken)
                if waiting:
                    if rows.num_rows:
                        self._pending.append(rows)
                    return _Emitted(kept=rows.nbytes)
                return self._records(rows)
        raise TypeError(f"a sub-topology cannot end in {type(root).__name__}")

    def _send(
        self, out: pa.Table, root: Repartition, taken: Decoder, *, together: bool
    ) -> _Emitted:
        if out.num_rows == 0:
            return _Emitted()
        if self._moments:
            out = self._with_moments(out, taken)
        apart = self._output_channels > 1 and not together
        named = self._labelled and not together
        target = exchange_write.Target(str(self._sub.output), self._output_partitions, apart, named)
        run = exchange_write.leaving(self._work, out, root, target)
        if self._held:
            self._leaving.append(run)
            return _Emitted(kept=run.rows.nbytes)
        return _Emitted(exchange_write.sent((run,), root, target.topic))

    def _with_moments(self, out: pa.Table, taken: Decoder) -> pa.Table:
        """The rows with `$m`, the m (see `order`) of the record that caused each of them."""
        before = self._moment
        if len(taken.moments):
            self._moment = int(taken.moments[-1])
        if MOMENT in out.column_names:
            return out
        if len(taken.moments) and self._program(headers=taken.headers).program.traced:
            moments = taken.moments[out[SEQ].to_numpy()]
        else:
            moments = exchange_write.rising_times(out, before)
        return out.append_column(MOMENT, pa.array(moments))

    def _records(self, rows: pa.Table) -> _Emitted:
        root = self._sub.root
        if isinstance(root, Write) and self._encode is not None:
            return _Emitted(
                *sink.records(self._work, rows, root, self._encode, self._output_partitions)
            )
        return _Emitted(sink.delivered(rows))

    def _coalesced(self) -> pa.Table:
        root = self._sub.root
        assert isinstance(root, Write | Deliver)
        pairs = zip(root.schema.columns, physical_names(root.schema.names), strict=True)
        keys = [name for column, name in pairs if column.role is Role.KEY]
        known = knows_what_was_there(root.input)
        return sink.net_changes(self._work, self._pending, keys, known=known)


def _encode_spec(node: Write) -> EncodeSpec:
    return EncodeSpec(node.key_format, node.value_format, node.schema, node.window, node.null_parts)
