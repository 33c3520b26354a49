"""Schemas in the bodies of requests and responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.model.schema_text import (
    UNNAMED_KIND,
    Reference,
    Registered,
    SchemaText,
    guid_of,
)
from millstream.schemas.records import references_of
from millstream_server.failures import RefusedError
from millstream_server.registry.failures import INVALID_SCHEMA


def schema_of(body: Mapping[str, Any]) -> SchemaText:
    """The schema in a body. Raises RefusedError for a body without one."""
    text, kind = body.get("schema"), body.get("schemaType") or UNNAMED_KIND
    references = body.get("references")
    references = [] if references is None else references
    if not isinstance(text, str) or not text.strip():
        raise _wrong("it has no schema")
    if not isinstance(kind, str) or not isinstance(references, list):
        raise _wrong("its schemaType or its references are of another type")
    return SchemaText(kind, text, tuple(map(_reference, references)))


def told(schema: SchemaText, text: str | None = None) -> dict[str, Any]:
    """A schema in a body; `text`: instead of its own. What is the default is left out, as clients
    expect."""
    shown = schema.text if text is None else text
    found: dict[str, Any] = {"schema": shown, "guid": guid_of(schema)}
    if schema.kind != UNNAMED_KIND:
        found["schemaType"] = schema.kind
    if schema.references:
        found["references"] = references_of(schema)
    return found


def version_told(version: Registered, text: str | None = None) -> dict[str, Any]:
    """A version of a subject in a body."""
    return {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        **told(version.schema, text),
    }


def _reference(given: Any) -> Reference:
    match given:
        case {"name": str(name), "subject": str(subject), "version": int(version)}:
            return Reference(name, subject, version)
    raise _wrong("a reference needs a name, a subject and a version")


def _wrong(reason: str) -> RefusedError:
    return RefusedError(INVALID_SCHEMA, f"The request cannot be read: {reason}")
