"""Executes push queries: transient queries of the runtime whose rows go to a client's stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from millstream.log.batches import TABLES
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.schema import SourceKind
from millstream.model.settings import effective
from millstream.plan.build import Planned, plan_query
from millstream.plan.delivery import with_key
from millstream.plan.nodes import Deliver, Project, Write
from millstream.plan.shareable import of_keyed_rows, shared_source
from millstream.plan.sinks import Client
from millstream.push.push_queries import PushQueries
from millstream.push.shared_push import SharedPushQuery
from millstream.queries.registry import QueryRegistry
from millstream.queries.starting import (
    add_query,
    caching,
    commit_interval,
    executors,
    idle_window_close,
    internal_topic,
    repartitions_of,
    start_positions,
    topology_of,
)
from millstream.queries.topic_creation import create_topics
from millstream.queries.user_functions import (
    calls_users_functions,
    expressions_call_users_functions,
    min_batch_records,
)
from millstream.query.changes import key_names
from millstream.query.results import Stream
from millstream.query.session import Session
from millstream.runtime.spec import QuerySpec
from millstream.topology.topology import Topology
from millstream_parser import print_statement
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True)
class PlannedPush:
    """A push query before it runs. `root`: the plan that runs; its columns begin with those of
    `planned`. `scalable`: whether it is a scalable push query. `shared`: whether several clients
    read the rows of one running query."""

    planned: Planned
    root: Deliver
    scalable: bool
    shared: bool


def planned_push(
    query: s.Query, text: str, registry: QueryRegistry, properties: Mapping[str, str]
) -> PlannedPush:
    """The plan of a push query, by the properties of its session."""
    source = shared_source(query, registry.catalog, registry.functions, properties)
    planned = plan_query(
        query if source is None else of_keyed_rows(query, source),
        registry.catalog,
        target=Client(),
        properties=properties,
        functions=registry.functions,
        script=text,
    )
    assert isinstance(planned.node, Deliver)
    root = with_key(planned.node) if caching(properties) else planned.node
    stream = planned.node.kind is SourceKind.STREAM
    return PlannedPush(planned, root, source is not None, source is not None and stream)


def push_topology(registry: QueryRegistry, query_id: str, push: PlannedPush) -> Topology:
    """The sub-topologies of a push query. All tasks run in this process, without changelogs."""
    planned = replace(push.planned, node=push.root)
    return topology_of(registry, query_id, planned, alone=True).without_changelogs()


def push(query: s.Query, text: str, push_queries: PushQueries, session: Session) -> Stream:
    """Start a push query. Iterating the result waits for its rows."""
    plan = planned_push(query, text, push_queries.registry, session.properties)
    planned, cluster = plan.planned, push_queries.cluster
    driver = cluster.registry.driver
    with driver.lock:
        push_queries.count += 1
        number = f"{cluster.clock()}{push_queries.count}"
        prefix = "SCALABLE_PUSH_QUERY" if plan.scalable else "transient"
        query_id = cluster.unique_name(f"{prefix}_{planned.sources[0].name}_{number}")
        schema = planned.node.schema
        stream = Stream(
            query_id,
            schema,
            [column.name for column in schema.columns],
            lambda: None,
            limit=query.limit,
            idle=None if driver.threaded else driver.run_until_idle,
            key=_key_columns(planned.node),
            statement=print_statement(s.SelectStatement(query)),
        )
        if query.limit == 0:
            return stream
        _attach(push_queries, stream, plan, session)
    driver.wake()
    return stream


def _attach(push_queries: PushQueries, stream: Stream, plan: PlannedPush, session: Session) -> None:
    """Attach a client's stream to a running query if it can be shared; otherwise start a query for
    it."""
    properties, registry = dict(session.properties), push_queries.registry
    push_queries.streams[stream.query_id] = stream
    running = push_queries.running.values() if plan.shared else ()
    push_query = next(
        (t for t in running if t.runs(plan.root, properties) and t.join(stream)), None
    )
    if push_query is not None:
        stream.on_close = partial(_detach, push_queries, stream, push_query)
        return
    query_id = f"{stream.query_id}_tail" if plan.shared else stream.query_id
    push_query = SharedPushQuery(
        query_id,
        plan.root,
        stream.schema,
        properties,
        push_topology(registry, query_id, plan),
        registry.settings.push_buffer_bytes,
        plan.shared,
        (stream,),
    )
    stream.on_close = partial(_detach, push_queries, stream, push_query)
    push_queries.running[query_id] = push_query
    try:
        _start(registry, push_query, session, plan.root.kind)
    except MillstreamError:
        _detach(push_queries, stream, push_query)
        raise


def _key_columns(node: Write | Deliver) -> tuple[str, ...]:
    """The key columns of a table; none if the query does not select all of them."""
    if node.kind is SourceKind.STREAM:
        return ()
    key = node.input.input.schema.key if isinstance(node.input, Project) else node.schema.key
    selected = key_names(node.schema)
    return selected if len(selected) >= len(key) else ()


def _start(
    registry: QueryRegistry, push_query: SharedPushQuery, session: Session, kind: SourceKind
) -> None:
    topology, cached = push_query.topology, caching(session.properties)
    internal = [internal_topic(item) for item in topology.internal_topics]
    created = create_topics(registry.log, internal, shared=False)
    if created.error is not None:
        raise created.error
    add_query(
        registry.runtime,
        QuerySpec(
            push_query.query_id,
            push_query.query_id,
            executors(
                registry,
                topology,
                session.properties,
                cached=cached,
                delivering=True,
                held=False,
            ),
            repartitions=repartitions_of(topology),
            start=start_positions(
                registry.log, {topology.query_id: (topology, session.properties)}
            )[topology.query_id],
            transient=True,
            users_functions=calls_users_functions(topology),
            measures_calls=not expressions_call_users_functions(topology),
            min_batch_records=min_batch_records(topology),
            priority=int(effective(session.properties, "ksql.query.priority")),
            commit_interval_ms=commit_interval(session.properties),
            max_task_idle_ms=int(effective(session.properties, "max.task.idle.ms")),
            idle_window_close_ms=idle_window_close(session.properties),
            batches=TABLES,
            on_outputs=lambda outputs: push_query.hand_over(outputs, kind),
            on_error=push_query.fail,
        ),
    )


def _detach(push_queries: PushQueries, stream: Stream, push_query: SharedPushQuery) -> None:
    """Detach a client's stream, and end the query with its last one. The stream calls this when it
    closes, in any thread."""
    registry = push_queries.registry
    with registry.driver.lock:
        push_queries.streams.pop(stream.query_id, None)
        if not push_query.leave(stream):
            return
        push_queries.running.pop(push_query.query_id, None)
        if push_queries.closed:
            return
        try:
            registry.driver.remove(push_query.query_id, commit=False)
        except UnavailableError:
            # Its state and topics are deleted when the database is opened the next time.
            return
        registry.store.drop_query(push_query.query_id)
        for internal in push_query.topology.internal_topics:
            registry.log.delete_topic(internal.name)
