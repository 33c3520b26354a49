"""Statements that have begun, and what reads their rows: cursors and portals."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.model.schema import Column, Schema
from millstream.scripts.text import ParsedStatement
from millstream_parser.parameters import Value
from millstream_server.postgres.arguments import format_of
from millstream_server.postgres.commands import Command
from millstream_server.postgres.copying import CopyFormat
from millstream_server.postgres.messages import Field, row_description
from millstream_server.postgres.refusals import NOT_SUPPORTED, PgError
from millstream_server.postgres.values import pg_type, rows_of

_COUNTED = ("SELECT", "FETCH", "COPY")


async def _nothing() -> AsyncGenerator[pa.Table, None]:
    return
    yield


@dataclass(frozen=True, slots=True)
class CopyTarget:
    """Where the rows of COPY go: the INSERT of which each is an execution, and its columns."""

    parsed: ParsedStatement
    columns: tuple[Column, ...]
    given: CopyFormat


@dataclass(slots=True, eq=False)
class StatementResult:
    """A statement that has begun. `schema`: of its rows, None without rows. `tag`: what its end is
    called. `told`: a message for the user. `copied`: its rows are sent as those of COPY. `target`:
    its rows come from the client. Close `batches`."""

    tag: str
    schema: Schema | None = None
    batches: AsyncGenerator[pa.Table, None] = field(default_factory=_nothing)
    told: str = ""
    copied: CopyFormat | None = None
    target: CopyTarget | None = None

    def ended(self, count: int) -> str:
        """The tag after so many rows."""
        return f"{self.tag} {count}" if self.tag in _COUNTED else self.tag


@dataclass(slots=True, eq=False)
class Cursor:
    """A declared query, whose rows are fetched in parts."""

    outcome: StatementResult
    left: pa.Table | None = None

    async def take(self, count: int) -> AsyncGenerator[pa.Table, None]:
        """The next rows, as they come: `count` of them, or all if it is negative."""
        while count:
            table = self.left if self.left is not None else await anext(self.outcome.batches, None)
            if table is None:
                return
            taken = table if count < 0 else table.slice(0, count)
            rest = table.slice(taken.num_rows)
            self.left = rest if rest.num_rows else None
            count -= taken.num_rows if count > 0 else 0
            yield taken


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared statement, empty or one. `types`: the OIDs of its parameters. `schema`: its
    columns, once a client was told them. `reads`: whether it only reads."""

    text: str
    command: Command | None
    types: tuple[int, ...]
    schema: Schema | None = None
    reads: bool = False


@dataclass(slots=True, eq=False)
class Portal:
    """A prepared statement with its values. `size`: the bytes of these. `outcome` is None until it
    has begun; `left` has rows that were produced, but not asked for yet."""

    prepared: Prepared
    values: list[Value]
    formats: tuple[int, ...] = ()
    size: int = 0
    outcome: StatementResult | None = None
    left: list[bytes] = field(default_factory=list)
    given: int = 0
    ended: bool = False

    def begun(self, outcome: StatementResult) -> None:
        """Note that it has begun. Raises PgError if its columns are others than those that the
        client was told."""
        self.outcome = outcome
        known = self.prepared.schema
        if known is not None and _shape(known) != _shape(outcome.schema):
            raise PgError("cached plan must not change result type", code=NOT_SUPPORTED)

    async def rows(self, limit: int) -> AsyncGenerator[list[bytes], None]:
        """Rows as messages, as they come: at most `limit`, 0 for all. Sets `ended` at the end."""
        outcome = self.outcome
        assert outcome is not None and outcome.schema is not None
        formats = [format_of(self.formats, at) for at in range(len(outcome.schema.columns))]
        room = limit
        while not limit or room:
            if not self.left:
                table = await anext(outcome.batches, None)
                if table is None:
                    self.ended = True
                    return
                self.left = rows_of(table, outcome.schema, formats)
            taken = self.left[:room] if limit else self.left
            self.left = self.left[len(taken) :]
            self.given += len(taken)
            room -= len(taken)
            yield taken

    async def close(self) -> None:
        """End it; idempotent."""
        self.ended = True
        if self.outcome is not None:
            await self.outcome.batches.aclose()


def _shape(schema: Schema | None) -> tuple[tuple[str, int], ...]:
    """What a client knows of columns."""
    if schema is None:
        return ()
    return tuple((column.name, pg_type(column.type).oid) for column in schema.columns)


def columns_message(schema: Schema, formats: tuple[int, ...] = ()) -> bytes:
    """The description of columns for a client."""
    fields = []
    for number, column in enumerate(schema.columns):
        kind = pg_type(column.type)
        fields.append(Field(column.name, kind.oid, kind.size, format_of(formats, number)))
    return row_description(fields)
