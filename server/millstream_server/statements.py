"""POST /ksql: statements one after another, each with its entity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from millstream.connectors.connector import connector_exists
from millstream.model.errors import MillstreamError, StatementError
from millstream.plan.show import show_plan
from millstream.query.results import Done
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement
from millstream.service.dry_run import DryRun
from millstream.service.execution import execute_statement, parse_script
from millstream.statements.connectors import create_connector
from millstream.statements.control import set_property
from millstream.statements.explain import explained_query, explained_statement, plan_of
from millstream.statements.explained_pull import POSITIONS, pull_stages
from millstream.statements.inspect import existing_source
from millstream.statements.programs import Explained, shown_programs
from millstream.topology.show import show_topology
from millstream_parser import statements as s
from millstream_server.auth.principal import Principal
from millstream_server.entities import changed
from millstream_server.entities.connectors import (
    connector_description,
    connector_dropped,
    connector_info,
)
from millstream_server.entities.described import (
    described_source,
    described_sources,
    explained,
    planned_description,
    query_description,
)
from millstream_server.entities.functions import described_function
from millstream_server.entities.listed import listed
from millstream_server.failures import QUERY_ELSEWHERE, TOO_LARGE, RefusedError, refusal
from millstream_server.filling import Filling
from millstream_server.requests import Asked
from millstream_server.server import Server

Entity = dict[str, Any]


def statements_of(asked: Asked, session: Session) -> list[ParsedStatement]:
    """All statements of a request, each parsed after those before it were executed; raises
    RefusedError if the text does not parse."""
    ahead = replace(session, properties=dict(session.properties), variables=dict(session.variables))
    found: list[ParsedStatement] = []
    text = asked.sql
    try:
        for parsed in parse_script(asked.sql, ahead, asked.parameters, test_statements=False):
            found.append(replace(parsed, text=_ended(parsed.text)))
            if isinstance(parsed.statement, s.DefineVariable | s.SetProperty):
                text = found[-1].text
                set_property(parsed.statement, ahead)
                text = asked.sql
    except MillstreamError as error:
        raise refusal(error, text) from error
    return found


def _ended(text: str) -> str:
    return text if text.endswith(";") else f"{text};"


def execute(server: Server, asked: Asked, principal: Principal, filling: Filling) -> list[Entity]:
    """Execute all statements of a request. May block: call it in a thread."""
    session = server.session(asked)
    session.on_backfill = filling.begin
    statements = statements_of(asked, session)
    if len(statements) > server.settings.statements_max:
        raise RefusedError(
            TOO_LARGE, f"A request has at most {server.settings.statements_max} statements"
        )
    for parsed in statements:
        if isinstance(parsed.statement, s.SelectStatement | s.PrintTopic | s.Peek):
            raise RefusedError(
                QUERY_ELSEWHERE,
                "SELECT and PRINT queries must be issued to the /query-stream or /query endpoint",
                parsed.text,
            )
        server.guard.authorise(principal, parsed, session)
    if len(statements) > 1:
        _dry_run(server, statements, session, principal)
    entities: list[Entity] = []
    for number, parsed in enumerate(statements):
        if number:
            # The statements before it may have changed the meaning of its names.
            server.guard.authorise(principal, parsed, session)
        server.guard.record(principal, parsed)
        sight = server.guard.sight(principal, server.engine.catalog)
        try:
            entity = _executed(server, parsed, session, principal)
        except MillstreamError as error:
            raise refusal(error, parsed.text, entities, sight.suggested) from error
        if entity is not None:
            entities.append(entity)
    return entities


def _dry_run(
    server: Server, statements: Sequence[ParsedStatement], session: Session, principal: Principal
) -> None:
    """Refuse a request with a statement that would fail, before the first one is executed."""
    dry_run = DryRun(server.engine, session)
    sight = server.guard.sight(principal, server.engine.catalog)
    for parsed in statements:
        try:
            if isinstance(parsed.statement, s.Describe) and parsed.statement.what == "SOURCE":
                existing_source(parsed.statement.name, dry_run.catalog)
            else:
                dry_run.check(parsed)
        except MillstreamError as error:
            raise refusal(error, parsed.text, seen=sight.suggested) from error


def _executed(
    server: Server, parsed: ParsedStatement, session: Session, principal: Principal
) -> Entity | None:
    shown = _shown(server, parsed, session, principal)
    if shown is not None:
        return shown
    statement, known = parsed.statement, server.engine.catalog.queries
    if isinstance(statement, s.CreateConnector):
        return _created_connector(server, parsed, statement)
    pushed = isinstance(statement, s.ControlQuery) and statement.query_id not in (None, *known)
    done = execute_statement(server.engine, parsed, session)
    if not isinstance(done, Done):
        raise StatementError(f"{type(statement).__name__} cannot be executed here")
    if not done.changed and not isinstance(statement, s.DropSource | s.DropType):
        return changed.warning(parsed.text, done.message)
    match statement:
        case s.AssertTopic() | s.AssertSchema():
            return changed.asserted(parsed.text, statement)
        case s.ControlQuery(_, str(query_id)) if pushed:
            return changed.terminated(parsed.text, query_id, True)
        case s.DropConnector(name):
            return connector_dropped(parsed.text, name)
        case s.InsertValues() | s.DefineVariable() | s.SetProperty(system=False):
            return None
    return _command(server, parsed, done)


def _created_connector(
    server: Server, parsed: ParsedStatement, statement: s.CreateConnector
) -> Entity:
    made = create_connector(statement, server.engine.connectors)
    if made is None:
        return changed.warning(parsed.text, connector_exists(statement.name).message)
    return connector_info(parsed.text, made)


def _shown(
    server: Server, parsed: ParsedStatement, session: Session, principal: Principal
) -> Entity | None:
    """The entity of a read-only statement."""
    match parsed.statement:
        case s.Show() as statement:
            return listed(statement, parsed.text, server.view(principal), session)
        case s.Describe("FUNCTION", name):
            return described_function(name, parsed.text, server.engine.functions)
        case s.Describe("STREAMS" | "TABLES" as what, _, extended):
            return described_sources(what, parsed.text, server.view(principal), extended=extended)
        case s.Describe("CONNECTOR", name):
            return connector_description(name, parsed.text, server.view(principal))
        case s.Describe("SOURCE", name, extended):
            return described_source(name, parsed.text, server.view(principal), extended=extended)
        case s.Explain() as statement:
            return explained(
                parsed.text, _explained(statement, parsed.script, server, session, principal)
            )
    return None


def _command(server: Server, parsed: ParsedStatement, done: Done) -> Entity:
    command = changed.command_id(parsed.statement, done.query_id)
    status = changed.status(done, parsed.statement)
    return changed.current_status(parsed.text, command, status, server.last_command)


def _explained(
    statement: s.Explain, script: str, server: Server, session: Session, principal: Principal
) -> Entity:
    """A query given as text, or a running one."""
    engine = server.engine
    inner, wanted = statement.statement, statement.query_id
    if isinstance(inner, s.SelectStatement) and (inner.query is None or inner.query.emit is None):
        stages = dict(pull_stages(inner, None, engine.cluster, script))
        return planned_description(stages["STATEMENT"], (), stages[POSITIONS], "", "PULL")
    if inner is not None:
        columns = plan_of(
            inner, engine.catalog, engine.functions, session.properties
        ).node.schema.columns
        query = explained_statement(inner, engine.registry, session)
        plan, topology = show_plan(query.node), show_topology(query.topology)
        told = planned_description(query.statement, columns, plan, topology)
        return told | _program(statement, query)
    ids = (*engine.catalog.queries, *engine.push_queries.streams)
    found = next((name for name in ids if name.upper() == (wanted or "").upper()), None)
    if found is None:
        raise StatementError(
            f"Query with id:{wanted} does not exist, use SHOW QUERIES to view the full set of "
            "queries."
        )
    existing = explained_query(found, engine.push_queries)
    if existing is None:
        return query_description(found, server.view(principal))
    plan, topology = show_plan(existing.node), show_topology(existing.topology)
    told = query_description(found, server.view(principal), plan, topology)
    return told | _program(statement, existing)


def _program(statement: s.Explain, query: Explained) -> Entity:
    """The SQL that DuckDB runs, for EXPLAIN (PROGRAM) alone: ksqlDB's entity has no such field."""
    return {"program": shown_programs(query)} if statement.stage == "PROGRAM" else {}
