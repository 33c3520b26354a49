"""Push queries: transient queries of the runtime whose rows go to the stream of a client."""

from __future__ import annotations

from functools import partial

from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.schema import SourceKind
from millstream.model.settings import effective
from millstream.plan.build import Planned, plan_query
from millstream.plan.nodes import Deliver, Project, Write
from millstream.plan.shareable import of_keyed_rows, shared_source
from millstream.plan.sinks import Client
from millstream.runtime.spec import QuerySpec
from millstream.service.changes import key_names
from millstream.service.engine import Engine
from millstream.service.queries import (
    add_query,
    internal_topic,
    kernels,
    repartitions_of,
    start_positions,
    topology_of,
)
from millstream.service.results import Stream
from millstream.service.session import Session
from millstream.service.tails import Tail
from millstream.service.users import calls_users_functions
from millstream_parser import statements as s


def push(query: s.Query, text: str, engine: Engine, session: Session) -> Stream:
    """Start a push query; its rows are waited for by iterating the result."""
    source = shared_source(query, engine.catalog, engine.functions, session.properties)
    planned = plan_query(
        query if source is None else of_keyed_rows(query, source),
        engine.catalog,
        target=Client(),
        properties=session.properties,
        functions=engine.functions,
        script=text,
    )
    with engine.driver.lock:
        engine.pushes += 1
        number = f"{engine.clock()}{engine.pushes}"
        prefix = "transient" if source is None else "SCALABLE_PUSH_QUERY"
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
        )
        if query.limit == 0:
            return stream
        shared = source is not None and planned.node.kind is SourceKind.STREAM
        _listen(engine, stream, planned, session, shared=shared)
    engine.driver.wake()
    return stream


def _listen(
    engine: Engine, stream: Stream, planned: Planned, session: Session, *, shared: bool
) -> None:
    """Let a stream have the rows of a query that runs already, if they are `shared`, or of one
    that is started."""
    node, properties = planned.node.input, dict(session.properties)
    engine.pushing[stream.query_id] = stream
    running = engine.shared_tails.values() if shared else ()
    tail = next((t for t in running if t.runs(node, properties) and t.join(stream)), None)
    if tail is not None:
        stream.on_close = partial(_end, engine, stream, tail)
        return
    query_id = f"{stream.query_id}_tail" if shared else stream.query_id
    topology = topology_of(engine, query_id, planned, alone=True).without_changelogs()
    bytes_max = engine.settings.push_buffer_bytes
    tail = Tail(query_id, node, properties, topology, bytes_max, (stream,))
    stream.on_close = partial(_end, engine, stream, tail)
    if shared:
        engine.shared_tails[query_id] = tail
    try:
        _start(engine, tail, session, planned.node.kind)
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


def _start(engine: Engine, tail: Tail, session: Session, kind: SourceKind) -> None:
    topology = tail.topology
    for internal in topology.internal_topics:
        engine.log.create_topic(internal_topic(internal))
    add_query(
        engine,
        QuerySpec(
            tail.query_id,
            tail.query_id,
            kernels(
                engine, topology, session.properties, cached=False, delivering=True, held=False
            ),
            repartitions=repartitions_of(topology),
            start=start_positions(engine, topology, session.properties),
            transient=True,
            users_functions=calls_users_functions(topology),
            priority=int(effective(session.properties, "ksql.query.priority")),
            on_outputs=lambda outputs: tail.hand_over(outputs, kind),
            on_error=tail.fail,
        ),
    )


def _end(engine: Engine, stream: Stream, tail: Tail) -> None:
    """Called by the stream when it closes, from whatever thread its client uses."""
    with engine.driver.lock:
        engine.pushing.pop(stream.query_id, None)
        if not tail.leave(stream):
            return
        engine.shared_tails.pop(tail.query_id, None)
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
