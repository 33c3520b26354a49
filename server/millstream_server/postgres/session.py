"""The messages of one session, after its client is known: simple and extended queries.

Source: PostgreSQL's documentation, "Message Flow". After an error in a series of extended messages
the rest of it is skipped up to Sync; in a transaction, everything up to its end is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar, assert_never

from millstream.model.errors import MillstreamError
from millstream.model.schema import Schema
from millstream_server.failures import RefusedError, refusal, unexpected
from millstream_server.postgres import messages as m
from millstream_server.postgres.arguments import arguments
from millstream_server.postgres.commands import Command, End, command_of
from millstream_server.postgres.copied_binary import HEADER, TRAILER
from millstream_server.postgres.copy_in import BYTES_MAX, inserted
from millstream_server.postgres.copying import CopyFormat, writer_of
from millstream_server.postgres.message_transport import MessageTransport
from millstream_server.postgres.parameter_types import parameter_types, samples
from millstream_server.postgres.portals import (
    CopyTarget,
    Portal,
    Prepared,
    StatementResult,
    columns_message,
)
from millstream_server.postgres.refusals import (
    CANCELED,
    FAILED_TRANSACTION,
    NOT_SUPPORTED,
    PgError,
    of_refusal,
)
from millstream_server.postgres.session_commands import run, schema_of_command
from millstream_server.postgres.session_state import FAILED, IDLE, SessionState
from millstream_server.postgres.settings import REPORTED, milliseconds
from millstream_server.postgres.statements import begin, described, gives_rows, parts_of
from millstream_server.postgres.values import copied_lines

T = TypeVar("T")
NAMED_MAX = 1_000
"""The most prepared statements of a session, and portals of a transaction."""
HELD_BYTES_MAX = 16 << 20
"""The bytes of the texts and the values of these."""
_ONLY_ONE = "cannot insert multiple commands into a prepared statement"


class Session:
    """Answers the messages of a client, one after the other."""

    def __init__(self, client: SessionState, transport: MessageTransport) -> None:
        self._client, self._transport = client, transport
        self._portals: dict[str, Portal] = {}
        self._running: asyncio.Future[Any] | None = None
        self._skipping = False

    def cancel(self) -> None:
        """End the running statement, if there is one."""
        if self._running is not None:
            self._running.cancel()

    async def serve(self) -> None:
        """Answer until the client leaves. Raises ProtocolError, ConnectionError."""
        try:
            while (message := await self._transport.resumable()) is not None:
                if isinstance(message, m.Terminate):
                    return
                await self._answer(message)
        finally:
            await self._close_portals()
            await self._client.close_cursors()
            self._client.close()

    async def _answer(self, message: m.Message) -> None:
        if self._skipping and not isinstance(message, m.Sync):
            return
        try:
            await self._handled(message)
        except (PgError, RefusedError, MillstreamError) as error:
            await self._failed(_as_error(error))
            self._skipping = not isinstance(message, m.SimpleQuery | m.Sync)
        except (ConnectionError, m.ProtocolError, asyncio.CancelledError):
            raise
        except Exception as error:
            await self._failed(of_refusal(unexpected(error)))
            raise
        if isinstance(message, m.SimpleQuery):
            await self._ready()

    async def _failed(self, error: PgError) -> None:
        if self._client.transaction != IDLE:
            self._client.transaction = FAILED
        self._transport.write(m.failed(error.fields()))

    async def _ready(self) -> None:
        if self._client.transaction == IDLE:
            await self._close_portals()
        self._transport.write(m.ready(self._client.transaction))
        await self._transport.drain()

    async def _handled(self, message: m.Message) -> None:
        match message:
            case m.SimpleQuery(text):
                await self._simple(text)
            case m.Parse():
                await self._prepare(message)
            case m.Bind():
                await self._bind(message)
            case m.Describe(portal, name):
                await (self._describe_portal(name) if portal else self._describe(name))
            case m.Execute(portal, limit):
                await self._execute(portal, limit)
            case m.CloseNamed(portal, name):
                await self._close(name, portal=portal)
            case m.Sync():
                self._skipping = False
                await self._ready()
            case m.Flush():
                await self._transport.drain()
            case m.CopiedBytes() | m.CopyDone() | m.CopyFail():
                # What is left of a COPY that was refused.
                pass
            case m.Unsupported():
                raise PgError("Function calls are not done here.", code=NOT_SUPPORTED)
            case m.Secret():
                raise m.ProtocolError("a password after the start")
            case m.Terminate():
                pass
            case _:
                assert_never(message)

    # --- simple queries

    async def _simple(self, text: str) -> None:
        parts = await self._client.server.run(_read, text)
        if not parts:
            self._transport.write(m.EMPTY)
        for part, command in parts:
            outcome = await self._interruptible(self._begin(part, command, []))
            portal = Portal(Prepared(part, None, ()), [], outcome=outcome)
            try:
                if outcome.schema is not None and outcome.copied is None:
                    self._transport.write(columns_message(outcome.schema))
                await self._interruptible(self._send(portal, outcome, 0))
            finally:
                await portal.close()

    async def _begin(
        self, text: str, command: Command | None, values: list[Any]
    ) -> StatementResult:
        if self._client.transaction == FAILED and not isinstance(command, End):
            raise PgError(
                "current transaction is aborted, commands ignored until end of transaction block",
                code=FAILED_TRANSACTION,
            )
        if command is None:
            return await begin(self._client, text, values)
        before = dict(self._client.settings)
        outcome = await run(self._client, command)
        for name, value in self._client.settings.items():
            if before.get(name) != value and name in REPORTED:
                self._transport.write(m.parameter_status(REPORTED[name], value))
        return outcome

    async def _send(self, portal: Portal, outcome: StatementResult, limit: int) -> None:
        """The rows of a portal, each as soon as it is there, and its end."""
        if outcome.told:
            self._transport.write(m.notice(PgError(outcome.told, code="00000").fields("NOTICE")))
        if outcome.copied is not None:
            await self._copy(outcome, outcome.copied)
            return
        if outcome.target is not None:
            count = await self._copy_in(outcome.target)
            self._transport.write(m.complete(outcome.ended(count)))
            return
        if outcome.schema is not None:
            async for rows in portal.rows(limit):
                self._transport.write(b"".join(rows))
                await self._transport.drain()
        if outcome.schema is None or portal.ended:
            self._transport.write(m.complete(outcome.ended(portal.given)))
        else:
            self._transport.write(m.SUSPENDED)

    async def _copy(self, outcome: StatementResult, given: CopyFormat) -> None:
        schema = outcome.schema or Schema(())
        form = m.BINARY_FORMAT if given.binary else 0
        self._transport.write(m.copy_out(len(schema.columns), form))
        # Clients look for the header in the message of the first row, as PostgreSQL sends it.
        before = HEADER if given.binary else b""
        if given.header:
            names = [column.name.encode() for column in schema.columns]
            self._transport.write(m.copied(writer_of(given)(names)))
        count = 0
        async for table in outcome.batches:
            lines = copied_lines(table, schema, given) if table.num_rows else []
            if lines:
                count += len(lines)
                lines[0], before = before + lines[0], b""
                self._transport.write(b"".join(map(m.copied, lines)))
                await self._transport.drain()
        if given.binary:
            self._transport.write(m.copied(before + TRAILER))
        self._transport.write(m.COPY_DONE + m.complete(outcome.ended(count)))

    async def _copy_in(self, target: CopyTarget) -> int:
        """Take rows from the client, and insert them at their end; returns their number."""
        form = m.BINARY_FORMAT if target.given.binary else 0
        self._transport.write(m.copy_in(len(target.columns), form))
        await self._transport.drain()
        data = bytearray()
        while True:
            match await self._transport.resumable():
                case m.CopiedBytes(more):
                    data += more
                case m.CopyDone():
                    return await inserted(self._client, target, bytes(data))
                case m.CopyFail(reason):
                    raise PgError(f"COPY from stdin failed: {reason}", code=CANCELED)
                case m.Sync() | m.Flush():
                    # Extended queries send them before the rows.
                    pass
                case None | m.Terminate():
                    raise ConnectionResetError("the client has left")
                case _:
                    raise m.ProtocolError("another message among the rows of COPY")
            if len(data) > BYTES_MAX:
                raise PgError(
                    f"A COPY has at most {BYTES_MAX} bytes, as it inserts all of its rows or none.",
                    hint="Copy the rows in several pieces.",
                    code="53400",
                )

    # --- extended queries

    async def _prepare(self, message: m.Parse) -> None:
        prepared = self._client.prepared
        if message.name and message.name in prepared:
            raise PgError(f'prepared statement "{message.name}" already exists', code="42P05")
        if len(prepared) >= NAMED_MAX:
            raise PgError(f"A session has at most {NAMED_MAX} prepared statements.", code="53400")
        self._hold(len(message.text))
        made = await self._client.server.run(_statement, self._client, message)
        prepared[message.name] = made
        self._transport.write(m.PARSED)

    def _hold(self, size: int) -> None:
        """Raise PgError if so many bytes more are too many."""
        held = sum(len(one.text) for one in self._client.prepared.values())
        held += sum(portal.size for portal in self._portals.values())
        if held + size > HELD_BYTES_MAX:
            raise PgError(
                f"The statements and values of a session have at most {HELD_BYTES_MAX} bytes.",
                hint="Close some, or DEALLOCATE ALL.",
                code="53400",
            )

    def _prepared(self, name: str) -> Prepared:
        found = self._client.prepared.get(name)
        if found is None:
            raise PgError(f'prepared statement "{name}" does not exist', code="26000")
        return found

    async def _bind(self, message: m.Bind) -> None:
        prepared = self._prepared(message.statement)
        if len(message.values) != len(prepared.types):
            raise PgError(
                f"The statement has {len(prepared.types)} parameters, and {len(message.values)}"
                " values are given.",
                code="08P01",
            )
        values = arguments(message.values, message.formats, prepared.types)
        if message.portal and message.portal in self._portals:
            raise PgError(f'portal "{message.portal}" already exists', code="42P03")
        if len(self._portals) >= NAMED_MAX:
            raise PgError(f"A transaction has at most {NAMED_MAX} portals.", code="53400")
        await self._close(message.portal, portal=True, told=False)
        size = sum(len(value or b"") for value in message.values)
        self._hold(size)
        self._portals[message.portal] = Portal(prepared, values, message.result_formats, size)
        self._transport.write(m.BOUND)

    async def _describe(self, name: str) -> None:
        prepared = self._prepared(name)
        schema = await self._interruptible(self._schema(prepared))
        self._client.prepared[name] = replace(prepared, schema=schema)
        self._transport.write(m.parameter_description(prepared.types))
        self._transport.write(m.NO_COLUMNS if schema is None else columns_message(schema))

    async def _schema(self, prepared: Prepared) -> Schema | None:
        if not prepared.text:
            return None
        if prepared.command is not None:
            return schema_of_command(self._client, prepared.command)
        return await described(self._client, prepared.text, samples(prepared.types))

    async def _describe_portal(self, name: str) -> None:
        cursor = self._client.cursors.get(name)
        if cursor is not None and cursor.outcome.schema is not None:
            # A declared cursor is a portal of its own name.
            self._transport.write(columns_message(cursor.outcome.schema))
            return
        portal = self._portal(name)
        schema = None
        if portal.prepared.command is not None:
            schema = schema_of_command(self._client, portal.prepared.command)
        elif portal.outcome is not None or await self._tells_columns(portal):
            schema = portal.outcome.schema if portal.outcome else None
        shown = m.NO_COLUMNS if schema is None else columns_message(schema, portal.formats)
        self._transport.write(shown)

    async def _tells_columns(self, portal: Portal) -> bool:
        """Begin a query, which tells its columns; a statement that changes something waits."""
        if not portal.prepared.reads:
            return False
        await self._interruptible(self._begun(portal))
        return True

    def _portal(self, name: str) -> Portal:
        found = self._portals.get(name)
        if found is None:
            raise PgError(f'portal "{name}" does not exist', code="34000")
        return found

    async def _begun(self, portal: Portal) -> StatementResult:
        if portal.outcome is None:
            prepared = portal.prepared
            portal.begun(await self._begin(prepared.text, prepared.command, portal.values))
        assert portal.outcome is not None
        return portal.outcome

    async def _execute(self, name: str, limit: int) -> None:
        portal = self._portal(name)
        if not portal.prepared.text:
            self._transport.write(m.EMPTY)
            return
        outcome = await self._interruptible(self._begun(portal))
        try:
            await self._interruptible(self._send(portal, outcome, max(0, limit)))
        except BaseException:
            await portal.close()
            raise

    async def _close(self, name: str, *, portal: bool, told: bool = True) -> None:
        if portal:
            closed = self._portals.pop(name, None)
            if closed is not None:
                await closed.close()
        else:
            self._client.prepared.pop(name, None)
        if told:
            self._transport.write(m.CLOSED)

    async def _close_portals(self) -> None:
        while self._portals:
            _, portal = self._portals.popitem()
            await portal.close()

    # --- what ends a statement before its end

    async def _interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, unless the client asks for its end, leaves, or has limited it."""
        running: asyncio.Future[T] = asyncio.ensure_future(work)
        self._running = running
        leaving = asyncio.ensure_future(self._transport.left.wait())
        limit = milliseconds(self._client.settings["statement_timeout"])
        both: set[asyncio.Future[Any]] = {running, leaving}
        try:
            await asyncio.wait(
                both,
                timeout=limit / 1000 if limit else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if running.cancelled():
                raise PgError("canceling statement due to user request", code=CANCELED)
            if running.done():
                return running.result()
            if leaving.done():
                raise ConnectionResetError("the client has left")
            raise PgError("canceling statement due to statement timeout", code=CANCELED)
        finally:
            self._running = None
            leaving.cancel()
            if not running.done():
                running.cancel()
                await asyncio.wait({running})
                if not running.cancelled():
                    running.exception()


def _read(text: str) -> list[tuple[str, Command | None]]:
    return [(part, command_of(part)) for part in parts_of(text)]


def _statement(client: SessionState, message: m.Parse) -> Prepared:
    """Read the text of a statement; called in a thread."""
    parts = _read(message.text)
    if len(parts) > 1:
        raise PgError(_ONLY_ONE)
    text, command = parts[0] if parts else ("", None)
    types = parameter_types(text, message.types, client.sources(), client.spelling())
    return Prepared(text, command, types, reads=gives_rows(text))


def _as_error(error: PgError | RefusedError | MillstreamError) -> PgError:
    match error:
        case PgError():
            return error
        case RefusedError():
            return of_refusal(error)
        case MillstreamError():
            return of_refusal(refusal(error, None))
    assert_never(error)
