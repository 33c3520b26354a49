"""Framing of a query's rows, one class for each media type (reference: 5).

Each is called in order: `header`, `rows` any number of times, then `end` or `failed`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from millstream.model.batch import DIFF
from millstream.model.physical import arrow_type
from millstream.model.schema import Column, Schema
from millstream.query.changes import without_deletions
from millstream_server.failures import RefusedError
from millstream_server.results.values import row_texts, text_of

KSQL = "application/vnd.ksql.v1+json"
JSON = "application/json"
DELIMITED = "application/vnd.ksqlapi.delimited.v1"
PROTOBUF = "application/vnd.ksql.v1+protobuf"
ARROW = "application/vnd.apache.arrow.stream"


class Framing(Protocol):
    """The encoder of a query's response."""

    media_type: str

    def header(self, query_id: str | None, schema: Schema) -> bytes:
        """The part before the rows."""

    def rows(self, table: pa.Table) -> bytes:
        """Rows; `$diff` less than 1 marks deletions."""

    def end(self, message: str | None) -> bytes:
        """The last part; `message` has the reason."""

    def failed(self, refused: RefusedError) -> bytes:
        """The last part after an error."""


def marked_texts(table: pa.Table, schema: Schema) -> Iterable[str]:
    """Rows as the text after `"columns":` in an object: a JSON array, and a marker for a
    deletion."""
    texts = row_texts(table, schema)
    if DIFF not in table.column_names:
        return texts
    marks = (',"tombstone":true' if diff < 1 else "" for diff in table[DIFF].to_pylist())
    return (f"{text}{mark}" for text, mark in zip(texts, marks, strict=True))


def column_types(schema: Schema) -> list[str]:
    """The types as texts."""
    return [str(column.type) for column in schema.columns]


def _described(query_id: str | None, schema: Schema) -> str:
    return text_of(
        {
            "queryId": query_id,
            "columnNames": list(schema.names),
            "columnTypes": column_types(schema),
        }
    )


class Delimited:
    """A JSON value on each line."""

    media_type = DELIMITED

    def header(self, query_id: str | None, schema: Schema) -> bytes:
        """See `Framing`."""
        self._schema = schema
        return _described(query_id, schema).encode() + b"\n"

    def rows(self, table: pa.Table) -> bytes:
        """See `Framing`."""
        return self.framed(row_texts(without_deletions(table), self._schema))

    def framed(self, texts: Iterable[str]) -> bytes:
        """Rows that are already JSON arrays."""
        return "".join(f"{text}\n" for text in texts).encode()

    def end(self, message: str | None) -> bytes:
        """See `Framing`."""
        return b""

    def failed(self, refused: RefusedError) -> bytes:
        """See `Framing`."""
        return text_of(refused.entity()).encode() + b"\n"


class PlainArray:
    """One JSON array: the description, then the rows."""

    media_type = JSON

    def header(self, query_id: str | None, schema: Schema) -> bytes:
        """See `Framing`."""
        self._schema = schema
        return b"[" + _described(query_id, schema).encode()

    def rows(self, table: pa.Table) -> bytes:
        """See `Framing`."""
        return self.framed(row_texts(without_deletions(table), self._schema))

    def framed(self, texts: Iterable[str]) -> bytes:
        """Rows that are already JSON arrays."""
        return "".join(f",{text}" for text in texts).encode()

    def end(self, message: str | None) -> bytes:
        """See `Framing`."""
        return b"]"

    def failed(self, refused: RefusedError) -> bytes:
        """See `Framing`."""
        return b"," + text_of(refused.entity()).encode() + b"]"


class Objects:
    """One JSON array of objects, each with one field that determines its kind.

    The separator directly follows each object, so that a client that reads lines gets a row as soon
    as it arrives; in a `pull` query it precedes the next object, and none is left over. A line end
    also follows the last object, because clients look for it.
    """

    media_type = KSQL

    def __init__(self, *, pull: bool) -> None:
        self._pull = pull

    def header(self, query_id: str | None, schema: Schema) -> bytes:
        """See `Framing`."""
        self._schema = schema
        shown = str(schema if self._pull else Schema(tuple(map(_unmarked, schema.columns))))
        return b"[" + self.first(text_of({"header": {"queryId": query_id, "schema": shown}}))

    def rows(self, table: pa.Table) -> bytes:
        """See `Framing`."""
        return self.framed(marked_texts(table, self._schema))

    def framed(self, texts: Iterable[str]) -> bytes:
        """Rows that are already JSON arrays."""
        return b"".join(self.following(f'{{"row":{{"columns":{text}}}}}') for text in texts)

    def end(self, message: str | None) -> bytes:
        """See `Framing`."""
        return self._last({"finalMessage": message} if message else None)

    def failed(self, refused: RefusedError) -> bytes:
        """See `Framing`."""
        return self._last({"errorMessage": refused.entity()})

    def first(self, text: str) -> bytes:
        """The first object of the array."""
        return text.encode() if self._pull else f"{text},\n".encode()

    def following(self, text: str) -> bytes:
        """Any other one."""
        return f",\n{text}".encode() if self._pull else f"{text},\n".encode()

    def _last(self, value: dict[str, object] | None) -> bytes:
        if value is None:
            return b"]\n"
        before = ",\n" if self._pull else ""
        return f"{before}{text_of(value)}]\n".encode()


JsonFramings = Delimited | PlainArray | Objects
"""Framings that also accept rows as JSON arrays."""


def _unmarked(column: Column) -> Column:
    return Column(column.name, column.type)


class ArrowStream:
    """An Arrow IPC stream. It cannot represent an error, which truncates the stream. With
    `changes`, a last column `$diff` says which rows are deletions: it is less than 1 there."""

    media_type = ARROW

    def __init__(self, *, changes: bool = False) -> None:
        self._changes = changes

    def header(self, query_id: str | None, schema: Schema) -> bytes:
        """See `Framing`."""
        self._sink = io.BytesIO()
        about = {"queryId": query_id or "", "schema": str(schema)}
        fields = [pa.field(column.name, arrow_type(column.type)) for column in schema.columns]
        if self._changes:
            fields.append(pa.field(DIFF, pa.int8()))
        self._schema = pa.schema(fields, metadata=about)
        self._writer = pa.ipc.new_stream(self._sink, self._schema)
        if self._changes:
            # The writer keeps the columns until there is a batch, which may be long.
            self._writer.write_batch(pa.RecordBatch.from_pylist([], schema=self._schema))
        return self._taken()

    def rows(self, table: pa.Table) -> bytes:
        """See `Framing`."""
        columns = without_deletions(table).columns[: len(self._schema)]
        if self._changes:
            columns = _with_diff(table)
        wanted = zip(columns, self._schema.types, strict=True)
        self._writer.write_table(
            pa.Table.from_arrays([c.cast(kind) for c, kind in wanted], schema=self._schema)
        )
        return self._taken()

    def end(self, message: str | None) -> bytes:
        """See `Framing`."""
        self._writer.close()
        return self._taken()

    def failed(self, refused: RefusedError) -> bytes:
        """See `Framing`."""
        return b""

    def _taken(self) -> bytes:
        taken = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return taken


def _with_diff(table: pa.Table) -> list[pa.ChunkedArray]:
    """The columns of changes, `$diff` last: of rows of a stream it is 1."""
    if DIFF in table.column_names:
        return [*table.drop_columns([DIFF]).columns, table[DIFF]]
    return [*table.columns, pa.chunked_array([pa.array([1] * table.num_rows, pa.int8())])]
