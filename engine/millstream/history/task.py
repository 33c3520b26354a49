"""One task of a bounded run: the streaming runtime over a log with an end.

Runs wherever the package is installed, without a server, a Kafka client or Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from millstream.executor.compaction import Pace
from millstream.executor.executor import DuckDBExecutor
from millstream.executor.problems import lacks_memory
from millstream.executor.sender_labels import SENDER_LABELS
from millstream.functions.function import Catalogue
from millstream.history.bounded import BoundedLog, SplitBuffer
from millstream.history.reading import PIECE_RECORDS, ReadChunk
from millstream.history.splits import MEMORY_LIMIT, Split
from millstream.history.workspace import Workspace
from millstream.log.log import Appended, TopicPartition
from millstream.model.batch import DIFF
from millstream.model.errors import StatementError
from millstream.model.problem import Problem
from millstream.model.schema_text import Schemas
from millstream.operators.registration import node_expressions
from millstream.operators.udfs import register_expressions
from millstream.runtime.runtime import Runtime
from millstream.runtime.spec import ExecutorSpec, QuerySpec, RuntimeSettings
from millstream.state.store import Store
from millstream.topology.topology import SubTopology, channels_of, senders_of

COMMIT_RECORDS = 1_000_000
"""The number of records after which their changes are merged into the state."""
_SETTINGS = RuntimeSettings(
    commit_interval_ms=1 << 60, max_pending_bytes=1 << 60, max_held_bytes=1 << 60
)
_FEW = replace(_SETTINGS, max_batch_records=PIECE_RECORDS)
"""The same for a task that ends after a number of rows."""
_NO_SNAPSHOTS = Pace(fewest=1 << 60)


@dataclass(frozen=True, slots=True)
class Superseded:
    """A snapshot of a task's state follows on its changelog: the records from before the run, and
    the first `records` that the run adds, are obsolete."""

    topic: str
    partition: int
    records: int


Produced = Appended[pa.Table] | Problem | Superseded
"""Records (`RAW_SCHEMA`; typed rows of a Deliver root) in order, an invalid row, or the start of a
snapshot."""


@dataclass(frozen=True, slots=True)
class TaskKind:
    """The common part of all tasks of a sub-topology; `width`: the partition count of its output.
    For the rest see `splits.Run`."""

    query_id: str
    sub: SubTopology
    width: int
    cached: bool
    fatal: frozenset[str]
    by_arrival: bool
    pace: Pace
    limit: int | None = None
    memory_limit: str = MEMORY_LIMIT
    schemas: Schemas | None = None


def run_task(
    kind: TaskKind,
    partition: int,
    pieces: Mapping[TopicPartition, Iterator[ReadChunk]],
    splits: Mapping[TopicPartition, Split],
    workspace: Workspace,
) -> Iterator[Produced]:
    """Run the task of a partition over all of its input, from where `splits` begin.

    Output is returned as it is produced; rows that move to other tasks carry `$m`. If the
    sub-topology has a changelog, state changes are returned too; if the changelog is among the
    `splits` it is replayed first. Raises the error that stops the query; StatementError (code
    E-HISTORY-MEMORY) if memory is insufficient, because a retry would fail again.
    """
    made: list[Produced] = []
    failed: list[Exception] = []
    log = BoundedLog({place: SplitBuffer(given) for place, given in pieces.items()}, splits)
    instance: Runtime[pa.Table] = Runtime(
        log,
        _SETTINGS if kind.limit is None else _FEW,
        lambda _, problems: made.extend(problems),
    )
    with _within_memory(kind, partition), workspace.store() as store, _closing(instance):
        pace = kind.pace if (kind.sub.changelog, partition) in splits else _NO_SNAPSHOTS
        executor = _new_executor(kind, store, workspace.functions, pace)
        outputs = _Outputs(executor, kind.sub.changelog, partition, made)
        spec = _spec(kind, executor, partition, splits)
        instance.add_query(replace(spec, on_outputs=outputs.take, on_error=failed.append))
        for _ in _steps(instance, kind.query_id):
            yield from _handed_out(made, failed)
            if kind.limit is not None and outputs.rows >= kind.limit:
                return
        yield from _handed_out(made, failed)


@contextmanager
def _within_memory(kind: TaskKind, partition: int) -> Iterator[None]:
    """Report insufficient memory as the error of a task."""
    try:
        yield
    except Exception as error:
        if not lacks_memory(error):
            raise
        raise StatementError(
            f"Query {kind.query_id} was ended: task {partition} of its sub-topology"
            f" {kind.sub.index} needs more than the {kind.memory_limit} of memory that DuckDB may"
            " use for it",
            hint="Raise EngineSettings(history_memory_limit=…), millstream.history.memory.max.bytes"
            " of a server, or --memory-limit of a pipeline; or give the topics that it reads more"
            " partitions: each is a task.",
            code="E-HISTORY-MEMORY",
        ) from error


class _Outputs:
    """Collects the output of a task and detects the start of a snapshot."""

    def __init__(
        self, executor: DuckDBExecutor, changelog: str | None, partition: int, made: list[Produced]
    ) -> None:
        self._executor = executor
        self._changelog = changelog
        self._partition = partition
        self._made = made
        self._changes = 0
        self.rows = 0
        """The rows of a Deliver root so far."""

    def take(self, outputs: Sequence[Appended[pa.Table]]) -> None:
        """Outputs of a run, or of a flush; only a flush writes to the changelog."""
        changes = sum(output.count for output in outputs if output.topic == self._changelog)
        if changes and self._executor.snapshots().complete:
            self._made.append(Superseded(str(self._changelog), self._partition, self._changes))
        self._changes += changes
        self.rows += sum(_rows(output.batch) for output in outputs)
        self._made.extend(outputs)


def _rows(batch: pa.Table) -> int:
    """The number of rows that it produces, if known."""
    return int(pc.sum(pc.equal(batch[DIFF], 1)).as_py() or 0) if DIFF in batch.schema.names else 0


@contextmanager
def _closing(instance: Runtime[pa.Table]) -> Iterator[None]:
    try:
        yield
    finally:
        instance.close(commit=False)


def _steps(instance: Runtime[pa.Table], query_id: str) -> Iterator[None]:
    """Work until nothing is left, with a commit from time to time and at the end."""
    since = 0
    while (step := instance.advance(query_id, 0)).progress:
        since += step.records
        if since >= COMMIT_RECORDS:
            instance.commit_query(query_id, 0)
            since = 0
        yield
    instance.commit_query(query_id, 0)


def _handed_out(made: list[Produced], failed: Sequence[Exception]) -> Iterator[Produced]:
    yield from made
    made.clear()
    if failed:
        raise failed[0]


def _new_executor(kind: TaskKind, store: Store, functions: Catalogue, pace: Pace) -> DuckDBExecutor:
    cursor = store.cursor()
    try:
        expressions = node_expressions(kind.sub.root)
        register_expressions(cursor, expressions, functions, store.functions)
    finally:
        cursor.close()
    return DuckDBExecutor(
        store,
        kind.query_id,
        kind.sub,
        functions,
        output_partitions=kind.width,
        cached=kind.cached,
        fatal=kind.fatal,
        pace=pace,
        by_arrival=kind.by_arrival,
        moments=True,
        schemas=kind.schemas,
    )


def _spec(
    kind: TaskKind, executor: DuckDBExecutor, partition: int, splits: Mapping[TopicPartition, Split]
) -> QuerySpec[pa.Table]:
    sub = kind.sub
    spec = ExecutorSpec(
        executor,
        tuple(item.topic for item in sub.inputs),
        sub.partitions,
        sub.changelog if (sub.changelog, partition) in splits else None,
        channels=channels_of(sub),
        senders=senders_of(sub),
        labels=SENDER_LABELS,
    )
    places = tuple(spec.topic_partitions(partition))
    return QuerySpec(
        kind.query_id,
        kind.query_id,
        (spec,),
        start={place: splits[place].start if place in splits else 0 for place in places},
        transient=True,
        retried=False,
        tasks=frozenset({partition}),
    )
