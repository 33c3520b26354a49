"""The records of a registry's topic, in the form of those of Confluent's registry: a key says of
which version of which subject it is, or of which level, and a value has all of it."""

from __future__ import annotations

import json
from typing import Any

from millstream.model.errors import CorruptionError
from millstream.model.schema_text import Reference, Registered, SchemaText
from millstream.schemas.compatibility import Level, normal
from millstream.schemas.known import EVERY, KnownSchemas

Record = tuple[bytes, bytes | None]


def version_record(made: Registered, *, deleted: bool) -> Record:
    """A version of a subject; `deleted`: it can be brought back."""
    value: dict[str, Any] = {
        "subject": made.subject,
        "version": made.version,
        "id": made.id,
        "schemaType": made.schema.kind,
        "references": references_of(made.schema),
        "schema": made.schema.text,
        "deleted": deleted,
    }
    return _version_key(made.subject, made.version), json.dumps(value).encode()


def erasing_record(subject: str, version: int) -> Record:
    """That a version is gone for good."""
    return _version_key(subject, version), None


def level_record(subject: str, level: Level | None) -> Record:
    """The level of compatibility of a subject, or of all others; None: it has none any more."""
    key = {"keytype": "CONFIG", "subject": subject or None, "magic": 0}
    value = None if level is None else json.dumps({"compatibilityLevel": level.value}).encode()
    return json.dumps(key).encode(), value


def references_of(schema: SchemaText) -> list[dict[str, Any]]:
    """The references of a schema as JSON."""
    return [
        {"name": each.name, "subject": each.subject, "version": each.version}
        for each in schema.references
    ]


def apply(known: KnownSchemas, record: Record) -> None:
    """Note what a record says. Raises CorruptionError for one that cannot be read."""
    key, content = record
    try:
        at, value = json.loads(key), json.loads(content or b"null")
        match at["keytype"]:
            case "SCHEMA":
                _apply_version(known, at, value)
            case "CONFIG":
                subject = at["subject"] or EVERY
                if value is None:
                    known.levels.pop(subject, None)
                else:
                    known.levels[subject] = Level(value["compatibilityLevel"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(
            f"A record of the schema registry cannot be read: {key!r}: {error}"
        ) from error


def _apply_version(known: KnownSchemas, at: dict[str, Any], value: dict[str, Any] | None) -> None:
    if value is None:
        known.erase(at["subject"], at["version"])
        return
    kind, references = value["schemaType"], value["references"]
    found = SchemaText(kind, value["schema"], tuple(Reference(**each) for each in references))
    version = Registered(value["id"], value["subject"], value["version"], normal(found))
    if value["deleted"]:
        known.remove(version)
    else:
        known.add(version)


def _version_key(subject: str, version: int) -> bytes:
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    return json.dumps(key).encode()
