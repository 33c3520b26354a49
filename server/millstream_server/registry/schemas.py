"""Schemas by their ids."""

from __future__ import annotations

from typing import Any

from millstream.model.schema_text import Registered, SchemaText, guid_of
from millstream.schemas.compatibility import KINDS
from millstream_server.registry.bodies import told, version_told
from millstream_server.registry.failures import no_schema
from millstream_server.registry.formatted import formatted
from millstream_server.registry.serving import Asked, plain
from millstream_server.registry.subjects import paged


def types(asked: Asked) -> list[str]:
    """GET /schemas/types."""
    return list(KINDS)


def schemas(asked: Asked) -> list[dict[str, Any]]:
    """GET /schemas: the versions of all subjects."""
    prefix = asked.query.get("subjectPrefix", "")
    found: list[Registered] = []
    for subject in asked.visible(asked.registry.subjects(deleted=asked.flag("deleted"))):
        if subject.startswith(prefix):
            versions = asked.registry.versions(subject, deleted=asked.flag("deleted"))
            found += versions[-1:] if asked.flag("latestOnly") else versions
    return paged(asked, [version_told(each) for each in found])


def schema(asked: Asked) -> dict[str, Any]:
    """GET /schemas/ids/{id}."""
    found = _schema(asked)
    return told(found, formatted(asked, found))


def schema_of_guid(asked: Asked) -> dict[str, Any]:
    """GET /schemas/guids/{guid}: by its global id."""
    guid = asked.path["guid"]
    for subject in asked.visible(asked.registry.subjects(deleted=True)):
        for each in asked.registry.versions(subject, deleted=True):
            if guid_of(each.schema) == guid:
                return told(each.schema, formatted(asked, each.schema))
    raise no_schema()


def schema_text(asked: Asked) -> object:
    """GET /schemas/ids/{id}/schema."""
    return plain(formatted(asked, _schema(asked)))


def subjects_of(asked: Asked) -> list[str]:
    """GET /schemas/ids/{id}/subjects."""
    _schema(asked)
    return list(dict.fromkeys(each.subject for each in _versions(asked, asked.flag("deleted"))))


def versions_of(asked: Asked) -> list[dict[str, Any]]:
    """GET /schemas/ids/{id}/versions."""
    _schema(asked)
    found = _versions(asked, asked.flag("deleted"))
    return [{"subject": each.subject, "version": each.version} for each in found]


def _schema(asked: Asked) -> SchemaText:
    """The schema of an id, if the principal may see one of its subjects."""
    text = asked.path["id"]
    found = _versions(asked, True) if text.isdecimal() and len(text) < 11 else []
    if not found:
        raise no_schema()
    return found[0].schema


def _versions(asked: Asked, deleted: bool) -> list[Registered]:
    registry, wanted = asked.registry, int(asked.path["id"])
    return [
        each
        for subject in asked.visible(registry.subjects(deleted=deleted))
        for each in registry.versions(subject, deleted=deleted)
        if each.id == wanted
    ]
