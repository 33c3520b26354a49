"""What executes the commands of a session: transactions, settings, cursors, COPY."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import assert_never

import pyarrow as pa

from millstream.model.schema import Column, Schema
from millstream.model.types import STRING
from millstream_server.postgres import commands as c
from millstream_server.postgres.copy_in import opened
from millstream_server.postgres.portals import Cursor, StatementResult
from millstream_server.postgres.refusals import NOT_SUPPORTED, PgError
from millstream_server.postgres.session_state import FAILED, IDLE, IN_TRANSACTION, SessionState
from millstream_server.postgres.settings import DEFAULTS, changed
from millstream_server.postgres.statements import begin, once

CURSORS_MAX = 100
_KEPT = (
    "What was executed stays: statements take effect at once, and no ROLLBACK undoes INSERT, CREATE"
    " or DROP."
)


async def run(client: SessionState, command: c.Command) -> StatementResult:
    """Execute a command. Raises PgError."""
    match command:
        case c.Begin():
            client.transaction = IN_TRANSACTION
            return StatementResult("BEGIN")
        case c.End(commit):
            return await _end(client, commit=commit)
        case c.Savepoint(tag):
            return StatementResult(tag, told=_KEPT if tag == "ROLLBACK" and client.written else "")
        case c.SetSetting(name, value):
            return _set(client, name, value)
        case c.ShowSetting(name):
            return _show(client, name)
        case c.ResetAll(tag):
            return await _reset(client, tag)
        case c.Deallocate(name):
            _deallocate(client, name)
            return StatementResult("DEALLOCATE")
        case c.Declare(name, query):
            return await _declare(client, name, query)
        case c.Fetch(name, count, move):
            return await _fetch(client, name, count, move=move)
        case c.CloseCursor(name):
            return await _close(client, name)
        case c.CopyFrom(table, columns, given):
            return StatementResult("COPY", target=await opened(client, table, columns, given))
        case c.CopyOut(query, given):
            outcome = await begin(client, query, [])
            if outcome.schema is None:
                raise PgError(
                    "COPY takes a query that gives rows.", hint="COPY (SELECT …) TO STDOUT"
                )
            outcome.tag, outcome.copied = "COPY", given
            return outcome
        case c.Ignored(tag):
            return StatementResult(tag)
    assert_never(command)


def schema_of_command(client: SessionState, command: c.Command) -> Schema | None:
    """The columns of the rows that a command gives."""
    match command:
        case c.ShowSetting(name):
            names = ("name", "setting") if name == "all" else (name,)
            return Schema(tuple(Column(each, STRING) for each in names))
        case c.Fetch(name, _, False):
            return _cursor(client, name).outcome.schema
    return None


async def _end(client: SessionState, *, commit: bool) -> StatementResult:
    failed, written = client.transaction == FAILED, client.written
    client.transaction, client.written = IDLE, False
    await client.close_cursors()
    if commit and not failed:
        return StatementResult("COMMIT")
    return StatementResult("ROLLBACK", told=_KEPT if written else "")


def _set(client: SessionState, name: str, value: str | None) -> StatementResult:
    new = changed(name, value)
    if new is not None:
        client.settings[new[0]] = new[1]
        return StatementResult("SET" if value is not None else "RESET")
    raise PgError(
        f"There is no setting {name}.",
        hint=f"Properties of the dialect have quotes: SET '{name}' = '…'.",
        code="42704",
    )


def _show(client: SessionState, name: str) -> StatementResult:
    schema = schema_of_command(client, c.ShowSetting(name))
    if name == "all":
        columns: list[list[str]] = [list(client.settings), list(client.settings.values())]
    else:
        columns = [[client.settings[name]]]
    names = [str(number) for number in range(len(columns))]
    return StatementResult("SHOW", schema, once(pa.table(columns, names=names)))


async def _reset(client: SessionState, tag: str) -> StatementResult:
    client.settings = dict(DEFAULTS) | {"session_authorization": client.user}
    client.properties.clear()
    client.variables.clear()
    if tag == "DISCARD ALL":
        client.prepared.clear()
        await client.close_cursors()
    return StatementResult(tag)


def _deallocate(client: SessionState, name: str | None) -> None:
    if name is None:
        client.prepared.clear()
    elif client.prepared.pop(name, None) is None:
        raise PgError(f'prepared statement "{name}" does not exist', code="26000")


async def _declare(client: SessionState, name: str, query: str) -> StatementResult:
    if name in client.cursors:
        raise PgError(f'cursor "{name}" already exists', code="42P03")
    if len(client.cursors) >= CURSORS_MAX:
        raise PgError(f"A session has at most {CURSORS_MAX} cursors.", code="53400")
    outcome = await begin(client, query, [])
    if outcome.schema is None:
        raise PgError("A cursor takes a query that gives rows.", code=NOT_SUPPORTED)
    client.cursors[name] = Cursor(outcome)
    return StatementResult("DECLARE CURSOR")


def _cursor(client: SessionState, name: str) -> Cursor:
    found = client.cursors.get(name)
    if found is None:
        raise PgError(f'cursor "{name}" does not exist', code="34000")
    return found


async def _fetch(client: SessionState, name: str, count: int, *, move: bool) -> StatementResult:
    cursor = _cursor(client, name)
    rows = _taken(client, name, cursor, count)
    if not move:
        return StatementResult("FETCH", cursor.outcome.schema, rows)
    skipped = 0
    async for table in rows:
        skipped += table.num_rows
    return StatementResult(f"MOVE {skipped}")


async def _taken(
    client: SessionState, name: str, cursor: Cursor, count: int
) -> AsyncGenerator[pa.Table, None]:
    """The next rows. A cursor that was interrupted is gone: its rows would have a gap."""
    whole = False
    taking = cursor.take(count)
    try:
        async for table in taking:
            yield table
        whole = True
    finally:
        await taking.aclose()
        if not whole:
            client.cursors.pop(name, None)
            await cursor.outcome.batches.aclose()


async def _close(client: SessionState, name: str | None) -> StatementResult:
    if name is None:
        await client.close_cursors()
        return StatementResult("CLOSE CURSOR ALL")
    cursor = _cursor(client, name)
    del client.cursors[name]
    await cursor.outcome.batches.aclose()
    return StatementResult("CLOSE CURSOR")
