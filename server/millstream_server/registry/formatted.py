"""Schemas in the form that a client asks for."""

from __future__ import annotations

from millstream.formats.proto_descriptor_write import descriptor_base64
from millstream.formats.schema_error import SchemaError
from millstream.model.schema_text import SchemaText
from millstream_server.failures import RefusedError
from millstream_server.registry.failures import INVALID_SCHEMA
from millstream_server.registry.serving import Asked

FILE = "default.proto"
"""The name of a file that has none: a schema refers to others by names, and has none itself."""


def formatted(asked: Asked, schema: SchemaText) -> str:
    """The text of a schema; with `format=serialized`, the descriptor of a Protobuf file in
    base64."""
    if asked.query.get("format") != "serialized" or schema.kind != "PROTOBUF":
        return schema.text
    imported = tuple(asked.registry.imported(schema).items())
    try:
        return descriptor_base64(schema.text, imported, FILE)
    except SchemaError as error:
        raise RefusedError(INVALID_SCHEMA, str(error)) from error
