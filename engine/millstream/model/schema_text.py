"""Schemas of a registry as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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
