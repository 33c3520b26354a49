"""What a job has made of the past of a query, and how the query goes on from it.

Why in this order: docs/adr/0016-back-fill.md.
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
from millstream.service import queries
from millstream.service.command_topic.commands import FirstCommit
from millstream.service.engine import Engine
from millstream.service.history.replaced_table import difference
from millstream.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class BackfillResult:
    """The records and changelogs of a query up to `positions`.

    `topology`: that of the job, under an id of its own. `topics`: what it has read, as it was.
    `width`: partitions of the sink. `replaced`: the table that is made anew.
    """

    topology: Topology
    topics: tuple[Topic, ...]
    width: int
    records: tuple[Appended[pa.Table], ...]
    problems: tuple[Problem, ...]
    positions: Mapping[TopicPartition, int]
    replaced: ReplacedTable | None = None

    @property
    def size(self) -> int:
        """Bytes of the records, about."""
        return sum(record.bytes for record in self.records)


def check_filled(engine: Engine, query_id: str, filled: BackfillResult) -> None:
    """ConflictError unless the query that is to begin is the one that the job has run."""
    check_topics(engine.log, filled.topics)
    planned = engine.plans[query_id]
    topology = queries.topology_of(engine, filled.topology.query_id, planned)
    width = sink_topic(planned, engine.log).partitions
    if topology != filled.topology or width != filled.width:
        raise changed(query_id)


def changed(query_id: str) -> ConflictError:
    """What a job has made is not for the query that would begin with it."""
    return ConflictError(
        f"What {query_id} reads was defined anew while its past was computed; nothing was made",
        hint="Give the statement again.",
        code="E-BACKFILL-CHANGED",
    )


def first_commit(engine: Engine, query_id: str, filled: BackfillResult) -> FirstCommit:
    """The result of the job as that of a query of the catalog, whose changelogs have names of
    their own. Of a table that is made anew, only what differs; who made it must stand still."""
    topology = queries.topology_of(engine, query_id, engine.plans[query_id])
    pairs = zip(filled.topology.internal_topics, topology.internal_topics, strict=True)
    names = {theirs.name: ours.name for theirs, ours in pairs}
    changes = [record for record in filled.records if record.topic in names]
    rows = [record for record in filled.records if record.topic not in names]
    if filled.replaced is not None:
        limit = engine.settings.history_memory_limit
        with closing(Workspace(engine.functions, limit)) as workspace:
            topic = filled.replaced.topic
            rows = list(difference(engine.log, topic, filled.width, rows, workspace))
    renamed = (replace(record, topic=names[record.topic]) for record in changes)
    return FirstCommit(query_id, (*rows, *renamed), filled.positions)
