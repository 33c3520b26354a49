"""Push queries: transient queries of the runtime whose rows go to the stream of a client."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from millstream.log.log import Appended
from millstream.model.batch import DIFF, HEADERS, PART, ROWTIME, SEQ
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.schema import Role, SourceKind
from millstream.model.settings import effective
from millstream.plan.build import plan_query
from millstream.plan.nodes import Deliver, Project, Write
from millstream.plan.shareable import of_keyed_rows, shared_source
from millstream.plan.sinks import Client
from millstream.runtime.spec import QuerySpec
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
from millstream.service.users import calls_users_functions
from millstream.topology.topology import Topology
from millstream_parser import statements as s

BUFFER_BATCHES_MAX = 1024
_BOUNDS = ("WINDOWSTART", "WINDOWEND")
_BOOKKEEPING = {PART, SEQ, ROWTIME, HEADERS}


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
        topology = topology_of(engine, query_id, planned).without_changelogs()
        schema = planned.node.schema
        stream = Stream(
            query_id,
            schema,
            [column.name for column in schema.columns],
            lambda: _end(engine, query_id, topology),
            limit=query.limit,
            idle=None if engine.driver.threaded else engine.driver.run_until_idle,
            key=_key(planned.node),
        )
        if query.limit == 0:
            return stream
        engine.pushing[query_id] = stream
        try:
            _start(engine, stream, topology, session, planned.node.kind)
        except MillstreamError:
            _end(engine, query_id, topology)
            raise
    engine.driver.wake()
    return stream


def _key(node: Write | Deliver) -> tuple[str, ...]:
    """The columns of a table's key; none where the query leaves some of them out."""
    if node.kind is SourceKind.STREAM:
        return ()
    wanted = node.input.input.schema.key if isinstance(node.input, Project) else node.schema.key
    found = [c.name for c in node.schema.columns if c.role is Role.KEY or c.name in _BOUNDS]
    return tuple(found) if len(found) >= len(wanted) else ()


def _start(
    engine: Engine, stream: Stream, topology: Topology, session: Session, kind: SourceKind
) -> None:
    bytes_max = engine.settings.push_buffer_bytes
    for internal in topology.internal_topics:
        engine.log.create_topic(internal_topic(internal))
    add_query(
        engine,
        QuerySpec(
            stream.query_id,
            stream.query_id,
            kernels(engine, topology, session.properties, cached=False, delivering=True),
            repartitions=repartitions_of(topology),
            start=start_positions(engine, topology, session.properties),
            transient=True,
            users_functions=calls_users_functions(topology),
            priority=int(effective(session.properties, "ksql.query.priority")),
            on_outputs=lambda outputs: _hand_over(stream, outputs, kind, bytes_max),
            on_error=lambda error: _fail(stream, error),
        ),
    )


def _hand_over(
    stream: Stream, outputs: Sequence[Appended[pa.Table]], kind: SourceKind, bytes_max: int
) -> None:
    """Put rows into the client's buffer. What this raises stops the query, and so reaches the
    client behind the rows that are in the buffer."""
    for output in outputs:
        if stream.closed or output.count == 0:
            continue
        kept = _for_client(output.batch, stream.columns, kind)
        full = stream.buffered_bytes + kept.nbytes > bytes_max and not stream.buffer.empty()
        if full or stream.buffer.qsize() >= BUFFER_BATCHES_MAX:
            raise UnavailableError(
                f"push query {stream.query_id} was ended: its client reads too slowly",
                hint="Read faster, or add a LIMIT or a filter.",
                code="E-SLOW-CONSUMER",
            )
        stream.put(kept)


def _for_client(rows: pa.Table, columns: Sequence[str], kind: SourceKind) -> pa.Table:
    """The columns of the query under their names, and `$diff` where there are deletions. Records
    of a stream that have no value are no rows."""
    kept = rows.select([name for name in rows.column_names if name not in _BOOKKEEPING])
    change = kept[DIFF]
    kept = kept.drop_columns([DIFF]).rename_columns(list(columns))
    if pc.min(change).as_py() == 1:
        return kept
    if kind is SourceKind.STREAM:
        return kept.filter(pc.equal(change, 1))
    return kept.append_column(DIFF, change)


def _fail(stream: Stream, error: Exception) -> None:
    stream.fail(
        error
        if isinstance(error, MillstreamError)
        else MillstreamError(f"push query {stream.query_id} failed", detail=str(error))
    )


def _end(engine: Engine, query_id: str, topology: Topology) -> None:
    """Called by the stream when it closes, from whatever thread its client uses."""
    with engine.driver.lock:
        engine.pushing.pop(query_id, None)
        if engine.closed:
            return
        try:
            engine.driver.remove(query_id, commit=False)
        except UnavailableError:
            # What it leaves is swept when the database is opened again.
            return
        engine.store.drop_query(query_id)
        for internal in topology.internal_topics:
            engine.log.delete_topic(internal.name)
