"""Pull queries: which relation a name stands for, and running the query over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import duckdb
import pyarrow as pa

from millstream.catalog.source import Source
from millstream.formats.codec import DecodeSpec, decode
from millstream.model.batch import PART, RAW_SCHEMA
from millstream.model.errors import StatementError, UnavailableError
from millstream.model.expressions import Expression
from millstream.model.physical import physical_names
from millstream.model.schema import Role, SourceKind
from millstream.operators.sql import identifier
from millstream.operators.udfs import register_expressions
from millstream.query.access import SEE_QUERIES, Allowed, check_access
from millstream.query.extended import UNREADABLE, extended_sql
from millstream.query.pull import Pull, plan_pull
from millstream.service.bounded import bounded, check_size
from millstream.service.engine import Engine
from millstream.service.failures import reason
from millstream.service.instances.gathering import Gathering, pull_schema
from millstream.service.results import Rows
from millstream.service.session import Bounds, Session
from millstream.service.text import Piece, parse_text
from millstream_parser import statements as s

READ_MAX = 100_000
TIMEOUT = "millstream.query.pull.timeout.ms"
EXTENDED = "millstream.query.pull.extended.enabled"
LIMITS = "ksql.query.pull.limit.clause.enabled"
SCANS = "ksql.query.pull.table.scan.enabled"
RANGES = "ksql.query.pull.range.scan.enabled"
_EXTENDED = ("JOIN", "GROUP BY", "HAVING")
_PUSH_INSTEAD = "Add EMIT CHANGES if you intended to issue a push query."
CATCH_UP_MS_MAX = 1_000
"""How long a pull query waits for the tables to reflect what its own session inserted."""


def pull(statement: s.SelectStatement, piece: Piece, engine: Engine, session: Session) -> Rows:
    """Answer from what is committed now."""
    if session.inserted:
        engine.driver.catch_up(CATCH_UP_MS_MAX)
        session.inserted = False
    query = statement.query
    if query is None:
        return _beyond(piece, engine, session)
    unsupported = beyond_pull(query)
    if unsupported in _EXTENDED and session.flag(EXTENDED):
        return _extended(piece.text, engine, session)
    if unsupported is not None:
        raise StatementError(
            f"Pull queries don't support {unsupported} clauses. {SEE_QUERIES}", hint=_PUSH_INSTEAD
        )
    if query.limit is not None and not session.flag(LIMITS):
        raise StatementError(
            "LIMIT clause in pull queries is currently disabled. You can enable them by setting"
            f" {LIMITS}=true. {SEE_QUERIES}",
            hint=_PUSH_INSTEAD,
        )
    source = engine.catalog.source(query.source.name)
    plan = planned_pull(query, source, engine, piece.script)
    if source.kind is SourceKind.TABLE:
        allowed = Allowed(session.flag(SCANS), session.flag(RANGES))
        windowed = source.window is not None
        check_access(query.where, source.schema.key, windowed=windowed, allowed=allowed)
    cursor = engine.store.cursor()
    try:
        with _within(cursor, session.bounds.milliseconds):
            table = _over(source, plan, cursor, engine, session)
    except duckdb.Error as error:
        raise StatementError(
            f"The pull query on {source.name} failed.", detail=reason(error)
        ) from error
    finally:
        cursor.close()
    return Rows(table.rename_columns(list(plan.schema.names)), schema=plan.schema)


def _steady(plan: Pull, source: Source, engine: Engine) -> Pull:
    """With LIMIT and without ORDER BY: the first rows by partition and key, each time the same."""
    if plan.limit is None or plan.order:
        return plan
    schema = pull_schema(source)
    names = physical_names(schema.names)
    keys = [n for n, c in zip(names, schema.columns, strict=True) if c.role is Role.KEY]
    # Rows that come from other instances do not tell their partitions.
    first = [PART] if engine.routing is None else []
    return replace(plan, order=f" ORDER BY {', '.join(map(identifier, [*first, *keys]))}")


def planned_pull(query: s.Query, source: Source, engine: Engine, script: str) -> Pull:
    """The plan of a pull query on a stream or table."""
    alias = query.source.alias or source.name
    types = dict(engine.catalog.types)
    return plan_pull(query, pull_schema(source), alias, engine.functions, types, script)


def beyond_pull(query: s.Query) -> str | None:
    """A clause that no pull query of the dialect has."""
    clauses = {
        "WINDOW": query.window is not None,
        "PARTITION BY": bool(query.partition_by),
        "JOIN": bool(query.joins),
        "GROUP BY": bool(query.group_by),
        "HAVING": query.having is not None,
    }
    return next((name for name, given in clauses.items() if given), None)


def _over(
    source: Source,
    plan: Pull,
    cursor: duckdb.DuckDBPyConnection,
    engine: Engine,
    session: Session,
) -> pa.Table:
    if source.kind is SourceKind.STREAM and not session.flag("ksql.query.pull.stream.enabled"):
        raise StatementError("Pull queries on streams are disabled.")
    prepare(cursor, plan.expressions, engine)
    if source.kind is SourceKind.STREAM:
        return _over_stream(source, plan, cursor, engine, session.bounds)
    plan = _steady(plan, source, engine)
    gathering = Gathering(engine, session, cursor)
    return gathering.answered(lambda: plan.sql(f"({gathering.rows(source, plan.conditions)})"))


@contextmanager
def _within(cursor: duckdb.DuckDBPyConnection, limit_ms: int | None) -> Iterator[None]:
    """End what `cursor` runs after so many ms with UnavailableError (E-TIMEOUT)."""
    if limit_ms is None:
        yield
        return
    try:
        with bounded(cursor, limit_ms):
            yield
    except duckdb.InterruptException as error:
        raise UnavailableError(
            f"The pull query was ended: it took longer than {limit_ms} ms.",
            hint=f"Ask for less; where the server allows more, SET '{TIMEOUT}'.",
            code="E-TIMEOUT",
        ) from error


def prepare(
    cursor: duckdb.DuckDBPyConnection, expressions: Sequence[Expression], engine: Engine
) -> None:
    """Make the Python functions that expressions call known to the connection."""
    register_expressions(cursor, expressions, engine.functions, engine.store.functions)


def _over_stream(
    source: Source,
    plan: Pull,
    cursor: duckdb.DuckDBPyConnection,
    engine: Engine,
    bounds: Bounds,
) -> pa.Table:
    """Read the topic to its present end, piece by piece; stops early at the LIMIT."""
    pieces, rows, size = [], 0, 0
    for decoded in _decoded(source, cursor, engine):
        if plan.order:
            pieces.append(decoded)
            rows, size = rows + decoded.num_rows, size + decoded.nbytes
            check_size(rows, size, bounds)
            continue
        cursor.register("$piece", decoded)
        found = cursor.sql(plan.sql('"$piece"', paged=False)).to_arrow_table()
        pieces.append(found)
        rows, size = rows + found.num_rows, size + found.nbytes
        check_size(rows if plan.limit is None else min(rows, plan.limit), size, bounds)
        if plan.limit is not None and rows >= plan.limit:
            break
    if not pieces:
        pieces = [_empty(source, cursor)]
        cursor.register("$piece", pieces[0])
        return cursor.sql(plan.sql('"$piece"')).to_arrow_table()
    whole = pa.concat_tables(pieces, promote_options="default")
    if not plan.order:
        return whole if plan.limit is None else whole.slice(0, plan.limit)
    cursor.register("$piece", whole)
    return cursor.sql(plan.sql('"$piece"')).to_arrow_table()


def decoding(source: Source) -> DecodeSpec:
    """How to read a whole record of a source."""
    schema = pull_schema(source)
    columns = tuple(zip(physical_names(schema.names), schema.names, strict=True))
    return DecodeSpec(
        source.key_format,
        source.value_format,
        source.schema,
        columns,
        source.window,
        source.timestamp,
    )


def _decoded(
    source: Source, cursor: duckdb.DuckDBPyConnection, engine: Engine
) -> Iterator[pa.Table]:
    topic = engine.log.topic(source.topic)
    if topic is None:
        raise StatementError(f"Kafka topic does not exist: {source.topic}")
    spec = decoding(source)
    ends = [engine.log.end_offset(topic.name, part) for part in range(topic.partitions)]
    for partition, end in enumerate(ends):
        position = engine.log.start_offset(topic.name, partition)
        while position < end:
            fetched = engine.log.read(topic.name, partition, position, READ_MAX)
            part = pa.array([partition] * fetched.count, pa.int32())
            raw = fetched.batch.append_column(PART, part)
            decoded = decode(cursor, raw, spec, topic.name).table
            yield decoded.filter(pa.compute.equal(decoded["$diff"], 1))
            position = fetched.next_offset
            if fetched.end:
                break


def _empty(source: Source, cursor: duckdb.DuckDBPyConnection) -> pa.Table:
    raw = RAW_SCHEMA.empty_table().append_column(PART, pa.array([], pa.int32()))
    return decode(cursor, raw, decoding(source), source.topic).table


def _beyond(piece: Piece, engine: Engine, session: Session) -> Rows:
    """A query that the dialect cannot read. Where nobody can, the dialect says what is wrong."""
    try:
        return _extended(piece.text, engine, session)
    except StatementError as error:
        if error.code == UNREADABLE or isinstance(error.__cause__, duckdb.ParserException):
            parse_text(piece.script, extended_pull=False)
        raise


def _extended(text: str, engine: Engine, session: Session) -> Rows:
    """A pull query beyond the dialect, printed anew from its checked tree. As nothing else bounds
    what it costs, its time is bounded."""
    cursor = engine.store.cursor()
    limit = int(session.property(TIMEOUT))
    if session.bounds.milliseconds is not None:
        limit = min(limit, session.bounds.milliseconds)
    try:
        with _within(cursor, limit):
            gathering = Gathering(engine, session, cursor)
            relation = partial(_relation, gathering=gathering)
            return Rows(gathering.answered(lambda: extended_sql(text, relation)))
    except duckdb.Error as error:
        raise StatementError("The pull query failed.", detail=reason(error)) from error
    finally:
        cursor.close()


def _relation(name: str, *, gathering: Gathering) -> str:
    """A SELECT of what a stream or table holds now."""
    engine, cursor = gathering.engine, gathering.cursor
    source = engine.catalog.source(name)
    schema = pull_schema(source)
    columns = ", ".join(map(identifier, physical_names(schema.names)))
    if source.kind is SourceKind.TABLE:
        inner = f"({gathering.rows(source)}) AS t"
    else:
        pieces = list(_decoded(source, cursor, engine)) or [_empty(source, cursor)]
        registered = f"$stream_{name}"
        cursor.register(registered, pa.concat_tables(pieces, promote_options="default"))
        inner = identifier(registered)
    return f'SELECT {columns}, "$rowtime" AS ROWTIME FROM {inner}'
