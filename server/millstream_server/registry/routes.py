"""The endpoints of the registry as one table."""

from __future__ import annotations

from millstream_server.endpoint import Endpoint
from millstream_server.registry import levels, schemas, subjects
from millstream_server.registry.serving import REGISTRY, endpoint

_TYPES = (REGISTRY,)
_SUBJECT = "/subjects/{subject}"
_VERSION = f"{_SUBJECT}/versions/{{version}}"
_ID = "/schemas/ids/{id}"
_FITS = "/compatibility/subjects/{subject}/versions"
_TABLE = (
    ("GET", "/subjects", subjects.subjects, "The subjects of the schema registry", "", "Names"),
    ("GET", f"{_SUBJECT}/versions", subjects.versions, "The versions of a subject", "", "Numbers"),
    ("POST", _SUBJECT, subjects.look_up, "The version that has a schema", "Schema", "Version"),
    ("POST", f"{_SUBJECT}/versions", subjects.register, "Register a schema", "Schema", "SchemaId"),
    ("DELETE", _SUBJECT, subjects.delete, "Delete a subject", "", "Numbers"),
    ("GET", _VERSION, subjects.version, "A version of a subject", "", "Version"),
    ("DELETE", _VERSION, subjects.delete_version, "Delete a version", "", "Number"),
    ("GET", f"{_VERSION}/schema", subjects.version_schema, "The text of a version", "", "Text"),
    (
        *("GET", f"{_VERSION}/referencedby", subjects.referenced_by),
        *("The ids of schemas that refer to a version", "", "Numbers"),
    ),
    ("POST", _FITS, subjects.compatible, "Whether a schema could be added", "Schema", "Compatible"),
    (
        *("POST", f"{_FITS}/{{version}}", subjects.compatible),
        *("Whether a schema fits a version", "Schema", "Compatible"),
    ),
    ("GET", "/schemas", schemas.schemas, "The versions of all subjects", "", "Versions"),
    ("GET", "/schemas/types", schemas.types, "The kinds of schemas", "", "Names"),
    ("GET", _ID, schemas.schema, "A schema", "", "Schema"),
    ("GET", "/schemas/guids/{guid}", schemas.schema_of_guid, "By its global id", "", "Schema"),
    ("GET", f"{_ID}/schema", schemas.schema_text, "The text of a schema", "", "Text"),
    ("GET", f"{_ID}/subjects", schemas.subjects_of, "The subjects of a schema", "", "Names"),
    ("GET", f"{_ID}/versions", schemas.versions_of, "The versions of a schema", "", "Places"),
    ("GET", "/config", levels.level, "The level of compatibility", "", "Level"),
    ("PUT", "/config", levels.set_level, "Set it", "LevelWanted", "LevelWanted"),
    ("DELETE", "/config", levels.reset_level, "Set it back", "", "Level"),
    ("GET", "/config/{subject}", levels.subject_level, "That of a subject", "", "Level"),
    (
        *("PUT", "/config/{subject}", levels.set_subject_level),
        *("Set that of a subject", "LevelWanted", "LevelWanted"),
    ),
    (
        *("DELETE", "/config/{subject}", levels.reset_subject_level),
        *("Set that of a subject back", "", "Level"),
    ),
    ("GET", "/mode", levels.mode, "Whether schemas can be registered", "", "Mode"),
    ("GET", "/mode/{subject}", levels.mode, "Whether they can of a subject", "", "Mode"),
)
REGISTRY_ENDPOINTS = tuple(
    Endpoint(
        method, path, endpoint(call), summary, body, _TYPES, answer=answer, error="RegistryError"
    )
    for method, path, call, summary, body, answer in _TABLE
)
