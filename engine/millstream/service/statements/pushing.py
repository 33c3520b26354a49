"""Push queries: transient queries of the runtime whose rows go to the stream of a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.schema import SourceKind
from millstream.model.settings import effective
from millstream.plan.build import Planned, plan_query
from millstream.plan.delivery import with_key
from millstream.plan.nodes import Deliver, Project, Write
from millstream.plan.shareable import of_keyed_rows, shared_source
from millstream.plan.sinks import Client
from millstream.runtime.spec import QuerySpec
from millstream.service.changes import key_names
from millstream.service.engine import Engine
from millstream.service.queries import (
    add_query,
    caching,
    commit_interval,
    executors,
    internal_topic,
    repartitions_of,
    start_positions,
    topology_of,
)
from millstream.service.results import Stream
from millstream.service.session import Session
from millstream.service.shared_push import SharedPushQuery
from millstream.service.users import calls_users_functions
from millstream.topology.topology import Topology
from millstream_parser import print_statement
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True)
class PlannedPush:
    """A push query before it runs. `root`: what runs, with the columns of `planned` first.
    `scalable`: it is a scalable push query. `shared`: several clients have the rows of one run."""

    planned: Planned
    root: Deliver
    scalable: bool
    shared: bool


def planned_push(
    query: s.Query, text: str, engine: Engine, properties: Mapping[str, str]
) -> PlannedPush:
    """The plan of a push query with the properties of its session."""
    source = shared_source(query, engine.catalog, engine.functions, properties)
    planned = plan_query(
        query if source is None else of_keyed_rows(query, source),
        engine.catalog,
        target=Client(),
        properties=properties,
        functions=engine.functions,
        script=text,
    )
    assert isinstance(planned.node, Deliver)
    root = with_key(planned.node) if caching(properties) else planned.node
    stream = planned.node.kind is SourceKind.STREAM
    return PlannedPush(planned, root, source is not None, source is not None and stream)


def push_topology(engine: Engine, query_id: str, push: PlannedPush) -> Topology:
    """The sub-topologies of a push query: all of them run here, and nothing of them is kept."""
    planned = replace(push.planned, node=push.root)
    return topology_of(engine, query_id, planned, alone=True).without_changelogs()


def push(query: s.Query, text: str, engine: Engine, session: Session) -> Stream:
    """Start a push query; its rows are waited for by iterating the result."""
    made = planned_push(query, text, engine, session.properties)
    planned = made.planned
    with engine.driver.lock:
        engine.pushes += 1
        number = f"{engine.clock()}{engine.pushes}"
        prefix = "SCALABLE_PUSH_QUERY" if made.scalable else "transient"
        query_id = engine.named(f"{prefix}_{planned.sources[0].name}_{number}")
        schema = planned.node.schema
        stream = Stream(
            query_id,
            schema,
            [column.name for column in schema.columns],
            lambda: None,
            limit=query.limit,
            idle=None if engine.driver.threaded else engine.driver.run_until_idle,
            key=_key(planned.node),
            statement=print_statement(s.SelectStatement(query)),
        )
        if query.limit == 0:
            return stream
        _listen(engine, stream, made, session)
    engine.driver.wake()
    return stream


def _listen(engine: Engine, stream: Stream, made: PlannedPush, session: Session) -> None:
    """Let a stream have the rows of a query that runs already, if it is shared, or of one that is
    started."""
    properties = dict(session.properties)
    engine.pushing[stream.query_id] = stream
    running = engine.tails.values() if made.shared else ()
    tail = next((t for t in running if t.runs(made.root, properties) and t.join(stream)), None)
    if tail is not None:
        stream.on_close = partial(_end, engine, stream, tail)
        return
    query_id = f"{stream.query_id}_tail" if made.shared else stream.query_id
    tail = SharedPushQuery(
        query_id,
        made.root,
        stream.schema,
        properties,
        push_topology(engine, query_id, made),
        engine.settings.push_buffer_bytes,
        made.shared,
        (stream,),
    )
    stream.on_close = partial(_end, engine, stream, tail)
    engine.tails[query_id] = tail
    try:
        _start(engine, tail, session, made.root.kind)
    except MillstreamError:
        _end(engine, stream, tail)
        raise


def _key(node: Write | Deliver) -> tuple[str, ...]:
    """The columns of a table's key; none where the query leaves some of them out."""
    if node.kind is SourceKind.STREAM:
        return ()
    wanted = node.input.input.schema.key if isinstance(node.input, Project) else node.schema.key
    found = key_names(node.schema)
    return found if len(found) >= len(wanted) else ()


def _start(engine: Engine, tail: SharedPushQuery, session: Session, kind: SourceKind) -> None:
    topology, cached = tail.topology, caching(session.properties)
    for internal in topology.internal_topics:
        engine.log.create_topic(internal_topic(internal))
    add_query(
        engine.runtime,
        QuerySpec(
            tail.query_id,
            tail.query_id,
            executors(
                engine, topology, session.properties, cached=cached, delivering=True, held=False
            ),
            repartitions=repartitions_of(topology),
            start=start_positions(engine.log, topology, session.properties),
            transient=True,
            users_functions=calls_users_functions(topology),
            priority=int(effective(session.properties, "ksql.query.priority")),
            commit_interval_ms=commit_interval(session.properties),
            on_outputs=lambda outputs: tail.hand_over(outputs, kind),
            on_error=tail.fail,
        ),
    )


def _end(engine: Engine, stream: Stream, tail: SharedPushQuery) -> None:
    """Called by the stream when it closes, from whatever thread its client uses."""
    with engine.driver.lock:
        engine.pushing.pop(stream.query_id, None)
        if not tail.leave(stream):
            return
        engine.tails.pop(tail.query_id, None)
        if engine.closed:
            return
        try:
            engine.driver.remove(tail.query_id, commit=False)
        except UnavailableError:
            # What it leaves is swept when the database is opened again.
            return
        engine.store.drop_query(tail.query_id)
        for internal in tail.topology.internal_topics:
            engine.log.delete_topic(internal.name)
