"""EXPLAIN: shows the stages between the text of a query and its DuckDB program."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.functions.function import Catalogue
from millstream.metrics.figures import EngineMetrics
from millstream.metrics.metrics import Metrics
from millstream.metrics.progress import Facts
from millstream.plan.build import Planned, plan_query
from millstream.plan.show import show_plan
from millstream.plan.sinks import Client, ExistingStream, NewSource, Target
from millstream.push.push_queries import PushQueries
from millstream.push.pushing import planned_push, push_topology
from millstream.queries.registry import QueryRegistry
from millstream.queries.starting import topology_of
from millstream.query.results import Rows
from millstream.query.session import Session
from millstream.statements import wordings
from millstream.statements.described import push_facts, query_facts
from millstream.statements.explained_pull import pull_stages
from millstream.statements.programs import (
    Explained,
    first_programs,
    persistent,
    pushed,
    shown_programs,
)
from millstream.topology.show import show_topology
from millstream_parser import print_statement
from millstream_parser import statements as s

EXPLAINED = "EXPLAINED"
"""The id of an explained query that does not run."""
STAGES = ("STATEMENT", "PLAN", "TOPOLOGY", "PROGRAM")


def explain(
    statement: s.Explain,
    script: str,
    push_queries: PushQueries,
    metrics: Metrics,
    session: Session,
) -> Rows:
    """Execute EXPLAIN of a statement, or of an existing query by its id."""
    if statement.query_id is not None:
        return _existing_query(statement.query_id, statement.stage, push_queries, metrics.now())
    inner = statement.statement
    if inner is None:
        raise wordings.EXPLAINED_KIND(hint="Specify a query, or the id of a query.")
    if isinstance(inner, s.SelectStatement) and (inner.query is None or inner.query.emit is None):
        return _table(pull_stages(inner, statement.stage, push_queries.cluster, script))
    return _table(
        _stages(statement.stage, explained_statement(inner, push_queries.registry, session))
    )


def explained_statement(
    statement: s.Statement, registry: QueryRegistry, session: Session
) -> Explained:
    """The stages of a query as it would run if the statement were executed."""
    text, properties = print_statement(statement), session.properties
    match statement:
        case s.SelectStatement(query) if query is not None and query.emit is not None:
            push = planned_push(query, text, registry, properties)
            node, topology = push.root, push_topology(registry, EXPLAINED, push)
            programs = first_programs(registry, topology, properties)
            return Explained(text, node, topology, programs, registry.functions)
    planned = plan_of(statement, registry.catalog, registry.functions, properties)
    topology = topology_of(registry, EXPLAINED, planned)
    programs = first_programs(registry, topology, properties)
    return Explained(text, planned.node, topology, programs, registry.functions)


def explained_query(query_id: str, push_queries: PushQueries) -> Explained | None:
    """The stages of an existing query; None if there is none, and for PRINT, which has no
    program."""
    return persistent(query_id, push_queries.registry) or pushed(query_id, push_queries)


def _existing_query(
    requested_id: str, stage: str | None, push_queries: PushQueries, metrics: EngineMetrics
) -> Rows:
    """Explain an existing query. If no stage is given, its facts come first."""
    catalog = push_queries.registry.catalog
    record = catalog.queries.get(requested_id)
    query_id, facts = requested_id, None
    if record is None:
        query_id, facts = _push_query(requested_id, push_queries, metrics)
    elif stage is None:
        facts = _facts_text(query_facts(record, catalog, metrics))
    found = explained_query(query_id, push_queries)
    shown = [] if found is None else _stages(stage, found)
    if facts is not None and (stage is None or found is None):
        shown.insert(0, ("QUERY", facts))
    return _table(shown)


def _push_query(
    query_id: str, push_queries: PushQueries, metrics: EngineMetrics
) -> tuple[str, str]:
    """The id of a push query, found regardless of case, and its facts as text."""
    for query in metrics.queries:
        stream = push_queries.streams.get(query.query_id)
        if stream is not None and query.query_id.upper() == query_id.upper():
            return query.query_id, _facts_text(push_facts(query, stream.schema))
    raise wordings.EXPLAINED_QUERY_MISSING(query_id=query_id)


def _facts_text(facts: Facts) -> str:
    return "\n".join(f"{name}: {value}" for name, value in facts)


def plan_of(
    statement: s.Statement, catalog: Catalog, functions: Catalogue, session: Mapping[str, str]
) -> Planned:
    """The plan of a push query, or of the persistent query that a statement would start. `session`:
    the properties of its session."""
    target: Target
    match statement:
        case s.CreateAs(kind, name, query, properties):
            target = NewSource(kind, name, properties)
        case s.InsertInto(name, query, properties):
            target = ExistingStream(name, properties)
        case s.SelectStatement(query) if query is not None and query.emit is not None:
            target = Client()
        case _:
            raise wordings.EXPLAINED_KIND(
                hint="Use it with CREATE … AS, INSERT INTO … SELECT or SELECT … EMIT CHANGES."
            )
    assert query is not None
    return plan_query(
        query,
        catalog,
        target=target,
        properties=session,
        functions=functions,
    )


def _stages(stage: str | None, query: Explained) -> list[tuple[str, str]]:
    wanted = STAGES if stage is None else (stage,)
    return [(name, _stage_text(name, query)) for name in wanted]


def _table(shown: list[tuple[str, str]]) -> Rows:
    return Rows(
        pa.table({"Stage": [name for name, _ in shown], "Text": [body for _, body in shown]})
    )


def _stage_text(stage: str, query: Explained) -> str:
    match stage:
        case "STATEMENT":
            return query.statement
        case "PLAN":
            return show_plan(query.node)
        case "TOPOLOGY":
            return show_topology(query.topology)
    return shown_programs(query)
