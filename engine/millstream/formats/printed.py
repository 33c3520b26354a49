"""Payloads of the registry's formats as text, for people who look at a topic."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from millstream.formats.payload import Bytes, Layout, Subject
from millstream.formats.registered import framed
from millstream.formats.registered_rows import with_imports
from millstream.formats.schema_error import SchemaError
from millstream.formats.schema_formats import SCHEMA_FORMATS, ReadRows, SchemaFormat
from millstream.model.errors import UnavailableError
from millstream.model.schema import Column, Role
from millstream.model.schema_text import Schemas
from millstream.model.types import Map, SqlType, Struct


def printers(schemas: Schemas) -> Mapping[str, Callable[[bytes], str]]:
    """What shows a payload of each format as JSON; each raises ValueError for a payload that is not
    of its format, or whose schema the registry does not tell."""
    return {name: _printer(form, schemas) for name, form in SCHEMA_FORMATS.items()}


def _printer(form: SchemaFormat, schemas: Schemas) -> Callable[[bytes], str]:
    def shown(data: bytes) -> str:
        payload = pa.array([data], pa.binary())
        given = framed(payload)
        if given.bad:
            raise ValueError(given.bad[0])
        ((schema_id, _),) = given.by_schema()
        try:
            text = schemas.by_id(schema_id)
            if text.kind != form.kind:
                raise ValueError(f"schema {schema_id} is one of {text.kind}")
            kind = form.type_of(with_imports(schemas, text))
        except (UnavailableError, SchemaError) as error:
            raise ValueError(str(error)) from error
        if form.read_rows is None:
            return json.dumps(json.loads(data[5:]), ensure_ascii=False)
        if kind is None:
            return data[5:].hex(" ")
        value = _value(form.read_rows, payload, kind, schemas)
        return json.dumps(value, ensure_ascii=False)

    return shown


def _value(read_rows: ReadRows, payload: Bytes, kind: SqlType, schemas: Schemas) -> Any:
    """The value of a payload as JSON. Raises ValueError for one that is cut off."""
    wrapped = isinstance(kind, Struct)
    fields = kind.fields if isinstance(kind, Struct) else ()
    columns = [(field.name, field.type) for field in fields] or [("", kind)]
    layout = Layout(
        tuple(Column(name, each, Role.VALUE) for name, each in columns),
        tuple(range(len(columns))),
        wrapped,
        subject=Subject(schemas, "", "", is_key=False),
    )
    read = read_rows(payload, layout)
    if read.bad:
        raise ValueError(next(iter(read.bad.values())))
    values = [
        _plain(array.to_pylist()[0], each)
        for array, (_, each) in zip(read.columns, columns, strict=True)
    ]
    return dict(zip((name for name, _ in columns), values, strict=True)) if wrapped else values[0]


def _plain(value: Any, kind: SqlType) -> Any:
    match value, kind:
        case list(), Map(_, member):
            return {key: _plain(each, member) for key, each in value}
        case list(), _:
            return [_plain(each, kind.element) for each in value]  # type: ignore[union-attr]
        case dict(), Struct(fields):
            return {field.name: _plain(value[field.name], field.type) for field in fields}
        case bytes(), _:
            return base64.b64encode(value).decode()
        case ((bool() | int() | float() | str() | None), _):
            return value
    return str(value)
