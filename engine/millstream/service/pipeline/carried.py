"""One persistent query carried by a pipeline: an epoch of it is one run and one transaction.

Why so: docs/adr/0017-pipeline.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from millstream.history.splits import Run, Split, since
from millstream.history.task import Produced, Superseded
from millstream.log.identity import check_topics
from millstream.log.log import Appended, Outcome, TopicPartition, Writer
from millstream.log.membership import Member
from millstream.model.errors import UnavailableError
from millstream.model.problem import Problem
from millstream.service import queries
from millstream.service.engine import Engine
from millstream.service.history.running import run_of

Runner = Callable[[Run], Iterator[Produced]]
"""Runs the tasks of a run, in this process or elsewhere."""


@dataclass(frozen=True, slots=True)
class Advance:
    """What an epoch has done for a query: records read, records written to its sink, and rows that
    were no use."""

    query_id: str
    read: int
    written: int
    problems: int


class Carried:
    """One query, and this process's part in the group that shares its tasks."""

    def __init__(self, engine: Engine, query_id: str) -> None:
        self.query_id = query_id
        self._engine = engine
        self._topology = queries.topology_of(engine, query_id, engine.plans[query_id])
        self._changelogs = {sub.changelog for sub in self._topology.subtopologies}
        self._inner = queries.repartitions_of(self._topology)
        self._tasks = frozenset(range(max(s.partitions for s in self._topology.subtopologies)))
        self._member: Member[pa.Table] = engine.log.join(query_id, len(self._tasks))
        self._writer: Writer[pa.Table] | None = None

    def advance(self, runner: Runner) -> Advance | None:
        """Process all that has come since the last time, and commit it; None when nothing has.

        Raises what stops the query; UnavailableError when it may be tried again: nothing has
        happened then, or all of it.
        """
        engine = self._engine
        check_topics(engine.log, engine.topics[self.query_id])
        writer = self._opened()
        splits = since(engine.log, self._topology, engine.log.positions(self.query_id))
        inputs = {at: split for at, split in splits.items() if at[0] not in self._changelogs}
        read = sum(split.end - split.start for split in inputs.values())
        if read == 0:
            return None
        properties = engine.catalog.queries[self.query_id].properties
        produced = list(runner(run_of(engine, self._topology, splits, properties)))
        records = tuple(item for item in produced if isinstance(item, Appended))
        problems = tuple(item for item in produced if isinstance(item, Problem))
        self._commit(writer, records, inputs)
        self._forget(splits, produced)
        if problems:
            engine.processing_log.add(self.query_id, problems)
        sink = self._topology.subtopologies[-1].output
        written = sum(item.count for item in records if item.topic == sink)
        return Advance(self.query_id, read, written, sum(problem.count for problem in problems))

    def close(self) -> None:
        """Leave the group; idempotent."""
        self._give_up()
        self._member.close()

    def _opened(self) -> Writer[pa.Table]:
        """The writer: opening it settles what an earlier process has left open, so positions are
        asked for after that."""
        if self._writer is None:
            self._writer = self._member.writer(self._member.claim().epoch)
        return self._writer

    def _give_up(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _commit(
        self,
        writer: Writer[pa.Table],
        records: tuple[Appended[pa.Table], ...],
        inputs: Mapping[TopicPartition, Split],
    ) -> None:
        positions = {place: split.end for place, split in inputs.items()}
        outcome = writer.transact(self.query_id, records, positions)
        if outcome is not Outcome.COMMITTED:
            self._give_up()
            raise UnavailableError("The outcome of a commit is not known", code="E-TXN")

    def _forget(self, splits: Mapping[TopicPartition, Split], produced: Iterable[Produced]) -> None:
        """Delete consumed records of repartition topics, and changelogs behind snapshots."""
        log = self._engine.log
        for (topic, partition), split in splits.items():
            if topic in self._inner and split.end > split.start:
                log.truncate(topic, partition, split.end)
        for item in produced:
            if isinstance(item, Superseded):
                end = splits[item.topic, item.partition].end
                log.truncate(item.topic, item.partition, end + item.records)
