"""Pull queries: which relation a name stands for, and running the query over it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import duckdb

from millstream.catalog.source import Source
from millstream.model.batch import PART
from millstream.model.errors import StatementError
from millstream.model.physical import physical_names
from millstream.model.schema import SourceKind
from millstream.operators.sql import identifier
from millstream.operators.udfs import register_expressions
from millstream.plan.places import Place, placed, span_of
from millstream.plan.sources import functions_in
from millstream.query.access import Allowed, check_access
from millstream.query.extended import UNREADABLE, Written, extended_sql, sources_in, sources_of
from millstream.query.pull import Pull, plan_pull, steady
from millstream.service import wordings
from millstream.service.bounded import TIMEOUT, within
from millstream.service.cluster.scatter_gather import ScatterGather, pull_schema
from millstream.service.engine import Engine
from millstream.service.failures import reason
from millstream.service.results import History, Rows
from millstream.service.session import Session
from millstream.service.statements import historical
from millstream.service.text import ParsedStatement, translated
from millstream_parser import statements as s
from millstream_parser.history import Range

EXTENDED = "millstream.query.pull.extended.enabled"
PULLS = "ksql.pull.queries.enable"
LIMITS = "ksql.query.pull.limit.clause.enabled"
SCANS = "ksql.query.pull.table.scan.enabled"
RANGES = "ksql.query.pull.range.scan.enabled"
PullResult = Rows | History
_OF_STREAMS = ("WINDOW",)
"""Clauses that only a stream can have."""
_OF_PERSISTENT = ("PARTITION BY",)
"""Clauses that only a query that keeps running can have."""
CATCH_UP_MS_MAX = 1_000
"""How long a pull query waits for the tables to reflect what its own session inserted."""


def pull(
    statement: s.SelectStatement, piece: ParsedStatement, engine: Engine, session: Session
) -> PullResult:
    """Answer from what is committed now, or from what was logged until now."""
    if not session.flag(PULLS):
        raise wordings.PULL_DISABLED(name=PULLS)
    if session.inserted:
        engine.driver.catch_up(CATCH_UP_MS_MAX)
        session.inserted = False
    query = statement.query
    if query is None:
        return _beyond(statement, piece, engine, session)
    unsupported = beyond_pull(query)
    further = unsupported is not None or _aggregates(query, engine)
    if further and session.flag(EXTENDED) and unsupported not in _OF_PERSISTENT:
        return _further(statement, query, piece, engine, session)
    if unsupported is not None:
        with placed(_clause(query, unsupported), piece.script):
            raise _refused(unsupported)
    if query.limit is not None and not session.flag(LIMITS):
        raise wordings.LIMIT_DISABLED(limits=LIMITS, span=span_of(query.end))
    source = engine.catalog.source(query.source.name)
    if query.source.range is None:
        plan = planned_pull(query, source, engine, piece.script)
        if source.kind is SourceKind.TABLE:
            return _of_table(query, source, plan, piece.script, engine, session)
    if source.kind is SourceKind.TABLE:
        return historical.of_table(query, piece.script, engine, session)
    if not session.flag("ksql.query.pull.stream.enabled"):
        raise wordings.PULL_ON_STREAM()
    return historical.of_stream(query, piece.script, engine, session)


def planned_pull(query: s.Query, source: Source, engine: Engine, script: str) -> Pull:
    """The plan of a pull query on a stream or table."""
    alias = query.source.alias or source.name
    types = dict(engine.catalog.types)
    return plan_pull(query, pull_schema(source), alias, engine.functions, types, script)


def _of_table(
    query: s.Query, source: Source, plan: Pull, script: str, engine: Engine, session: Session
) -> Rows:
    allowed = Allowed(session.flag(SCANS), session.flag(RANGES))
    windowed = source.window is not None
    with placed(query.where, script):
        check_access(query.where, source.schema.key, windowed=windowed, allowed=allowed)
    # Rows that come from other instances do not tell their partitions.
    plan = steady(plan, pull_schema(source), [PART] if engine.routing is None else [])
    cursor = engine.store.cursor()
    try:
        register_expressions(cursor, plan.expressions, engine.functions, engine.store.functions)
        gathering = ScatterGather(engine, session, cursor)
        with within(cursor, session.bounds.milliseconds):
            table = gathering.answered(
                lambda: plan.sql(f"({gathering.rows(source, plan.conditions)})")
            )
    except duckdb.Error as error:
        raise wordings.PULL_OF_SOURCE_FAILED(source=source.name, detail=reason(error)) from error
    finally:
        cursor.close()
    return Rows(table.rename_columns(list(plan.schema.names)), schema=plan.schema)


def _refused(clause: str) -> StatementError:
    return wordings.CLAUSE_OF_PULL_QUERY(clause=clause)


def _aggregates(query: s.Query, engine: Engine) -> bool:
    """Whether the rows are aggregated as a whole."""
    known = engine.functions.aggregate
    return any(functions_in(item.expression, known) for item in query.items)


def _further(
    statement: s.SelectStatement,
    query: s.Query,
    piece: ParsedStatement,
    engine: Engine,
    session: Session,
) -> PullResult:
    """What goes beyond pull queries: over a stream, what the dialect says of queries that keep
    running; else, and where that refuses it, more SQL."""
    sources = [engine.catalog.source(item.name) for item in sources_in(query)]
    of_stream = sources[0].kind is SourceKind.STREAM
    unsupported = beyond_pull(query)
    within_time = any(join.within is not None for join in query.joins)
    if unsupported in _OF_STREAMS or within_time:
        if not of_stream:
            raise _refused(unsupported or "WITHIN")
        return historical.of_stream(query, piece.script, engine, session)
    if of_stream and query.group_by and not query.joins:
        with suppress(StatementError):
            return historical.of_stream(query, piece.script, engine, session)
    return _extended(statement, piece, engine, session)


def beyond_pull(query: s.Query) -> str | None:
    """A clause that no pull query of the dialect has."""
    clauses = {
        "PARTITION BY": bool(query.partition_by),
        "WINDOW": query.window is not None,
        "JOIN": bool(query.joins),
        "GROUP BY": bool(query.group_by),
        "HAVING": query.having is not None,
    }
    return next((name for name, given in clauses.items() if given), None)


def _clause(query: s.Query, name: str) -> Place:
    """Where such a clause begins."""
    match name:
        case "WINDOW":
            return query.window.span if query.window else None
        case "JOIN":
            return query.joins[0].span
        case "HAVING":
            return query.having
    return (query.partition_by or query.group_by)[0]


def _beyond(
    statement: s.SelectStatement, piece: ParsedStatement, engine: Engine, session: Session
) -> PullResult:
    """A query that the dialect cannot read. What it reads and refuses is refused in any case; where
    nobody can read it, the dialect says what is wrong."""
    why, places = statement.beyond, [span for span, _ in statement.bound]
    if why is not None and not why.unexpected:
        raise translated(why)
    try:
        return _extended(statement, piece, engine, session)
    except StatementError as error:
        unreadable = error.code == UNREADABLE or isinstance(error.__cause__, duckdb.ParserException)
        if why is not None and (unreadable or why.span in places):
            raise translated(why) from error
        raise


def _extended(
    statement: s.SelectStatement, piece: ParsedStatement, engine: Engine, session: Session
) -> PullResult:
    """A pull query beyond the dialect, printed anew from its checked tree. As nothing else bounds
    what it costs, its time is bounded."""
    written = Written.of(statement, piece.text)
    known = [engine.catalog.find(name) for name in sources_of(written)]
    tables = [source for source in known if source is not None]
    if written.ranges or any(source.kind is SourceKind.STREAM for source in tables):
        return historical.beyond(written, engine, session)
    cursor = engine.store.cursor()
    limit = int(session.property(TIMEOUT))
    if session.bounds.milliseconds is not None:
        limit = min(limit, session.bounds.milliseconds)
    try:
        with within(cursor, limit):
            gathering = ScatterGather(engine, session, cursor)
            relation = partial(_relation, gathering=gathering)
            return Rows(gathering.answered(lambda: extended_sql(written, relation), tables))
    except duckdb.Error as error:
        raise wordings.PULL_FAILED(detail=reason(error)) from error
    finally:
        cursor.close()


def _relation(name: str, _: Range | None, *, gathering: ScatterGather) -> str:
    """A SELECT of what a table holds now."""
    source = gathering.engine.catalog.source(name)
    columns = ", ".join(map(identifier, physical_names(pull_schema(source).names)))
    return f'SELECT {columns}, "$rowtime" AS ROWTIME FROM ({gathering.rows(source)}) AS t'
