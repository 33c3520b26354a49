"""Rows as protobuf messages in JSON objects: the format of `Accept:
application/vnd.ksql.v1+protobuf`.

The header holds the definition of the message. NULL is not written; a scalar that is zero is not
either, as in every message of proto3.
"""

from __future__ import annotations

import base64
import decimal
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from millstream.model import types as t
from millstream.model.batch import DIFF
from millstream.model.errors import RecordError
from millstream.model.java_time import civil_from_days
from millstream.model.physical import physical_names
from millstream.model.python_values import counted
from millstream.model.schema import Schema
from millstream.model.types import SqlType
from millstream_server.failures import BAD_STATEMENT, RefusedError
from millstream_server.results.framing import PROTOBUF, Objects
from millstream_server.results.proto_message import field_name, row_message
from millstream_server.results.values import text_of

_EXACT = decimal.Context(prec=400)


class ProtobufObjects:
    """The framing."""

    media_type = PROTOBUF

    def __init__(self, *, pull: bool) -> None:
        self._objects = Objects(pull=pull)

    def header(self, query_id: str | None, schema: Schema) -> bytes:
        """See `Framing`."""
        self._schema = schema
        header = {"queryId": query_id, "protoSchema": row_message(schema).definition}
        return b"[" + self._objects.first(text_of({"header": header}))

    def rows(self, table: pa.Table) -> bytes:
        """See `Framing`. A deletion has only its key columns, because NULL is not written. Raises
        RefusedError for rows that a message cannot represent: NULL in a list or map, lists in
        lists."""
        try:
            messages = list(_messages(table, self._schema))
        except RecordError as error:
            message = f"Cannot write a row as protobuf: {error.message}"
            raise RefusedError(BAD_STATEMENT, message) from error
        marks = [""] * table.num_rows
        if DIFF in table.column_names:
            marks = [',"tombstone":true' if d < 1 else "" for d in table[DIFF].to_pylist()]
        return b"".join(
            self._objects.following(
                f'{{"row":{{"protobufBytes":"{base64.b64encode(message).decode()}"{mark}}}}}'
            )
            for message, mark in zip(messages, marks, strict=True)
        )

    def end(self, message: str | None) -> bytes:
        """See `Framing`."""
        return self._objects.end(message)

    def failed(self, refused: RefusedError) -> bytes:
        """See `Framing`."""
        return self._objects.failed(refused)


def _messages(table: pa.Table, schema: Schema) -> Iterator[bytes]:
    """The rows as messages; raises RecordError for one that cannot be represented."""
    made = row_message(schema).cls
    kinds = [column.type for column in schema.columns]
    # Python has dates for the years 1 to 9999 only.
    columns = [counted(column).to_pylist() for column in table.columns[: len(kinds)]]
    for row in zip(*columns, strict=True):
        yield made(**_fields(row, kinds)).SerializeToString()


def _fields(values: Sequence[Any], kinds: Sequence[SqlType]) -> dict[str, Any]:
    return {
        field_name(number): _field(value, kind)
        for number, (value, kind) in enumerate(zip(values, kinds, strict=True), start=1)
        if value is not None
    }


def _field(value: Any, kind: SqlType) -> Any:
    """A value as the constructor of a message takes it."""
    match kind:
        case t.Array(t.Array() | t.Map() as element) if value:
            raise RecordError(f"Protobuf cannot repeat a field of type {element}")
        case t.Array(element):
            return [_field(item, element) for item in _present(value)]
        case t.Map(key, member):
            return [_fields(_present(entry), (key, member)) for entry in value]
        case t.Struct(members):
            names = physical_names(member.name for member in members)
            return _fields([value[name] for name in names], [member.type for member in members])
        case t.Decimal(precision, scale):
            whole = int(value.scaleb(scale, _EXACT))
            digits = whole.to_bytes((whole.bit_length() + 8) // 8, "big", signed=True)
            return _numbered(digits, precision, scale)
        case t.DATE:
            return _numbered(*civil_from_days(value))
        case t.TIME:
            return _numbered(value.hour, value.minute, value.second, value.microsecond * 1000)
        case t.TIMESTAMP:
            return _numbered(value // 1_000_000, value % 1_000_000 * 1000)
    return value


def _present(values: Sequence[Any]) -> Sequence[Any]:
    if any(value is None for value in values):
        raise RecordError("Protobuf has no NULL inside of an array or map")
    return values


def _numbered(*values: bytes | int) -> dict[str, bytes | int]:
    return {field_name(number): value for number, value in enumerate(values, start=1)}
