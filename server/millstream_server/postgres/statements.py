"""From the text of one statement to its rows: of the dialect, or about the catalog."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from millstream.model.errors import MillstreamError
from millstream.model.schema import Column, Role, Schema
from millstream.model.shown_types import schema_of
from millstream.model.types import BIGINT, STRING, Array
from millstream.query.keyed import TEXT_MAX, key_asked
from millstream.query.results import Done, Rows
from millstream.remote.entities import result_of
from millstream.scripts.text import ParsedStatement
from millstream.statements.control import set_property
from millstream_parser import statements as s
from millstream_parser.lexemes import LexemeKind, code_lexemes, lexemes
from millstream_parser.parameters import Value
from millstream_server import statements
from millstream_server.auth.endpoint_needs import POSTGRES
from millstream_server.endpoints import begun
from millstream_server.failures import MALFORMED, RefusedError, refusal
from millstream_server.filling import Filling
from millstream_server.postgres.catalog_queries import introspective, tables_of
from millstream_server.postgres.portals import StatementResult
from millstream_server.postgres.refusals import PgError
from millstream_server.postgres.relations import columns_of
from millstream_server.postgres.session_state import IDLE, SessionState
from millstream_server.postgres.values import OidArray
from millstream_server.requests import Asked
from millstream_server.results import queries
from millstream_server.results.values import text_of

STATEMENTS = "/ksql"
_SECONDS_MAX = 30.0
"""What a query about the catalog may take."""
_AGAIN_SECONDS = 0.05
_QUERIES = (s.SelectStatement, s.PrintTopic, s.Peek)
_SHOWING = (s.Show, s.Describe, s.Explain)


def parts_of(text: str) -> list[str]:
    """The statements of a text, one by one."""
    found, start, empty = [], 0, True
    for part in lexemes(text):
        if part.text == ";" and part.kind is LexemeKind.SYMBOL:
            if not empty:
                found.append(text[start : part.start])
            start, empty = part.end, True
        elif part.kind is not LexemeKind.COMMENT:
            empty = False
    return found if empty else [*found, text[start:]]


_READING = (
    *("SELECT", "WITH", "VALUES", "(", "PRINT", "PEEK"),
    *("SHOW", "LIST", "DESCRIBE", "EXPLAIN"),
)


def gives_rows(text: str) -> bool:
    """Whether a statement only reads, so that beginning it changes nothing."""
    parts = code_lexemes(text)
    return bool(parts) and parts[0].upper in _READING


@dataclass(frozen=True, slots=True)
class _About:
    """What a statement is: a query about the catalog, or a statement of the dialect."""

    tree: exp.Query | None
    asked: Asked
    parsed: ParsedStatement | None


def _understood(client: SessionState, text: str, values: list[Value]) -> _About:
    """Parse one statement; called in a thread. Raises PgError, RefusedError."""
    tree = introspective(text)
    if tree is not None:
        return _About(tree, Asked(text, parameters=values), None)
    asked = client.asked(text, values)
    found = statements.statements_of(asked, client.server.session(asked))
    if len(found) != 1:
        raise RefusedError(MALFORMED, f"Expected one statement; found {len(found)}")
    return _About(None, asked, found[0])


async def begin(client: SessionState, text: str, values: list[Value]) -> StatementResult:
    """Begin a statement that is no command of the session. Raises PgError, RefusedError."""
    client.server.check_serving()
    await client.recognise_again()
    found = await _looked_up(client, text, values)
    if found is not None:
        return found
    about = await client.server.run(_understood, client, text, values)
    match about:
        case _About(tree) if tree is not None:
            return await _introspected(client, tree, values)
        case _About(_, asked, ParsedStatement(statement) as parsed):
            if isinstance(statement, _QUERIES):
                return await _queried(client, asked, parsed)
            if isinstance(statement, s.SetProperty | s.DefineVariable):
                return _set(client, asked, parsed)
            return await _executed(client, asked, parsed)
    raise AssertionError(about)


async def _looked_up(
    client: SessionState, text: str, values: list[Value]
) -> StatementResult | None:
    """The row of a pull query by key, which needs no parsing and joins others on their way."""
    if len(text) > TEXT_MAX or text.lstrip()[:6].upper() != "SELECT":
        return None
    asked = client.asked(text, values)
    if key_asked(asked.sql, asked.parameters) is None:
        return None
    server, principal = client.server, client.principal
    server.guard.enter(principal, POSTGRES)
    try:
        session = server.session(asked)
        found = await server.lookups.find(asked, principal, session, as_table=True)
    finally:
        server.guard.leave(principal, POSTGRES)
    if found is None:
        return None
    assert isinstance(found.rows, pa.Table)
    return StatementResult("SELECT", _shown(client, found.schema), once(found.rows))


async def described(client: SessionState, text: str, values: list[Value]) -> Schema | None:
    """The columns of a statement, which is not executed if it changes anything."""
    client.server.check_serving()
    await client.recognise_again()
    about = await client.server.run(_understood, client, text, values)
    if about.tree is not None:
        return (await _introspected(client, about.tree, values)).schema
    asked, parsed = about.asked, about.parsed
    assert parsed is not None
    if isinstance(parsed.statement, s.SelectStatement) and parsed.statement.query is not None:
        # No row is needed to tell the columns.
        query = replace(parsed.statement.query, limit=0)
        parsed = replace(parsed, statement=replace(parsed.statement, query=query))
    if not isinstance(parsed.statement, (*_QUERIES, *_SHOWING)):
        return None
    made = _queried if isinstance(parsed.statement, _QUERIES) else _executed
    outcome = await made(client, asked, parsed)
    await outcome.batches.aclose()
    return outcome.schema


async def _introspected(
    client: SessionState, tree: exp.Query, values: Sequence[Value]
) -> StatementResult:
    client.server.guard.enter(client.principal, POSTGRES)
    try:
        known = await client.introspection()
        answering = asyncio.ensure_future(asyncio.to_thread(known.answer, tree, values))
        try:
            table = await asyncio.wait_for(asyncio.shield(answering), _SECONDS_MAX)
        except (TimeoutError, asyncio.CancelledError):
            # An interruption is lost if the thread is between two statements.
            while not answering.done():
                known.interrupt()
                await asyncio.wait([answering], timeout=_AGAIN_SECONDS)
            if isinstance(answering.exception(), PgError):
                answering.result()
            raise
    finally:
        client.server.guard.leave(client.principal, POSTGRES)
    schema = schema_of(table)
    if tables_of(tree):
        schema = Schema(tuple(map(_with_oids, schema.columns)))
    return StatementResult("SELECT", schema, once(table))


def _with_oids(column: Column) -> Column:
    return replace(column, type=OidArray(BIGINT)) if column.type == Array(BIGINT) else column


async def once(table: pa.Table) -> AsyncGenerator[pa.Table, None]:
    """The rows of a finished result, some at a time."""
    for start in range(0, table.num_rows, queries.ROWS_AT_ONCE):
        yield table.slice(start, queries.ROWS_AT_ONCE)


async def _queried(client: SessionState, asked: Asked, parsed: ParsedStatement) -> StatementResult:
    guard, principal = client.server.guard, client.principal
    guard.enter(principal, POSTGRES)
    try:
        answer = await begun(client.server, asked, parsed, principal)
    except BaseException:
        guard.leave(principal, POSTGRES)
        raise
    schema = Schema((Column("line", STRING),)) if answer.prints else answer.schema
    rows = _rows(client, answer)
    # A generator that was never started would not run its end.
    await anext(rows)
    return StatementResult("SELECT", _shown(client, schema), rows)


def _shown(client: SessionState, schema: Schema) -> Schema:
    spelling = client.spelling()
    return Schema(tuple(replace(c, name=spelling.shown(c.name)) for c in schema.columns))


async def _rows(
    client: SessionState, answer: queries.QueryResponse
) -> AsyncGenerator[pa.Table, None]:
    """The rows, after an empty start. A deletion has its key, and NULL in all other columns."""
    server, guard, principal = client.server, client.server.guard, client.principal
    try:
        yield pa.table({})
        if answer.prints:
            async for piece in queries.lines(server, answer):
                yield pa.table({"line": piece.decode().splitlines()})
        elif isinstance(answer.result, Rows):
            async for table in once(answer.result.table):
                yield table
                await asyncio.sleep(0)
        else:
            async for change in queries.arriving(server, answer):
                async for table in once(change.rows):
                    yield table
    except MillstreamError as error:
        raise refusal(error, answer.parsed.text) from error
    finally:
        guard.leave(principal, POSTGRES)
        await queries.ended(server, answer)


def _set(client: SessionState, asked: Asked, parsed: ParsedStatement) -> StatementResult:
    session = client.server.session(asked)
    statement = parsed.statement
    assert isinstance(statement, s.SetProperty | s.DefineVariable)
    before = dict(client.server.settings.properties)
    try:
        client.server.guard.authorise(client.principal, parsed, session)
        done = set_property(statement, session)
    except MillstreamError as error:
        raise refusal(error, parsed.text) from error
    client.variables = dict(session.variables)
    client.properties = {
        name: value for name, value in session.properties.items() if before.get(name) != value
    }
    return StatementResult(_tag(parsed), told=done.message)


async def _executed(client: SessionState, asked: Asked, parsed: ParsedStatement) -> StatementResult:
    server, principal, filling = client.server, client.principal, Filling()
    server.guard.enter(principal, STATEMENTS)
    running = asyncio.ensure_future(
        server.run(statements.execute, server, asked, principal, filling)
    )
    try:
        entities = await asyncio.shield(running)
    except asyncio.CancelledError:
        # A statement that has begun is done, unless it is a back-fill, which can be ended.
        filling.cancel()
        await asyncio.wait([running])
        raise
    finally:
        server.guard.leave(principal, STATEMENTS)
    match result_of(entities):
        case Rows(table) if isinstance(parsed.statement, _SHOWING):
            shown = _readable(client, parsed.statement, entities[-1]) or table
            return StatementResult(_tag(parsed).split()[0], schema_of(shown), once(shown))
        case Done(message):
            client.written = client.written or client.transaction != IDLE
            inserted = isinstance(parsed.statement, s.InsertValues)
            return StatementResult(_tag(parsed), told="" if inserted else message)
    return StatementResult(_tag(parsed))


def _readable(
    client: SessionState, statement: s.Statement, entity: statements.Entity
) -> pa.Table | None:
    """DESCRIBE and EXPLAIN, whose answers are no lists, as tables."""
    match statement:
        case s.Describe("SOURCE", name, False):
            source = client.server.engine.catalog.find(name)
            columns = () if source is None else columns_of(source)
            return pa.table(
                {
                    "column": [client.spelling().shown(column.name) for column in columns],
                    "type": [str(column.type) for column in columns],
                    "key": [column.role is Role.KEY for column in columns],
                }
            )
        case s.Describe("SOURCE") | s.Describe("FUNCTION"):
            found = next((v for v in entity.values() if isinstance(v, dict)), entity)
            pairs = [(k, v) for k, v in found.items() if not k.startswith("@")]
            texts = [v if isinstance(v, str) else text_of(v) for _, v in pairs]
            return pa.table({"property": [k for k, _ in pairs], "value": texts})
        case s.Explain():
            told = entity.get("queryDescription", {})
            parts = (str(told.get(name) or "") for name in ("executionPlan", "topology"))
            return pa.table({"QUERY PLAN": [line for part in parts for line in part.splitlines()]})
    return None


def _tag(parsed: ParsedStatement) -> str:
    """What PostgreSQL calls the end of a statement: its first words, or what was inserted."""
    if isinstance(parsed.statement, s.InsertValues):
        return f"INSERT 0 {len(parsed.statement.rows)}"
    words = (part.upper for part in lexemes(parsed.text) if part.kind is LexemeKind.WORD)
    first, second = (*words, "", "")[:2]
    return f"{first} {second}" if first in ("CREATE", "DROP", "ALTER") else first
