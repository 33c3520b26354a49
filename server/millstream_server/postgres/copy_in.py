"""COPY … FROM STDIN: rows of a client into a stream or table, all or none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from millstream.log.log import Appended
from millstream.model.errors import MillstreamError
from millstream.scripts.text import ParsedStatement
from millstream.statements.bulk_inserts import records_to_insert
from millstream.statements.inserting import insertable_schema, refuse_insert, target_columns
from millstream_parser import statements as s
from millstream_server import statements
from millstream_server.auth.endpoint_needs import POSTGRES
from millstream_server.failures import refusal
from millstream_server.postgres.copied_binary import binary_pieces
from millstream_server.postgres.copied_values import converted
from millstream_server.postgres.copying import CopyFormat, Pieces, pieces
from millstream_server.postgres.portals import CopyTarget
from millstream_server.postgres.refusals import PgError
from millstream_server.postgres.session_state import IDLE, SessionState

BYTES_MAX = 64 << 20
"""The most bytes of one COPY, which are held until its end: it inserts all of its rows or none."""


async def opened(client: SessionState, table: str, columns: str, given: CopyFormat) -> CopyTarget:
    """The target of a COPY, for whose rows the client may be asked. `table` and `columns` are as
    they were written. Raises PgError, RefusedError."""
    client.server.check_serving()
    await client.recognise_again()
    return await client.server.run(_opened, client, table, columns, given)


def _opened(client: SessionState, table: str, columns: str, given: CopyFormat) -> CopyTarget:
    server = client.server
    into = f"INSERT INTO {table} {columns} VALUES"
    names = _insert(client, f"{into} (NULL);")
    statement = names.statement
    assert isinstance(statement, s.InsertValues)
    session = server.session(client.asked("", []))
    # First, so that no later error tells an unauthorised user whether the source exists.
    server.guard.authorise(client.principal, names, session)
    source = server.engine.catalog.find(statement.target)
    if source is None:
        raise PgError(f'relation "{statement.target.lower()}" does not exist', code="42P01")
    catalog, registry = server.engine.catalog, server.engine.registry
    try:
        refuse_insert(source, "copy into", catalog, registry.settings)
    except MillstreamError as error:
        raise refusal(error, names.text) from error
    count = len(statement.columns) or len(insertable_schema(source).columns)
    whole = _insert(client, f"{into} ({', '.join(['NULL'] * count)});")
    assert isinstance(whole.statement, s.InsertValues)
    try:
        found = target_columns(source, whole.statement.columns, count, "COPY")
    except MillstreamError as error:
        raise refusal(error, whole.text) from error
    return CopyTarget(whole, tuple(found), given)


def _insert(client: SessionState, text: str) -> ParsedStatement:
    asked = client.asked(text, [])
    (parsed,) = statements.statements_of(asked, client.server.session(asked))
    if not isinstance(parsed.statement, s.InsertValues):
        raise PgError("COPY names a stream or a table, and its columns in parentheses.")
    return parsed


async def inserted(client: SessionState, target: CopyTarget, data: bytes) -> int:
    """Insert the rows in these bytes; returns their number. Raises PgError, RefusedError."""
    guard = client.server.guard
    guard.enter(client.principal, POSTGRES)
    try:
        count = await client.server.run(_inserted, client, target, data)
    finally:
        guard.leave(client.principal, POSTGRES)
    client.written = client.written or (client.transaction != IDLE and count > 0)
    return count


def _inserted(client: SessionState, target: CopyTarget, data: bytes) -> int:
    server, statement = client.server, target.parsed.statement
    assert isinstance(statement, s.InsertValues)
    session = server.session(client.asked("", []))
    # Rows without ROWTIME have the time of the COPY, in whichever piece they are.
    now = server.engine.clock()
    inserts = replace(server.engine.inserts, clock=lambda: now)
    # Rights may have changed since the rows were asked for.
    server.guard.authorise(client.principal, target.parsed, session)
    server.guard.record(client.principal, target.parsed)
    names, count = [column.name for column in target.columns], 0
    records: list[Appended[pa.Table]] = []
    try:
        width = len(target.columns)
        binary = target.given.binary
        found: Iterator[Pieces] = (
            binary_pieces(data, width) if binary else pieces(data, target.given, width)
        )
        for fields in found:
            rows = _converted(client, target, fields, count)
            records += records_to_insert(statement.target, rows, names, inserts, session, count)
            count += len(rows)
        if records:
            inserts.writer.append(records)
    except MillstreamError as error:
        raise refusal(error, target.parsed.text) from error
    return count


def _pieces(data: bytes, target: CopyTarget) -> Iterator[Pieces]:
    count = len(target.columns)
    return binary_pieces(data, count) if target.given.binary else pieces(data, target.given, count)


def _converted(
    client: SessionState, target: CopyTarget, fields: Pieces, before: int
) -> list[tuple[Any, ...]]:
    """Rows of values. `before`: how many rows were before them."""
    values = [
        converted(
            column,
            about.type,
            client.spelling().shown(about.name),
            before,
            binary=target.given.binary,
        )
        for column, about in zip(fields, target.columns, strict=True)
    ]
    return list(zip(*values, strict=True))
