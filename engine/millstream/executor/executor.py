"""The production executor: a sub-topology's program on DuckDB, for all partitions of a thread.

Its tasks are in one group, or in several, which then run at the same time in several threads
(ADR 39). Whatever the groups, a run orders the rows of all tasks together, and its outputs are in
that order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain
from typing import NamedTuple, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millstream.executor import exchange_write, sink
from millstream.executor.compaction import PACE, Pace
from millstream.executor.decode import Decoder, decode_spec, in_order
from millstream.executor.execution import Ready, ready
from millstream.executor.groups import OneThread, TaskGroups, Workers
from millstream.executor.problems import PROCESSOR, refuse_fatal, stopped
from millstream.executor.sending import TopicPartitions, appended
from millstream.executor.source_reader import Sharing, SourceReader
from millstream.executor.task_group import GroupSpec, TaskGroup
from millstream.formats.codec import EncodeSpec
from millstream.functions.function import Catalogue
from millstream.log.log import Appended, Fetched
from millstream.model.batch import MOMENT, ROWTIME, SEQ
from millstream.model.event_time import END, NEVER
from millstream.model.physical import physical_names
from millstream.model.problem import Problem
from millstream.model.schema import Role, SourceKind
from millstream.model.schema_text import Schemas
from millstream.operators.compile import compile_subtopology
from millstream.operators.deletions import knows_what_was_there
from millstream.operators.process import shortest_interval
from millstream.operators.program import ActiveProgram, Program
from millstream.plan.nodes import Deliver, Repartition, Write
from millstream.runtime.calls import NO_CALLS, Calls
from millstream.runtime.grouping import Grouping
from millstream.runtime.ports import RunResult, Snapshots
from millstream.state.store import Store
from millstream.topology.topology import SourceInput, SubTopology

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Made(NamedTuple):
    """What a run of one group has made: records for the sink, rows that move, or rows for a client;
    bytes that the group keeps until the flush; and what could not be processed or written. Of a run
    that closes windows: the least event time of its rows, and whether it has closed any."""

    encoded: sink.Encoded | None = None
    leaving: exchange_write.Leaving | None = None
    delivered: pa.Table | None = None
    kept: int = 0
    problems: tuple[Problem, ...] = ()
    first: int = END
    closed: bool = False


class DuckDBExecutor:
    """Implements `runtime.ports.Executor` over Arrow tables.

    `output_partitions`: the number of partitions of the topic that the root writes to; with
    `output_channels`, the partitions of each channel. `labelled`: its records say which tasks have
    sent their rows. `cached`: intermediate revisions of a key may
    be dropped between commits; outputs of a table sink then leave with `flush`. `delivering`:
    whether the rows of a Deliver root are consumed; a SOURCE TABLE only stores them. `fatal`: kinds
    of problems in the input that stop the query instead of being reported; without PROCESSOR,
    records for which processors raise exceptions are skipped. `pace`: when changelogs are
    compacted. `by_arrival`: order records by the arrival numbers of the log instead of their
    event times; output records keep the number of the record that caused them. `moments`: rows that
    move always carry their m (see `order`). `held`: rows that move leave with `flush`, in few large
    records, unless they are sent together: no task reads them before the commit then. `sharing`:
    decode together with other queries that read the same records. `workers`: threads that may help,
    if the tasks are divided by the `grouping`; None: they never are. `topic_partitions`: of the
    topics that processors send to; None: they cannot. `schemas`: the schema registry.
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
        workers: Workers | None = None,
        grouping: Grouping | None = None,
        topic_partitions: TopicPartitions | None = None,
        schemas: Schemas | None = None,
    ) -> None:
        self._topic_partitions = topic_partitions
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
        readers = tuple(
            SourceReader(item.topic, decode_spec(item, schemas), sharing, sub.partitions)
            if isinstance(item, SourceInput)
            else None
            for item in sub.inputs
        )
        self._sources = tuple(reader for reader in readers if reader is not None)
        skipping = PROCESSOR not in fatal
        spec = GroupSpec(store, query_id, sub, program, pace, readers, by_arrival, skipping)
        divisible = not self._moments and is_divisible(sub, program)
        self._groups = TaskGroups(spec, workers or OneThread(), grouping if divisible else None)
        self._encode = _encode_spec(sub.root, schemas) if isinstance(sub.root, Write) else None
        self._leaving: list[exchange_write.Leaving] = []
        self._headers = False
        self._now: int | None = None
        """The time of day of a run that calls what is due by it."""

    @property
    def interval_ms(self) -> int:
        """See `runtime.ports.Punctuator`; 0: nothing is ever due."""
        return shortest_interval(self._sub.root)

    def punctuate(self, now: int) -> None:
        """See `runtime.ports.Punctuator`."""
        self._now = now

    @property
    def active(self) -> ActiveProgram:
        """The program of the last batch, or the first one to run."""
        ready = self._program(headers=self._headers)
        guarded = any(group.guarded > 0 for group in tuple(self._groups.all))
        return ActiveProgram(ready.program, self._cached, self._headers, guarded)

    def open(self, partition: int) -> int:
        """See `runtime.ports.Executor`."""
        for reader in self._sources:
            reader.open(partition)
        return self._groups.first.take(partition)

    def clear(self, partition: int, position: int) -> None:
        """See `runtime.ports.Executor`."""
        self._groups.of(partition).clear(partition, position)

    def restore(self, partition: int, fetched: Fetched[pa.Table]) -> None:
        """See `runtime.ports.Executor`."""
        self._groups.of(partition).restore(partition, fetched)

    def run(
        self,
        inputs: Sequence[Fetched[pa.Table]],
        *,
        together: bool = False,
        closing: bool = False,
    ) -> RunResult[pa.Table]:
        """See `runtime.ports.Executor`."""
        now, self._now = self._now, None
        try:
            shares = self._groups.divided(inputs)
        except duckdb.Error as error:
            raise stopped(error, self._sub) from error
        taken = in_order(self._sub, self._each(TaskGroup.take_in, shares))
        problems = tuple(chain.from_iterable(one.problems for one in taken))
        refuse_fatal(problems, self._fatal)
        for (group, _), one in zip(shares, taken, strict=True):
            group.accept(one)
            for reader in self._sources:
                reader.passed(one.consumed)
        self._groups.took(sum(one.rows for one in taken))
        work = [
            (group, one)
            for (group, _), one in zip(shares, taken, strict=True)
            if one.rows or closing or now is not None
        ]
        whole: RunResult[pa.Table] = RunResult(
            (),
            {at: position for one in taken for at, position in one.consumed.items()},
            problems,
            taken[0].watermark,
            last=max(one.last for one in taken),
            ahead={at: ends for one in taken for at, ends in one.ahead.items()},
        )
        if not work:
            return whole
        self._headers = taken[0].headers
        chosen = self._program(headers=self._headers, closing=closing)
        process = partial(self._process, chosen=chosen, together=together, closing=closing, now=now)
        try:
            if closing:
                return self._close_windows(whole, work, process, together=together)
            made = self._each(process, work)
            outputs, kept = self._emit(made, together=together)
        except duckdb.Error as error:
            raise stopped(error, self._sub) from error
        told = (*problems, *chain.from_iterable(one.problems for one in made))
        first = min(taken[0].first, *(one.first for one in made))
        called = [group.take_called() for group, _ in work]
        sent = chain.from_iterable(sent for sent, _, _ in called)
        return replace(
            whole,
            outputs=(*outputs, *appended(sent, self._topic_partitions)),
            problems=told,
            first=first,
            kept=kept,
            closed=any(one.closed for one in made),
            commits=any(commits for _, commits, _ in called),
            calls=reduce(Calls.plus, (calls for _, _, calls in called), NO_CALLS),
        )

    def _close_windows(
        self,
        whole: RunResult[pa.Table],
        work: Sequence[tuple[TaskGroup, Decoder]],
        process: Callable[[TaskGroup, Decoder], _Made],
        *,
        together: bool,
    ) -> RunResult[pa.Table]:
        """Release what waits for stream time, until nothing waits: what one operator releases may
        wait in the next one."""
        while True:
            made = self._each(process, work)
            if not any(one.closed for one in made):
                return whole
            outputs, kept = self._emit(made, together=together)
            whole = replace(
                whole,
                outputs=(*whole.outputs, *outputs),
                problems=(*whole.problems, *chain.from_iterable(one.problems for one in made)),
                first=min(whole.first, *(one.first for one in made)),
                kept=whole.kept + kept,
                closed=True,
            )

    def hand_back(
        self, topic: str, partition: int, first: int, records: Sequence[Appended[pa.Table]]
    ) -> Sequence[Appended[pa.Table]]:
        """See `runtime.ports.Executor`."""
        index = [item.topic for item in self._sub.inputs].index(topic)
        group = self._groups.of(partition % self._sub.partitions)
        return group.hand_back(index, partition, first, records)

    def flush(self) -> tuple[Appended[pa.Table], ...]:
        """See `runtime.ports.Executor`."""
        outputs: tuple[Appended[pa.Table], ...] = ()
        pending = [(group, None) for group in self._groups.all if group.pending]
        if pending:
            outputs, _ = self._emit(self._each(self._coalesced, pending), together=False)
        for run in exchange_write.joined(self._leaving):
            outputs += self._exchanged(run)
        self._leaving = []
        changes = self._each(lambda group, _: group.flush(), [(g, None) for g in self._groups.all])
        return (*outputs, *chain.from_iterable(changes))

    def snapshots(self) -> Snapshots:
        """See `runtime.ports.Executor`."""
        found = [group.snapshots for group in self._groups.all]
        return Snapshots(
            frozenset().union(*(each.begun for each in found)),
            frozenset().union(*(each.complete for each in found)),
        )

    def commit(self, changelog_positions: Mapping[int, int]) -> None:
        """See `runtime.ports.Executor`. A crash in between leaves the tasks of some groups behind
        their changelogs, as any state may be."""
        for group in self._groups.all:
            group.commit(changelog_positions)

    def discard(self) -> None:
        """See `runtime.ports.Executor`."""
        self._leaving = []
        self._groups.discard()
        for reader in self._sources:
            reader.forget()

    def close(self) -> None:
        """See `runtime.ports.Executor`."""
        for reader in self._sources:
            reader.close()
        self._groups.close()

    def _each(
        self, function: Callable[[TaskGroup, Item], Result], work: Sequence[tuple[TaskGroup, Item]]
    ) -> list[Result]:
        """Call a function for several groups, in several threads."""
        if len(work) == 1:
            return [function(*work[0])]
        return self._groups.workers.run([partial(function, *each) for each in work])

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

    # ---- the outputs of a group ----------------------------------------------------------------

    def _process(
        self,
        group: TaskGroup,
        taken: Decoder,
        *,
        chosen: Ready,
        together: bool,
        closing: bool = False,
        now: int | None = None,
    ) -> _Made:
        before = group.changes
        out, problems = group.process(taken, chosen, now)
        changed = group.changes > before
        closed = changed if closing else now is not None and (changed or out.num_rows > 0)
        if closing and not closed:
            return _Made()
        first = pc.min(out[ROWTIME]).as_py() if closed and out.num_rows else END
        made = self._made(group, out, taken, together=together)
        return made._replace(problems=(*problems, *made.problems), first=first, closed=closed)

    def _made(self, group: TaskGroup, out: pa.Table, taken: Decoder, *, together: bool) -> _Made:
        root = self._sub.root
        match root:
            case Repartition():
                return self._send(group, out, root, taken, together=together)
            case Deliver() if not self._delivering:
                return _Made()
            case Write() | Deliver():
                waiting = self._cached and root.kind is SourceKind.TABLE
                rows = out if waiting else sink.reduced(out, root.kind)
                if self._by_arrival and isinstance(root, Write) and rows.num_rows:
                    rows = self._with_moments(rows, taken)
                if waiting:
                    if rows.num_rows:
                        group.pending.append(rows)
                    return _Made(kept=rows.nbytes)
                return self._records(group, rows)
        raise TypeError(f"a sub-topology cannot end in {type(root).__name__}")

    def _send(
        self,
        group: TaskGroup,
        out: pa.Table,
        root: Repartition,
        taken: Decoder,
        *,
        together: bool,
    ) -> _Made:
        if out.num_rows == 0:
            return _Made()
        if self._moments:
            out = self._with_moments(out, taken)
        apart = self._output_channels > 1 and not together
        named = self._labelled and not together
        target = exchange_write.Target(str(self._sub.output), self._output_partitions, apart, named)
        return _Made(leaving=exchange_write.leaving(group.work, out, root, target))

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

    def _records(self, group: TaskGroup, rows: pa.Table) -> _Made:
        root = self._sub.root
        if not (isinstance(root, Write) and self._encode is not None):
            return _Made(delivered=rows)
        if rows.num_rows == 0:
            return _Made()
        encoded, problems = sink.encoded(
            group.work, rows, root, self._encode, self._output_partitions
        )
        return _Made(encoded, problems=problems)

    def _coalesced(self, group: TaskGroup, _: None) -> _Made:
        """The last change of each key since the last flush."""
        root = self._sub.root
        assert isinstance(root, Write | Deliver)
        pairs = zip(root.schema.columns, physical_names(root.schema.names), strict=True)
        keys = [name for column, name in pairs if column.role is Role.KEY]
        known = knows_what_was_there(root.input)
        pending, group.pending = group.pending, []
        return self._records(group, sink.net_changes(group.work, pending, keys, known=known))

    # ---- the outputs of all groups -------------------------------------------------------------

    def _emit(
        self, made: Sequence[_Made], *, together: bool
    ) -> tuple[tuple[Appended[pa.Table], ...], int]:
        """The records of a run, and how many bytes are kept until the flush."""
        kept = sum(one.kept for one in made)
        outputs: tuple[Appended[pa.Table], ...] = ()
        encoded = [one.encoded for one in made if one.encoded is not None]
        if encoded:
            outputs = self._written(encoded)
        leaving = [one.leaving for one in made if one.leaving is not None]
        if leaving:
            run = exchange_write.side_by_side(leaving)
            if self._held and not together:
                self._leaving.append(run)
                kept += run.rows.nbytes
            else:
                outputs = self._exchanged(run)
        for one in made:
            if one.delivered is not None:
                outputs += sink.delivered(one.delivered)
        return outputs, kept

    def _written(self, encoded: Sequence[sink.Encoded]) -> tuple[Appended[pa.Table], ...]:
        assert isinstance(self._sub.root, Write)
        topic = self._sub.root.topic
        if len(encoded) > 1 and not sink.apart(encoded):
            encoded = [sink.merged(encoded)]
        return self._concurrent([partial(each.appended, topic) for each in encoded])

    def _exchanged(self, run: exchange_write.Leaving) -> tuple[Appended[pa.Table], ...]:
        """The records of rows that move; as many threads make them as there are groups."""
        root, shares = self._sub.root, len(self._groups.all)
        assert isinstance(root, Repartition)
        return self._concurrent(
            [
                partial(exchange_write.sent, run, root, str(self._sub.output), share, shares)
                for share in range(shares)
            ]
        )

    def _concurrent(
        self, calls: Sequence[Callable[[], tuple[Appended[pa.Table], ...]]]
    ) -> tuple[Appended[pa.Table], ...]:
        found = [calls[0]()] if len(calls) == 1 else self._groups.workers.run(calls)
        return tuple(chain.from_iterable(found))


def is_divisible(sub: SubTopology, program: Program) -> bool:
    """Whether groups of tasks can be run apart, and their outputs be put in the order of one run.
    Where `$seq` of an output is not that of its input, the order is that of each task alone: that
    suffices for keyed rows, of which each key has one task, but not for rows that move on."""
    if sub.partitions == 1 or isinstance(sub.root, Deliver):
        return False
    return program.traced or (bool(program.tables) and isinstance(sub.root, Write))


def _encode_spec(node: Write, schemas: Schemas | None) -> EncodeSpec:
    spec = EncodeSpec(node.key_format, node.value_format, node.schema, node.window)
    return replace(spec, null_parts=node.null_parts, schemas=schemas, source=node.name)
