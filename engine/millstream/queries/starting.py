"""Starts persistent queries: turns a plan into executors and adds them to the runtime."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain

import pyarrow as pa

from millstream.catalog.catalog import QueryKind, QueryRecord
from millstream.ddl import topologies, wordings
from millstream.ddl.topics import PlannedTopics, refuse_internal
from millstream.ddl.topologies import partitions_of
from millstream.executor.executor import DuckDBExecutor
from millstream.executor.problems import PROCESSOR
from millstream.executor.sender_labels import SENDER_LABELS
from millstream.executor.source_reader import Sharing
from millstream.functions.function import Catalogue
from millstream.log.batches import TABLES
from millstream.log.identity import check_topics
from millstream.log.log import (
    AS_THE_CLUSTER,
    Log,
    Outcome,
    Participant,
    Topic,
    TopicPartition,
    Writer,
)
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.schema import SourceKind
from millstream.model.settings import DEAD_LETTERS, LOST_RECORDS, effective
from millstream.operators.process import shortest_interval
from millstream.operators.registration import node_expressions
from millstream.operators.udfs import register_expressions
from millstream.plan.build import Planned
from millstream.plan.nodes import holds_results
from millstream.queries.dead_letters import DeadLetters
from millstream.queries.registry import PersistentQuery, QueryRegistry
from millstream.queries.topic_creation import CreatedTopics, create_topics
from millstream.queries.user_functions import (
    calls_users_functions,
    expressions_call_users_functions,
    min_batch_records,
)
from millstream.runtime.grouping import ByBacklog
from millstream.runtime.runtime import Runtime
from millstream.runtime.spec import ExecutorSpec, Guarantee, QuerySpec
from millstream.state.store import Store
from millstream.topology.topology import (
    InternalTopic,
    SourceInput,
    Topology,
    channels_of,
    senders_of,
)

SWITCH_SECONDS = 0.0005
"""The interpreter's switch interval while a query calls users' functions. Queries need the
interpreter briefly but often, and would wait 5 ms each time with the default."""
INPUT_ORDER = "millstream.input.order"
IDLE_WINDOW_CLOSE = "idle.window.close.ms"
_FATAL = (
    ("ksql.fail.on.deserialization.error", "DESERIALIZATION"),
    ("ksql.timestamp.throw.on.invalid", "TIMESTAMP"),
)
"""The settings that make a query stop at a record that it would otherwise skip, and the kinds of
problems that they are about."""


def topology_of(
    registry: QueryRegistry, query_id: str, planned: Planned, *, alone: bool = False
) -> Topology:
    """The sub-topologies of a plan over the topics that exist now. See `ddl/topologies.py`."""
    created = registry.topics.get(query_id, ())
    return topologies.topology_of(query_id, planned, registry.environment, created, alone=alone)


def start_new(
    registry: QueryRegistry, topologies: Sequence[Topology], writer: Writer[pa.Table]
) -> None:
    """Add new persistent queries to the runtime. Their start positions are committed first, in one
    transaction of the `writer` of the command topic. A query that materialises a SOURCE TABLE has
    none: it is always read from its first record."""
    records = [registry.catalog.queries[topology.query_id] for topology in topologies]
    pairs = list(zip(records, topologies, strict=True))
    positions = start_positions(
        registry.log,
        {
            record.id: (topology, record.properties)
            for record, topology in pairs
            if record.kind is not QueryKind.SOURCE_TABLE
        },
    )
    _commit_start_positions(registry, positions, writer)
    for record, topology in pairs:
        _run(registry, record, topology)


def create_all(
    registry: QueryRegistry,
    topologies: Sequence[Topology],
    topics: Sequence[Topic],
    planned: PlannedTopics,
) -> CreatedTopics:
    """Create all topics of new queries in one request, with the `topics` of users that their
    statements create. Note them in the catalog snapshot, and the existing ones as they were when
    the statements were planned. If one of them cannot be created, the caller deletes the others."""
    internal = [internal_topic(item) for each in topologies for item in each.internal_topics]
    created = create_topics(
        registry.log,
        (*topics, *internal),
        shared=registry.shared,
        # They belong to an earlier query of the same id, and may still be deleted as orphans.
        stale={topic.name for topic in internal},
    )
    for topology in topologies if created.error is None else ():
        names = topic_names(topology)
        known = planned.existing(names - created.topics.keys()) | dict(created.topics)
        noted = tuple(known[name] for name in sorted(names & known.keys()))
        registry.definitions = registry.definitions.with_topics({topology.query_id: noted})
    return created


def delete_topics(registry: QueryRegistry, names: Iterable[str]) -> None:
    """Delete topics of users that a failed statement has created, unless other instances share the
    log: one of them may already use such a topic."""
    for name in () if registry.shared else names:
        registry.log.delete_topic(name)


def start(registry: QueryRegistry, query_id: str) -> None:
    """Add a persistent query of the catalog to the runtime."""
    topology = make_topics(registry, query_id)
    _run(registry, registry.catalog.queries[query_id], topology)


def _run(registry: QueryRegistry, record: QueryRecord, topology: Topology) -> None:
    query_id = record.id
    cached = caching(record.properties)
    exactly = effective(record.properties, "processing.guarantee") != "at_least_once"
    specs = executors(
        registry, topology, record.properties, cached=cached, delivering=False, held=exactly
    )
    if registry.restoring is not None:
        registry.restoring.add_query(registry.store, topology, registry.functions)
    add_query(
        registry.runtime,
        QuerySpec(
            query_id,
            query_id,
            specs,
            guarantee=Guarantee.EXACTLY_ONCE if exactly else Guarantee.AT_LEAST_ONCE,
            repartitions=repartitions_of(topology),
            streams=streams_of(topology),
            topics=registry.topics[query_id],
            users_functions=calls_users_functions(topology),
            measures_calls=not expressions_call_users_functions(topology),
            min_batch_records=min_batch_records(topology),
            priority=int(effective(record.properties, "ksql.query.priority")),
            commit_interval_ms=commit_interval(record.properties),
            skips_lost=effective(record.properties, LOST_RECORDS) == "continue",
            max_task_idle_ms=int(effective(record.properties, "max.task.idle.ms")),
            idle_window_close_ms=idle_window_close(record.properties),
            dead_letters=dead_letters_of(registry, record.properties).letters,
            batches=TABLES,
        ),
    )
    paused = query_id in registry.paused
    if paused:
        registry.runtime.pause(query_id)
    registry.queries[query_id] = PersistentQuery(registry.plans[query_id], paused)


def dead_letters_of(registry: QueryRegistry, properties: Mapping[str, str]) -> DeadLetters:
    """The dead letters of a query with these properties."""
    return DeadLetters(registry.log, effective(properties, DEAD_LETTERS))


def make_topics(registry: QueryRegistry, query_id: str) -> Topology:
    """Create the internal topics of a query that are missing, and note all of its topics in the
    catalog snapshot."""
    check_topics(registry.log, registry.topics.get(query_id, ()))
    topology = topology_of(registry, query_id, registry.plans[query_id])
    internal = {item.name: internal_topic(item) for item in topology.internal_topics}
    found = registry.log.describe(internal.keys())
    missing = [topic for name, topic in internal.items() if name not in found]
    created = create_topics(registry.log, missing, shared=registry.shared)
    if created.error is not None:
        raise created.error
    topics = {query_id: topics_of(registry.log, topology)}
    registry.definitions = registry.definitions.with_topics(topics)
    return topology


def topic_names(topology: Topology) -> frozenset[str]:
    """The topics that a query reads or writes, including its internal ones."""
    names = {item.name for item in topology.internal_topics}
    for sub in topology.subtopologies:
        names |= {item.topic for item in sub.inputs} | ({sub.output} if sub.output else set())
    return frozenset(names)


def topics_of(log: Log[pa.Table], topology: Topology) -> tuple[Topic, ...]:
    """All existing topics that a query reads or writes, as they are now."""
    found = log.describe(topic_names(topology))
    return tuple(found[name] for name in sorted(found))


def executors(
    registry: QueryRegistry,
    topology: Topology,
    properties: Mapping[str, str],
    *,
    cached: bool,
    delivering: bool,
    held: bool,
) -> tuple[ExecutorSpec[pa.Table], ...]:
    """An executor for each sub-topology, with the settings of the query's session."""
    internal = {item.name: item for item in topology.internal_topics}
    noted = {topic.name: topic for topic in registry.topics.get(topology.query_id, ())}
    fatal = fatal_problems(properties)
    by_arrival = takes_by_arrival(registry.log, topology, properties)
    sources = {item.topic for sub in topology.subtopologies for item in sub.inputs}
    # Push queries have no topics noted.
    unknown = sources - noted.keys() - internal.keys()
    read = noted | dict(registry.log.describe(unknown) if unknown else {})
    sharing = Sharing(registry.decoded, {topic.name: topic.id for topic in read.values()})
    # Functions of users may hold the interpreter, and need not be called by several threads.
    grouping = None if calls_users_functions(topology) else ByBacklog()
    specs: list[ExecutorSpec[pa.Table]] = []
    register_plan(registry.store, registry.functions, topology)
    with ExitStack() as opened:
        for sub in topology.subtopologies:
            out = sub.output
            partition_count = 1
            if out in internal:
                partition_count = internal[out].tasks
            elif out in noted:
                partition_count = noted[out].partitions
            elif out is not None:
                partition_count = partitions_of(out, registry.log)
            executor = DuckDBExecutor(
                registry.store,
                topology.query_id,
                sub,
                registry.functions,
                output_partitions=partition_count,
                output_channels=internal[out].channels if out in internal else 0,
                labelled=out in internal and internal[out].senders > 0,
                cached=cached,
                delivering=delivering,
                fatal=fatal,
                by_arrival=by_arrival,
                held=held,
                sharing=sharing,
                workers=registry.driver.workers,
                topic_partitions=partial(_width_of_sent, registry),
                grouping=grouping,
                schemas=None if registry.schemas is None else registry.schemas.prompt(),
            )
            opened.callback(executor.close)
            inputs = tuple(item.topic for item in sub.inputs)
            specs.append(
                ExecutorSpec(
                    executor,
                    inputs,
                    sub.partitions,
                    sub.changelog,
                    () if out is None else (out,),
                    channels_of(sub),
                    holds_results(sub.root),
                    senders_of(sub),
                    SENDER_LABELS,
                    executor if executor.interval_ms else None,
                )
            )
        opened.pop_all()
    return tuple(specs)


def _width_of_sent(registry: QueryRegistry, topic: str) -> int:
    """The number of partitions of a topic to which a processor sends. Raises StatementError for one
    that does not exist, or is internal."""
    refuse_internal(registry.settings, topic, "send to")
    return partitions_of(topic, registry.log)


def takes_by_arrival(log: Log[pa.Table], topology: Topology, properties: Mapping[str, str]) -> bool:
    """Whether a query processes its records in order of arrival. Raises StatementError if it should
    and one of its topics does not number the arrivals."""
    if effective(properties, INPUT_ORDER) != "arrival":
        return False
    if idle_window_close(properties):
        raise wordings.IDLE_WINDOWS_BY_ARRIVAL(
            hint=f"SET '{INPUT_ORDER}' = 'time', or UNSET '{IDLE_WINDOW_CLOSE}'."
        )
    if any(shortest_interval(sub.root) for sub in topology.subtopologies):
        raise wordings.WALL_CLOCK_BY_ARRIVAL(hint=f"SET '{INPUT_ORDER}' = 'time'.")
    for sub in topology.subtopologies:
        for item in sub.inputs:
            topic = log.topic(item.topic) if isinstance(item, SourceInput) else None
            if topic is not None and not topic.numbered:
                raise wordings.NO_ORDER_OF_ARRIVAL(
                    topic=topic.name,
                    hint=f"SET '{INPUT_ORDER}' = 'time'. Topics on Kafka, and those that version"
                    " 0.1 created, have no arrival numbers.",
                )
    return True


def fatal_problems(properties: Mapping[str, str]) -> frozenset[str]:
    """The kinds of input problems at which a query of the session stops."""
    kinds = {kind for name, kind in _FATAL if effective(properties, name) == "true"}
    if effective(properties, "processing.exception.handler") == "fail":
        kinds.add(PROCESSOR)
    return frozenset(kinds)


def caching(properties: Mapping[str, str]) -> bool:
    """Whether intermediate revisions of a key may be dropped between commits."""
    return int(effective(properties, "cache.max.bytes.buffering")) > 0


def commit_interval(properties: Mapping[str, str]) -> int | None:
    """The commit interval of the session in ms; None for the one of the engine's settings."""
    interval = properties.get("commit.interval.ms")
    return None if interval is None else int(interval)


def idle_window_close(properties: Mapping[str, str]) -> int:
    """How long a query of the session has to be idle for its windows to close; 0: they never do."""
    idle = effective(properties, IDLE_WINDOW_CLOSE)
    return 0 if idle == "never" else int(idle)


def add_query(runtime: Runtime[pa.Table], spec: QuerySpec[pa.Table]) -> None:
    """Add a query to the runtime; if the runtime refuses it, close its executors."""
    if spec.users_functions:
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
    try:
        runtime.add_query(spec)
    except MillstreamError:
        for item in spec.executors:
            item.executor.close()
        raise


def register_plan(store: Store, functions: Catalogue, topology: Topology) -> None:
    """Register the Python functions of a query's expressions with DuckDB."""
    cursor = store.cursor()
    try:
        for sub in topology.subtopologies:
            register_expressions(cursor, node_expressions(sub.root), functions, store.functions)
    finally:
        cursor.close()


def repartitions_of(topology: Topology) -> frozenset[str]:
    """The names of a query's repartition topics."""
    return frozenset(item.name for item in topology.internal_topics if item.kind == "repartition")


def streams_of(topology: Topology) -> frozenset[str]:
    """The topics on which a query writes rows of streams."""
    return frozenset(
        sub.output
        for sub in topology.subtopologies
        if sub.output is not None and sub.root.kind is SourceKind.STREAM
    )


def internal_topic(internal: InternalTopic) -> Topic:
    """The topic to create for a repartition or a changelog. Its retention is unlimited, because the
    engine itself truncates records that are consumed or replaced by a snapshot."""
    config = {"cleanup.policy": "delete", "retention.ms": "-1"}
    return Topic(internal.name, internal.partitions, AS_THE_CLUSTER, config)


def start_positions(
    log: Log[pa.Table], queries: Mapping[str, tuple[Topology, Mapping[str, str]]]
) -> dict[str, dict[TopicPartition, int]]:
    """The start positions of queries with these topologies and settings: tables at their first
    record, streams by `auto.offset.reset`."""
    at_start: dict[str, list[TopicPartition]] = {}
    at_end: dict[str, list[TopicPartition]] = {}
    for query_id, (topology, properties) in queries.items():
        latest = effective(properties, "auto.offset.reset") == "latest"
        at_start[query_id], at_end[query_id] = [], []
        for sub in topology.subtopologies:
            for item in sub.inputs:
                if isinstance(item, SourceInput):
                    stream = item.read.kind is SourceKind.STREAM
                    (at_end if latest and stream else at_start)[query_id].extend(
                        (item.topic, partition) for partition in range(sub.partitions)
                    )
    # One request for all of them; those whose brokers did not respond in time are left out.
    wanted = list(dict.fromkeys(chain.from_iterable(at_end.values())))
    ends = dict(log.end_offsets(wanted)) if wanted else {}
    ends |= {at: log.end_offset(*at) for at in wanted if at not in ends}
    first = dict.fromkeys(chain.from_iterable(at_start.values()))
    starts = {at: log.start_offset(*at) for at in first}
    return {
        query_id: {at: ends[at] for at in at_end[query_id]}
        | {at: starts[at] for at in at_start[query_id]}
        for query_id in queries
    }


def _commit_start_positions(
    registry: QueryRegistry,
    positions: Mapping[str, Mapping[TopicPartition, int]],
    writer: Writer[pa.Table],
) -> None:
    """Commit the start positions of queries. Otherwise a query that starts at the end of its source
    would start at a later end after a crash.

    On a shared log, the writer of the command topic does it, in one transaction: another instance
    that starts a query of the same id has fenced it, and if this fails, the next lease opens
    another writer, which aborts the transaction. On a log of one process that writer is never
    opened again.
    """
    with ExitStack() as opened:
        participants: list[Participant[pa.Table]] = []
        for query_id, at in positions.items():
            own = None if registry.shared else registry.log.writer(query_id)
            if own is not None:
                opened.callback(own.close)
            participants.append(Participant(own or writer, query_id, (), at))
        results = registry.log.transact_all(participants)
    for query_id, result in zip(positions, results, strict=True):
        if isinstance(result, Exception):
            raise result
        if result is not Outcome.COMMITTED:
            raise UnavailableError(
                f"The start positions of {query_id} could not be written: the outcome of the"
                f" transaction is {result.value}",
                hint="Repeat the statement.",
            )
