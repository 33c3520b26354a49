"""The result of a back-fill job, and the first commit of the query that continues from it.

The order of the steps is explained in docs/adr/0016-back-fill.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa

from millstream.ddl.effects import ReplacedTable
from millstream.ddl.topics import sink_topic
from millstream.history.workspace import Workspace
from millstream.log.identity import check_topics
from millstream.log.log import Appended, Topic, TopicPartition
from millstream.model.errors import ConflictError
from millstream.model.problem import Problem
from millstream.queries import starting
from millstream.queries.registry import QueryRegistry
from millstream.queries.replaced_table import difference
from millstream.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class BackfillResult:
    """The records and changelogs of a query up to `positions`.

    `topology`: the topology of the job, which has its own id. `topics`: the topics that the job
    read, as they were. `partition_count`: the number of partitions of the sink. `replaced`:
    the table that is recomputed.
    """

    topology: Topology
    topics: tuple[Topic, ...]
    partition_count: int
    records: tuple[Appended[pa.Table], ...]
    problems: tuple[Problem, ...]
    positions: Mapping[TopicPartition, int]
    replaced: ReplacedTable | None = None
    letters: tuple[Appended[pa.Table], ...] = ()
    """What goes to the dead letter topic of the query."""

    @property
    def size(self) -> int:
        """The approximate size of the records in bytes."""
        return sum(record.bytes for record in (*self.records, *self.letters))


@dataclass(frozen=True, slots=True)
class FirstCommit:
    """The first records and positions of a query, written in one transaction with its command."""

    query_id: str
    records: tuple[Appended[pa.Table], ...]
    positions: Mapping[TopicPartition, int]


def check_backfill(registry: QueryRegistry, query_id: str, backfill: BackfillResult) -> None:
    """Raise ConflictError unless the query is still the one that the job ran."""
    check_topics(registry.log, backfill.topics)
    planned = registry.plans[query_id]
    topology = starting.topology_of(registry, backfill.topology.query_id, planned)
    partition_count = sink_topic(planned, registry.log, registry.settings).partitions
    if topology != backfill.topology or partition_count != backfill.partition_count:
        raise definition_changed(query_id)


def definition_changed(query_id: str) -> ConflictError:
    """The error if the definition of a query changed while the job ran."""
    return ConflictError(
        f"What {query_id} reads was redefined during the back-fill; nothing was created",
        hint="Run the statement again.",
        code="E-BACKFILL-CHANGED",
    )


def first_commit(registry: QueryRegistry, query_id: str, backfill: BackfillResult) -> FirstCommit:
    """The first commit of a query of the catalog, from the result of the job. The records of the
    job's changelogs go to the changelogs of the query. Of a recomputed table it has only the
    changes to the existing one; the query that writes that table must be stopped."""
    topology = starting.topology_of(registry, query_id, registry.plans[query_id])
    pairs = zip(backfill.topology.internal_topics, topology.internal_topics, strict=True)
    names = {theirs.name: ours.name for theirs, ours in pairs}
    changes = [record for record in backfill.records if record.topic in names]
    rows = [record for record in backfill.records if record.topic not in names]
    if backfill.replaced is not None:
        limit = registry.settings.history_memory_limit
        with closing(Workspace(registry.functions, limit)) as workspace:
            topic = backfill.replaced.topic
            rows = list(difference(registry.log, topic, backfill.partition_count, rows, workspace))
    renamed = (replace(record, topic=names[record.topic]) for record in changes)
    return FirstCommit(query_id, (*rows, *backfill.letters, *renamed), backfill.positions)
