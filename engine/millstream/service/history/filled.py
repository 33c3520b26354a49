"""What a job has made of the past of a query, and how the query goes on from it.

Why in this order: docs/adr/0016-back-fill.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from millstream.log.identity import check_topics
from millstream.log.log import Appended, Topic, TopicPartition
from millstream.model.errors import ConflictError, UnavailableError
from millstream.model.problem import Problem
from millstream.service import queries
from millstream.service.engine import Engine
from millstream.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class Filled:
    """The records and changelogs of a query up to `positions`.

    `topology`: that of the job, under an id of its own. `topics`: what it has read, as it was.
    `width`: partitions of the sink.
    """

    topology: Topology
    topics: tuple[Topic, ...]
    width: int
    records: tuple[Appended[pa.Table], ...]
    problems: tuple[Problem, ...]
    positions: Mapping[TopicPartition, int]


def check_filled(engine: Engine, query_id: str, filled: Filled) -> None:
    """ConflictError unless the query that is to begin is the one that the job has run."""
    check_topics(engine.log, filled.topics)
    planned = engine.plans[query_id]
    topology = queries.topology_of(engine, filled.topology.query_id, planned)
    width = planned.sink_topic and queries.sink_partitions(engine, planned.sink_topic)
    if topology != filled.topology or width != filled.width:
        raise ConflictError(
            f"What {query_id} reads was defined anew while its past was computed; nothing was made",
            hint="Give the statement again.",
            code="E-BACKFILL-CHANGED",
        )


def begin(engine: Engine, query_id: str, filled: Filled) -> None:
    """Make the result of the job the first commit of a query that is on the command log, and start
    it. Where the commit fails the query computes its past itself."""
    writer = engine.log.writer(query_id)
    with suppress(UnavailableError):
        # Nor does an unknown outcome matter: the query starts from what is committed.
        writer.transact(query_id, tuple(_renamed(engine, query_id, filled)), filled.positions)
    writer.close()
    if filled.problems:
        engine.processing_log.add(query_id, filled.problems)
    queries.start(engine, query_id)


def _renamed(engine: Engine, query_id: str, filled: Filled) -> Iterator[Appended[Any]]:
    """The records, those of the job's changelogs for the query's own."""
    topology = queries.topology_of(engine, query_id, engine.plans[query_id])
    pairs = zip(filled.topology.internal_topics, topology.internal_topics, strict=True)
    names = {theirs.name: ours.name for theirs, ours in pairs}
    for record in filled.records:
        yield replace(record, topic=names.get(record.topic, record.topic))
