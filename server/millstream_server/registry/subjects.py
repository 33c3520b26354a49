"""Subjects and their versions."""

from __future__ import annotations

from typing import Any

from millstream.model.schema_text import Registered, guid_of
from millstream_server.auth.needs import Operation
from millstream_server.failures import RefusedError
from millstream_server.registry.bodies import schema_of, version_told
from millstream_server.registry.failures import (
    INVALID_SCHEMA,
    REFERENCED,
    SUBJECT_NOT_SOFT_DELETED,
    VERSION_NOT_SOFT_DELETED,
    no_schema,
    no_subject,
)
from millstream_server.registry.formatted import formatted
from millstream_server.registry.serving import Asked, plain

IDS_MAX = 2**31 - 1


def subjects(asked: Asked) -> list[str]:
    """GET /subjects."""
    prefix = asked.query.get("subjectPrefix", "").removesuffix("*")
    deleted = asked.flag("deleted")
    found = asked.registry.subjects(deleted=deleted or asked.flag("deletedOnly"))
    if asked.flag("deletedOnly"):
        here = set(asked.registry.subjects())
        found = tuple(name for name in found if name not in here)
    return paged(asked, asked.visible(name for name in found if name.startswith(prefix)))


def versions(asked: Asked) -> list[int]:
    """GET /subjects/{subject}/versions."""
    asked.demand(Operation.READ)
    found = asked.versions(deleted=asked.flag("deleted"))
    return paged(asked, [each.version for each in found])


def version(asked: Asked) -> dict[str, Any]:
    """GET /subjects/{subject}/versions/{version}."""
    asked.demand(Operation.READ)
    found = asked.version(deleted=asked.flag("deleted"))
    return version_told(found, formatted(asked, found.schema))


def version_schema(asked: Asked) -> object:
    """GET /subjects/{subject}/versions/{version}/schema."""
    asked.demand(Operation.READ)
    found = asked.version(deleted=asked.flag("deleted")).schema
    return plain(formatted(asked, found))


def referenced_by(asked: Asked) -> list[int]:
    """GET /subjects/{subject}/versions/{version}/referencedby."""
    asked.demand(Operation.READ)
    return sorted({each.id for each in _users(asked, asked.version())})


def look_up(asked: Asked) -> dict[str, Any]:
    """POST /subjects/{subject}: the version that has a schema."""
    asked.demand(Operation.READ)
    wanted = schema_of(asked.body)
    if not asked.registry.versions(asked.subject):
        raise no_subject(asked.subject)
    found = asked.registry.found(asked.subject, wanted)
    if found is None:
        raise no_schema()
    return version_told(found)


def register(asked: Asked) -> dict[str, Any]:
    """POST /subjects/{subject}/versions."""
    asked.demand(Operation.WRITE)
    if not asked.subject.strip():
        raise RefusedError(INVALID_SCHEMA, "A subject needs a name")
    given = asked.body.get("id")
    if given is not None and not (isinstance(given, int) and 0 < given <= IDS_MAX):
        raise RefusedError(INVALID_SCHEMA, f"{given} is no id of a schema")
    found = asked.registry.register(asked.subject, schema_of(asked.body), given)
    return {"id": found.id, "version": found.version, "guid": guid_of(found.schema)}


def delete(asked: Asked) -> list[int]:
    """DELETE /subjects/{subject}: with a way back, or for good (permanent=true)."""
    asked.demand(Operation.DELETE)
    registry = asked.registry
    if asked.flag("permanent"):
        if registry.versions(asked.subject):
            raise RefusedError(
                SUBJECT_NOT_SOFT_DELETED,
                f"Subject '{asked.subject}' was not deleted first before being permanently deleted",
            )
        found = asked.versions(deleted=True)
        for each in found:
            registry.erase_version(each)
    else:
        found = asked.versions()
        for each in found:
            _check_unused(asked, each)
        registry.delete(asked.subject)
    return [each.version for each in found]


def delete_version(asked: Asked) -> int:
    """DELETE /subjects/{subject}/versions/{version}."""
    asked.demand(Operation.DELETE)
    found = asked.version(deleted=asked.flag("permanent"))
    if not asked.flag("permanent"):
        _check_unused(asked, found)
        asked.registry.delete_version(found)
    elif found in asked.registry.versions(asked.subject):
        raise RefusedError(
            VERSION_NOT_SOFT_DELETED,
            f"Subject '{asked.subject}' Version {found.version} was not deleted first before being"
            " permanently deleted",
        )
    else:
        asked.registry.erase_version(found)
    return found.version


def compatible(asked: Asked) -> dict[str, Any]:
    """POST /compatibility/subjects/{subject}/versions, and …/{version}: whether a schema could be
    registered."""
    asked.demand(Operation.READ)
    given = schema_of(asked.body)
    earlier = None
    if "version" in asked.path:
        earlier = [asked.version()]
    reasons = asked.registry.refused(asked.subject, given, earlier)
    found: dict[str, Any] = {"is_compatible": not reasons}
    return {**found, "messages": reasons} if asked.flag("verbose") else found


def paged(asked: Asked, found: list[Any]) -> list[Any]:
    """The part of a list that the parameters `offset` and `limit` ask for."""
    first, limit = _whole(asked, "offset"), _whole(asked, "limit")
    start = max(0, first or 0)
    return found[start:] if limit is None or limit < 0 else found[start : start + limit]


def _whole(asked: Asked, name: str) -> int | None:
    text = asked.query.get(name, "")
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 11 else None


def _users(asked: Asked, version: Registered) -> list[Registered]:
    """The versions that refer to this one."""
    registry = asked.registry
    return [
        each
        for subject in registry.subjects()
        for each in registry.versions(subject)
        if any(
            (reference.subject, reference.version) == (version.subject, version.version)
            for reference in each.schema.references
        )
    ]


def _check_unused(asked: Asked, version: Registered) -> None:
    if _users(asked, version):
        raise RefusedError(
            REFERENCED, f"One or more references exist to the schema {version.subject}"
        )
