"""Rows as protobuf messages in JSON objects: the format of `Accept:
application/vnd.ksql.v1+protobuf`.

The header holds the definition of the message; its fields are numbered in column order.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pyarrow as pa

from millstream.formats.payload import Layout
from millstream.formats.protobuf import write_protobuf
from millstream.model import types as t
from millstream.model.batch import DIFF
from millstream.model.schema import Column, Schema
from millstream.model.types import SqlType
from millstream_server.failures import BAD_STATEMENT, RefusedError
from millstream_server.results.framing import PROTOBUF, Objects
from millstream_server.results.values import text_of

_SCALARS: dict[SqlType, str] = {
    t.BOOLEAN: "bool",
    t.INTEGER: "int32",
    t.BIGINT: "int64",
    t.DOUBLE: "double",
    t.STRING: "string",
    t.BYTES: "bytes",
}
_IMPORTED: dict[SqlType, tuple[str, str]] = {
    t.DATE: ("google.type.Date", "google/type/date.proto"),
    t.TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    t.TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}
_DECIMAL = ("confluent.type.Decimal", "confluent/type/decimal.proto")


class ProtobufObjects:
    """The framing."""

    media_type = PROTOBUF

    def __init__(self, *, pull: bool) -> None:
        self._objects = Objects(pull=pull)

    def header(self, query_id: str | None, schema: Schema) -> bytes:
        """See `Framing`."""
        self._layout = Layout(schema.columns, tuple(range(len(schema.columns))))
        header = {"queryId": query_id, "protoSchema": proto_schema(schema)}
        return b"[" + self._objects.first(text_of({"header": header}))

    def rows(self, table: pa.Table) -> bytes:
        """See `Framing`. A deletion has only its key columns, because NULL is not written. Raises
        RefusedError for rows that a message cannot represent: NULL in a list or map, lists in
        lists."""
        columns = [column.combine_chunks() for column in table.columns[: len(self._layout.columns)]]
        written = write_protobuf(columns, self._layout)
        for reason in written.bad.values():
            raise RefusedError(BAD_STATEMENT, f"Cannot write a row as protobuf: {reason}")
        marks = [""] * table.num_rows
        if DIFF in table.column_names:
            marks = [',"tombstone":true' if d < 1 else "" for d in table[DIFF].to_pylist()]
        return b"".join(
            self._objects.following(
                f'{{"row":{{"protobufBytes":"{base64.b64encode(message or b"").decode()}"{mark}}}}}'
            )
            for message, mark in zip(written.payload.to_pylist(), marks, strict=True)
        )

    def end(self, message: str | None) -> bytes:
        """See `Framing`."""
        return self._objects.end(message)

    def failed(self, refused: RefusedError) -> bytes:
        """See `Framing`."""
        return self._objects.failed(refused)


def proto_schema(schema: Schema) -> str:
    """The definition of a message with these columns."""
    imports: dict[str, None] = {}
    message = _message("ConnectDefault1", schema.columns, 0, imports, [1])
    head = 'syntax = "proto3";\n\n'
    if imports:
        head += "".join(f'import "{name}";\n' for name in imports) + "\n"
    return head + message


def _message(
    name: str,
    columns: Sequence[Column | t.Field],
    depth: int,
    imports: dict[str, None],
    count: list[int],
) -> str:
    """`count`: the number of messages so far, for their names."""
    pad = "  " * depth
    nested: list[str] = []
    lines = []
    for number, column in enumerate(columns, start=1):
        kind = _type(column.type, depth + 1, imports, count, nested)
        lines.append(f"{pad}  {kind} {column.name} = {number};\n")
    inner = "".join(f"\n{text}" for text in nested)
    return f"{pad}message {name} {{\n{''.join(lines)}{inner}{pad}}}\n"


def _type(
    kind: SqlType, depth: int, imports: dict[str, None], count: list[int], nested: list[str]
) -> str:
    match kind:
        case t.Array(element):
            return f"repeated {_type(element, depth, imports, count, nested)}"
        case t.Map(key, value):
            entry = _named(count)
            fields = (t.Field("key", key), t.Field("value", value))
            nested.append(_message(entry, fields, depth, imports, count))
            return f"repeated {entry}"
        case t.Struct(fields):
            name = _named(count)
            nested.append(_message(name, fields, depth, imports, count))
            return name
    text, path = _DECIMAL if isinstance(kind, t.Decimal) else _IMPORTED.get(kind, ("", ""))
    if path:
        imports[path] = None
    return text or _SCALARS.get(kind, "string")


def _named(count: list[int]) -> str:
    count[0] += 1
    return f"ConnectDefault{count[0]}"
