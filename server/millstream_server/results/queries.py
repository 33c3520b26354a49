"""SELECT and PRINT: from the text of a request to rows that are streamed to a client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from millstream.model.errors import MillstreamError
from millstream.model.schema import Schema, SourceKind
from millstream.model.shown_types import schema_of
from millstream.query.results import Change, History, Rows, Stream
from millstream.query.subscription import changes
from millstream.scripts.text import ParsedStatement
from millstream.service.execution import execute_statement
from millstream_parser import statements as s
from millstream_server.auth.principal import Principal
from millstream_server.failures import (
    BAD_STATEMENT,
    MALFORMED,
    TOO_MANY_QUERIES,
    RefusedError,
    RevokedError,
    refusal,
    unexpected,
)
from millstream_server.ongoing import Ongoing
from millstream_server.requests import Asked
from millstream_server.results.framing import Framing, JsonFramings
from millstream_server.results.lookups import Found
from millstream_server.server import Server
from millstream_server.statements import statements_of

ROWS_AT_ONCE = 1_000
"""The rows of a finished result that are converted to text at a time."""
LIMIT_REACHED = "Limit Reached"
COMPLETED = "Query Completed"


@dataclass(frozen=True, slots=True)
class QueryResponse:
    """A query that has been accepted. `pull`: its rows are those of a table, once."""

    parsed: ParsedStatement
    result: Rows | Stream | History
    schema: Schema
    pull: bool
    limit: int | None = None
    ongoing: Ongoing | None = None

    @property
    def query_id(self) -> str | None:
        """The name by which it can be ended."""
        return self.result.query_id if isinstance(self.result, Stream) else None

    @property
    def prints(self) -> bool:
        """Whether it returns lines of text."""
        return isinstance(self.parsed.statement, s.PrintTopic)


def query_of(server: Server, asked: Asked) -> ParsedStatement:
    """The one query of a request; raises RefusedError for anything else."""
    statements = statements_of(asked, server.session(asked))
    if len(statements) != 1:
        raise RefusedError(
            MALFORMED, f"Expected exactly one KSQL statement; found {len(statements)} instead"
        )
    parsed = statements[0]
    if not isinstance(parsed.statement, s.SelectStatement | s.PrintTopic | s.Peek):
        raise RefusedError(
            BAD_STATEMENT,
            f"Statement type `{type(parsed.statement).__name__}' not supported for this resource:"
            " give it to /ksql",
            parsed.text,
        )
    return parsed


def pulls(parsed: ParsedStatement) -> bool:
    """Whether a query ends by itself and returns at once."""
    query = getattr(parsed.statement, "query", None)
    printed = isinstance(parsed.statement, s.PrintTopic)
    return not printed and (query is None or query.emit is None)


def start(
    server: Server, asked: Asked, parsed: ParsedStatement, principal: Principal
) -> QueryResponse:
    """Execute a query up to its first row. May block: call it in a thread."""
    session = server.session(asked)
    ongoing = server.ongoing.begin(principal, parsed, session)
    try:
        answer = _started(server, ongoing)
        if isinstance(answer.result, Rows):
            server.ongoing.end(ongoing)
        return answer
    except BaseException:
        server.ongoing.end(ongoing)
        raise


def _started(server: Server, ongoing: Ongoing) -> QueryResponse:
    principal, parsed, session = ongoing.principal, ongoing.statement, ongoing.session
    server.guard.authorise(principal, parsed, session)
    server.guard.record(principal, parsed)
    statement = parsed.statement
    if len(server.engine.push_queries.streams) >= server.settings.push_queries_max:
        raise RefusedError(
            TOO_MANY_QUERIES,
            "Not executing statement(s) as doing so would cause the number of active push queries"
            f" to exceed the configured limit of {server.settings.push_queries_max}",
            parsed.text,
        )
    try:
        result = execute_statement(server.engine, parsed, session)
    except MillstreamError as error:
        sight = server.guard.sight(principal, server.engine.catalog)
        raise refusal(error, parsed.text, seen=sight.suggested) from error
    if isinstance(result, Stream):
        server.owners[result.query_id] = principal.name
        ongoing.ends_by(partial(_revoked, result))
        return QueryResponse(parsed, result, result.schema, False, result.limit, ongoing)
    if not isinstance(result, Rows | History):
        raise RefusedError(BAD_STATEMENT, "The statement gives no rows", parsed.text)
    if isinstance(result, Rows):
        server.held.hold(result.table)
    limit = getattr(getattr(statement, "query", None), "limit", None)
    shape = result.table if isinstance(result, Rows) else result.empty
    schema = result.schema or schema_of(shape)
    if isinstance(result, History):
        ongoing.ends_by(lambda _: result.cancel())
    return QueryResponse(parsed, result, schema, _of_table(server, parsed), limit, ongoing)


def _revoked(stream: Stream, error: RevokedError) -> None:
    """End a push query: its client gets the rows so far, then the error."""
    stream.fail(error)
    stream.close()


def whole(found: Found, framing: Framing) -> bytes:
    """The response body of a pull query by key."""
    if not isinstance(framing, JsonFramings):
        header = framing.header(None, found.schema)
        return header + framing.rows(found.rows) + framing.end(None)
    header = found.heads.get(framing.media_type, b"")
    if not header:
        header = found.heads[framing.media_type] = framing.header(None, found.schema)
    return header + framing.framed(found.rows) + framing.end(None)


def _of_table(server: Server, parsed: ParsedStatement) -> bool:
    """Whether a pull query reads a table; on a stream it is a push query that ends by itself."""
    query = getattr(parsed.statement, "query", None)
    source = server.engine.catalog.find(query.source.name) if query else None
    return source is None or source.kind is SourceKind.TABLE


async def pieces(
    server: Server, answer: QueryResponse, framing: Framing
) -> AsyncGenerator[bytes, None]:
    """The body. The query is ended when this is closed."""
    result = answer.result
    try:
        yield framing.header(answer.query_id, answer.schema)
        if isinstance(result, Rows):
            for start_row in range(0, result.table.num_rows, ROWS_AT_ONCE):
                yield framing.rows(result.table.slice(start_row, ROWS_AT_ONCE))
                await asyncio.sleep(0)
        else:
            async for change in arriving(server, answer):
                for start_row in range(0, change.rows.num_rows, ROWS_AT_ONCE):
                    yield framed(framing, change, start_row)
        yield framing.end(final_message(answer))
    except MillstreamError as error:
        yield framing.failed(refusal(error, answer.parsed.text))
    except RefusedError as error:
        yield framing.failed(error)
    except Exception as error:
        yield framing.failed(unexpected(error))
        raise
    finally:
        await ended(server, answer)


def framed(framing: Framing, change: Change, start: int) -> bytes:
    """Some rows of a change, in a framing."""
    if not isinstance(framing, JsonFramings):
        return framing.rows(change.rows.slice(start, ROWS_AT_ONCE))
    return shared(change, framing.media_type, start, framing.rows)


def shared(change: Change, kind: str, start: int, make: Callable[[pa.Table], bytes]) -> bytes:
    """Some rows of a change in the format of `kind`, computed once for all clients of the same
    query."""

    def made() -> bytes:
        return make(change.rows.slice(start, ROWS_AT_ONCE))

    return (
        made()
        if change.rendered is None
        else change.rendered.of((change.number, kind, start), made)
    )


async def lines(server: Server, answer: QueryResponse) -> AsyncGenerator[bytes, None]:
    """The body of PRINT. It waits for records in a thread of its own."""
    assert isinstance(answer.result, Stream)
    try:
        while (change := await server.run_printing(answer.result.next_change)) is not None:
            yield "".join(f"{line}\n" for line in change.rows.column(0).to_pylist()).encode()
    except MillstreamError as error:
        yield f"{error}\n".encode()
    finally:
        await ended(server, answer)


async def ended(server: Server, answer: QueryResponse) -> None:
    """End a query in any state."""
    result = answer.result
    if isinstance(result, Rows):
        return
    if answer.ongoing is not None:
        server.ongoing.end(answer.ongoing)
    if isinstance(result, History):
        result.cancel()
    else:
        server.owners.pop(result.query_id, None)
    try:
        with contextlib.suppress(RuntimeError):
            await asyncio.shield(server.run(result.close))
    finally:
        if isinstance(result, History):
            server.reading.pop(result, None)


def final_message(answer: QueryResponse) -> str | None:
    """The reason for the end of the rows."""
    if answer.pull:
        return None
    result = answer.result
    given = len(result) if isinstance(result, Rows) else result.delivered
    return LIMIT_REACHED if answer.limit is not None and given >= answer.limit else COMPLETED


async def arriving(server: Server, answer: QueryResponse) -> AsyncGenerator[Change, None]:
    """The rows of a query as they arrive."""
    result = answer.result
    assert not isinstance(result, Rows)
    if isinstance(result, Stream):
        async for change in changes(result):
            yield change
        return
    while (table := await server.run_printing(result.next_batch)) is not None:
        yield Change(table)
    if answer.ongoing is not None:
        answer.ongoing.check()
