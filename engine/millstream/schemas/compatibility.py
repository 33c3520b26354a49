"""Which new schemas a subject takes: levels of compatibility, as Confluent's registry has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from millstream.formats.avro_schema import parse_avro
from millstream.formats.proto_descriptor_read import descriptor_text, is_descriptor
from millstream.formats.proto_schema import ProtoFile, parse_any_proto
from millstream.formats.registered_rows import ResolvedSchema
from millstream.model.schema_text import SchemaText
from millstream.schemas.json_changes import json_changes
from millstream.schemas.json_shapes import Document, document, shape_of
from millstream.schemas.proto_changes import proto_changes


class Level(Enum):
    """What must be able to read what. `BACKWARD`: the new schema reads what the newest one wrote;
    `FORWARD`: the newest one reads what the new one writes; `FULL`: both; the transitive ones: for
    all versions, not the newest one alone."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


DEFAULT = Level.BACKWARD
_READS_EARLIER = {
    *(Level.BACKWARD, Level.BACKWARD_TRANSITIVE, Level.FULL, Level.FULL_TRANSITIVE),
}
_READ_BY_EARLIER = {
    *(Level.FORWARD, Level.FORWARD_TRANSITIVE, Level.FULL, Level.FULL_TRANSITIVE),
}
_TRANSITIVE = {Level.BACKWARD_TRANSITIVE, Level.FORWARD_TRANSITIVE, Level.FULL_TRANSITIVE}


def incompatibilities(
    level: Level, new: ResolvedSchema, earlier: Sequence[ResolvedSchema]
) -> list[str]:
    """Why a subject with these earlier versions, oldest first, does not take a new one; empty if it
    does. Raises SchemaError for a schema that is none."""
    if level is Level.NONE:
        return []
    found = []
    for old in reversed(earlier if level in _TRANSITIVE else earlier[-1:]):
        if old.kind != new.kind:
            found.append(f"the subject has a schema of {old.kind}, and this is one of {new.kind}")
            continue
        if level in _READS_EARLIER:
            found += _told("the new schema does not read the earlier one", _changes(new, old))
        if level in _READ_BY_EARLIER:
            found += _told("the earlier schema does not read the new one", _changes(old, new))
    return list(dict.fromkeys(found))


def check_schema(schema: ResolvedSchema) -> None:
    """Raise SchemaError for a text that is no schema of its kind."""
    match schema.kind:
        case "AVRO":
            parse_avro(schema.text, dict(schema.imported))
            _check_avro(schema)
        case "JSON":
            shape_of(_json(schema).node)
        case _:
            _proto(schema)


def normal(schema: SchemaText) -> SchemaText:
    """A schema without what does not matter, so that equal ones are found: spaces of JSON; a
    descriptor of Protobuf is the text of its language. Raises SchemaError."""
    return replace(schema, text=_normal_text(schema.kind, schema.text))


def _normal_text(kind: str, text: str) -> str:
    if kind == "PROTOBUF":
        return descriptor_text(text) if is_descriptor(text) else text
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


KINDS: tuple[str, ...] = ("AVRO", "JSON", "PROTOBUF")
"""The kinds of schemas that there are."""


def _changes(reader: ResolvedSchema, writer: ResolvedSchema) -> list[str]:
    return _COMPARED[reader.kind](reader, writer)


def _of_avro(reader: ResolvedSchema, writer: ResolvedSchema) -> list[str]:
    # Only who changes schemas needs the library.
    from millstream.schemas.avro_changes import avro_changes

    return avro_changes(reader, writer)


def _check_avro(schema: ResolvedSchema) -> None:
    from millstream.schemas.avro_changes import check_avro

    check_avro(schema)


def _of_json(reader: ResolvedSchema, writer: ResolvedSchema) -> list[str]:
    return json_changes(_json(reader), _json(writer))


def _of_proto(reader: ResolvedSchema, writer: ResolvedSchema) -> list[str]:
    return proto_changes(_proto(reader), _proto(writer))


_COMPARED: Mapping[str, Callable[[ResolvedSchema, ResolvedSchema], list[str]]] = {
    "AVRO": _of_avro,
    "JSON": _of_json,
    "PROTOBUF": _of_proto,
}


def _json(schema: ResolvedSchema) -> Document:
    return document(schema.text, dict(schema.imported))


def _proto(schema: ResolvedSchema) -> ProtoFile:
    return parse_any_proto(schema.text, schema.imported)


def _told(what: str, changes: Sequence[str]) -> list[str]:
    return [f"{what}: {change}" for change in changes]
