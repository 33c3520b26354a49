"""Executes pull queries: finds the relation of each source, and runs the query over it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import duckdb

from millstream.catalog.source import Source
from millstream.cluster.cluster import Cluster
from millstream.cluster.scatter_gather import ScatterGather, pull_schema
from millstream.cluster.stores import find_source, source_named
from millstream.historical import executing
from millstream.historical.historical import Historical
from millstream.model.batch import PART
from millstream.model.errors import StatementError
from millstream.model.physical import physical_names
from millstream.model.schema import SourceKind
from millstream.model.types import TIMESTAMP
from millstream.operators.sql import identifier
from millstream.operators.udfs import register_expressions
from millstream.plan.places import Place, placed, span_of
from millstream.plan.sources import functions_in
from millstream.queries.registry import QueryRegistry
from millstream.query import wordings as query_wordings
from millstream.query.access import Allowed, check_access
from millstream.query.bounded import TIMEOUT, within
from millstream.query.constants import check_constants
from millstream.query.extended import UNREADABLE, Written, extended_sql, sources_in, sources_of
from millstream.query.failures import reason
from millstream.query.pull import Pull, plan_pull, steady
from millstream.query.results import History, Rows
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement, translated
from millstream.statements import wordings
from millstream_parser import statements as s
from millstream_parser.history import Range

EXTENDED = "millstream.query.pull.extended.enabled"
PULLS = "ksql.pull.queries.enable"
LIMITS = "ksql.query.pull.limit.clause.enabled"
SCANS = "ksql.query.pull.table.scan.enabled"
RANGES = "ksql.query.pull.range.scan.enabled"
PullResult = Rows | History
_STREAM_CLAUSES = ("WINDOW",)
"""Clauses that only a query on a stream can have."""
_CONTINUOUS_CLAUSES = ("PARTITION BY",)
"""Clauses that only a persistent or a push query can have."""
CATCH_UP_MS_MAX = 1_000
"""The longest wait of a pull query for the tables to reflect the inserts of its own session."""


def pull(
    statement: s.SelectStatement, parsed: ParsedStatement, historical: Historical, session: Session
) -> PullResult:
    """Execute a query without EMIT: a pull query on committed state, or a query over history."""
    if not session.flag(PULLS):
        raise wordings.PULL_DISABLED(name=PULLS)
    if session.inserted:
        historical.registry.driver.catch_up(CATCH_UP_MS_MAX)
        session.inserted = False
    query = statement.query
    if query is None:
        return _outside_dialect(statement, parsed, historical, session)
    refuse_processors(query, parsed.script)
    known = (_known(item, historical.registry, parsed.script) for item in sources_in(query))
    look_at(known, historical.registry)
    unsupported = unsupported_clause(query)
    extended = unsupported is not None or _aggregates(query, historical.registry)
    if extended and session.flag(EXTENDED) and unsupported not in _CONTINUOUS_CLAUSES:
        return _beyond_pull(statement, query, parsed, historical, session)
    if unsupported is not None:
        with placed(_clause_place(query, unsupported), parsed.script):
            raise _unsupported(unsupported)
    if query.limit is not None and not session.flag(LIMITS):
        raise wordings.LIMIT_DISABLED(limits=LIMITS, span=span_of(query.end))
    source = source_named(historical.registry, query.source.name)
    if query.source.range is None:
        plan = planned_pull(query, source, historical.registry, parsed.script)
        if source.kind is SourceKind.TABLE:
            return _pull_from_table(query, source, plan, parsed.script, historical.cluster, session)
    if source.store:
        raise query_wordings.STORE_RANGE(store=source.name, span=span_of(query.source.span))
    if source.kind is SourceKind.TABLE:
        return executing.execute_on_table(query, parsed.script, historical, session)
    if not session.flag("ksql.query.pull.stream.enabled"):
        raise wordings.PULL_ON_STREAM()
    return executing.execute_on_stream(query, parsed.script, historical, session)


def refuse_processors(query: s.Query, script: str) -> None:
    """A query that ends cannot pass rows through a processor."""
    for source in sources_in(query):
        if source.processor is not None:
            with placed(source.span, script):
                raise wordings.PROCESSOR_OF_PULL(
                    processor=source.processor,
                    hint="Add EMIT CHANGES, or query a stream or table made with it.",
                )


def _known(item: s.AliasedSource, registry: QueryRegistry, script: str) -> Source | None:
    with placed(item.span, script):
        return find_source(registry, item.name)


def look_at(known: Iterable[Source | None], registry: QueryRegistry) -> None:
    """Have the queries that feed these sources process what they let wait while nobody looked."""
    topics = [source.topic for source in known if source is not None]
    registry.driver.look(topics, CATCH_UP_MS_MAX)


def planned_pull(query: s.Query, source: Source, registry: QueryRegistry, script: str) -> Pull:
    """The plan of a pull query on a stream or table."""
    alias = query.source.alias or source.name
    types = dict(registry.catalog.types)
    return plan_pull(query, pull_schema(source), alias, registry.functions, types, script)


def _pull_from_table(
    query: s.Query, source: Source, plan: Pull, script: str, cluster: Cluster, session: Session
) -> Rows:
    allowed = Allowed(session.flag(SCANS), session.flag(RANGES))
    windowed = source.window is not None
    with placed(query.where, script):
        check_access(query.where, source.schema.key, windowed=windowed, allowed=allowed)
    # Rows from other instances come without their partitions.
    before = [PART] if cluster.routing is None else []
    if source.store:
        # One key may have a row for each of several times.
        before += (column.name for column in source.schema.columns if column.type == TIMESTAMP)
    plan = steady(plan, pull_schema(source), before)
    cursor = cluster.registry.store.cursor()
    try:
        register_expressions(
            cursor, plan.expressions, cluster.registry.functions, cluster.registry.store.functions
        )
        check_constants(plan.expressions, cursor, cluster.registry.functions)
        scatter_gather = ScatterGather(cluster, session, cursor)
        with within(cursor, session.bounds.milliseconds):
            table = scatter_gather.execute(
                lambda: plan.sql(f"({scatter_gather.rows(source, plan.conditions)})")
            )
    except duckdb.Error as error:
        failed = wordings.PULL_OF_SOURCE_FAILED(source=source.name, detail=reason(error))
        raise cluster.registry.store.damage(error) or failed from error
    finally:
        cursor.close()
    return Rows(table.rename_columns(list(plan.schema.names)), schema=plan.schema)


def _unsupported(clause: str) -> StatementError:
    return wordings.CLAUSE_OF_PULL_QUERY(clause=clause)


def _aggregates(query: s.Query, registry: QueryRegistry) -> bool:
    """Whether a select item calls an aggregate function."""
    known = registry.functions.aggregate
    return any(functions_in(item.expression, known) for item in query.items)


def _beyond_pull(
    statement: s.SelectStatement,
    query: s.Query,
    parsed: ParsedStatement,
    historical: Historical,
    session: Session,
) -> PullResult:
    """Execute a query with clauses or aggregates that pull queries of the dialect lack. Windows,
    WITHIN and GROUP BY over a stream mean the same as in a persistent query. All else runs as
    extended SQL, and so does a GROUP BY that a persistent query may not have."""
    sources = [source_named(historical.registry, item.name) for item in sources_in(query)]
    of_stream = sources[0].kind is SourceKind.STREAM
    unsupported = unsupported_clause(query)
    within_time = any(join.within is not None for join in query.joins)
    if unsupported in _STREAM_CLAUSES or within_time:
        if not of_stream:
            raise _unsupported(unsupported or "WITHIN")
        return executing.execute_on_stream(query, parsed.script, historical, session)
    if of_stream and query.group_by and not query.joins:
        with suppress(StatementError):
            return executing.execute_on_stream(query, parsed.script, historical, session)
    return _extended(statement, parsed, historical, session)


def unsupported_clause(query: s.Query) -> str | None:
    """A clause of the query that pull queries of the dialect do not support; None without any."""
    clauses = {
        "PARTITION BY": bool(query.partition_by),
        "WINDOW": query.window is not None,
        "JOIN": bool(query.joins),
        "GROUP BY": bool(query.group_by),
        "HAVING": query.having is not None,
    }
    return next((name for name, given in clauses.items() if given), None)


def _clause_place(query: s.Query, name: str) -> Place:
    """The position of such a clause."""
    match name:
        case "WINDOW":
            return query.window.span if query.window else None
        case "JOIN":
            return query.joins[0].span
        case "HAVING":
            return query.having
    return (query.partition_by or query.group_by)[0]


def _outside_dialect(
    statement: s.SelectStatement, parsed: ParsedStatement, historical: Historical, session: Session
) -> PullResult:
    """Execute a query that the dialect's parser rejected, as extended SQL. Syntax errors
    other than an unexpected token are raised at once. The dialect's error is also raised if the SQL
    does not parse either, or if the unexpected token is a parameter."""
    failure, parameter_spans = statement.beyond, [span for span, _ in statement.bound]
    if failure is not None and not failure.unexpected:
        raise translated(failure)
    try:
        return _extended(statement, parsed, historical, session)
    except StatementError as error:
        unreadable = error.code == UNREADABLE or isinstance(error.__cause__, duckdb.ParserException)
        if failure is not None and (unreadable or failure.span in parameter_spans):
            raise translated(failure) from error
        raise


def _extended(
    statement: s.SelectStatement, parsed: ParsedStatement, historical: Historical, session: Session
) -> PullResult:
    """Execute an extended query, as SQL that is printed from its checked tree. Its time is always
    limited, because nothing else bounds its cost."""
    written = Written.of(statement, parsed.text)
    names = sources_of(written)
    known = [find_source(historical.registry, name) for name in names]
    look_at(known, historical.registry)
    tables = [source for source in known if source is not None]
    if written.ranges or any(source.kind is SourceKind.STREAM for source in tables):
        return executing.execute_extended(written, historical, session)
    cursor = historical.registry.store.cursor()
    limit = int(session.property(TIMEOUT))
    if session.bounds.milliseconds is not None:
        limit = min(limit, session.bounds.milliseconds)
    try:
        with within(cursor, limit):
            scatter_gather = ScatterGather(historical.cluster, session, cursor)
            relation = partial(_current_rows_sql, scatter_gather=scatter_gather)
            return Rows(scatter_gather.execute(lambda: extended_sql(written, relation), tables))
    except duckdb.Error as error:
        failed = query_wordings.PULL_FAILED(detail=reason(error))
        raise historical.registry.store.damage(error) or failed from error
    finally:
        cursor.close()


def _current_rows_sql(name: str, _: Range | None, *, scatter_gather: ScatterGather) -> str:
    """A SELECT of the current rows of a table."""
    source = source_named(scatter_gather.cluster.registry, name)
    columns = ", ".join(map(identifier, physical_names(pull_schema(source).names)))
    return f'SELECT {columns}, "$rowtime" AS ROWTIME FROM ({scatter_gather.rows(source)}) AS t'
