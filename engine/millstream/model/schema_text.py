"""Schemas of a registry as text."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Protocol

_SCHEMAS = uuid.UUID("5c8f3a52-9d0e-4a5e-8c3b-2f7a10d64e91")
UNNAMED_KIND = "AVRO"
"""The kind of a schema where the API of registries names none."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that a text imports by a name: a version of a subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as a registry has it. `kind`: AVRO, PROTOBUF or JSON."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()


def guid_of(schema: SchemaText) -> str:
    """The global id of a schema, by which every registry of ours knows it, whatever its id."""
    references = [[one.name, one.subject, one.version] for one in schema.references]
    return str(uuid.uuid5(_SCHEMAS, json.dumps([schema.kind, schema.text, references])))


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema that a subject has."""

    id: int
    subject: str
    version: int
    schema: SchemaText


class Schemas(Protocol):
    """What formats need of a schema registry. All raise UnavailableError while it does not
    answer."""

    def by_id(self, schema_id: int) -> SchemaText:
        """The schema with an id; raises UnavailableError if there is none yet."""

    def id_of_guid(self, guid: str) -> int:
        """The id of the schema with a global id; raises UnavailableError if there is none yet."""

    def id_of(self, subject: str, schema: SchemaText) -> int:
        """The id of a schema of a subject, which is registered unless it is. Raises StatementError
        if it is not compatible with those that the subject has."""

    def has(self, subject: str | None, schema_id: int | None) -> bool:
        """Whether there is a schema of a subject, with an id, or both."""

    def latest(self, subject: str) -> Registered | None:
        """The newest schema of a subject; None if it has none."""

    def delete(self, subject: str) -> None:
        """Delete a subject; its schemas keep their ids. Does nothing if there is none."""

    def prompt(self) -> Schemas:
        """The same for threads that process queries and must not wait: while an answer is on its
        way, UnavailableError is raised, and the caller tries again later."""

    def imported(self, schema: SchemaText) -> dict[str, str]:
        """The texts of the schemas that one imports, directly or not, by their names; each behind
        those that it imports itself."""
