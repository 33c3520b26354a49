"""What a registry knows at some moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from millstream.model.errors import UnavailableError
from millstream.model.schema_text import Reference, Registered, SchemaText, guid_of
from millstream.schemas import wordings
from millstream.schemas.compatibility import DEFAULT, Level, normal
from millstream.schemas.imports import imported_by

EVERY = ""
"""The subject of the level that counts where a subject has none of its own."""


@dataclass(slots=True)
class KnownSchemas:
    """See `Schemas`: what is registered at some moment, such as when a job was sent to another
    process. `subjects`: the versions of each, oldest first; `deleted`: those that can be brought
    back by their numbers; `levels`: of compatibility, by subject."""

    texts: dict[int, SchemaText] = field(default_factory=dict)
    guids: dict[str, int] = field(default_factory=dict)
    ids: dict[SchemaText, int] = field(default_factory=dict)
    subjects: dict[str, list[Registered]] = field(default_factory=dict)
    deleted: dict[str, list[Registered]] = field(default_factory=dict)
    levels: dict[str, Level] = field(default_factory=dict)

    def add(self, registered: Registered) -> None:
        """Note a version of a subject."""
        self.texts[registered.id] = registered.schema
        self.guids[guid_of(registered.schema)] = registered.id
        self.ids.setdefault(registered.schema, registered.id)
        self.erase(registered.subject, registered.version)
        self.subjects.setdefault(registered.subject, []).append(registered)

    def remove(self, registered: Registered) -> None:
        """Note that a version is deleted. Its id stays: there may be records of it."""
        self.add(registered)
        self.erase(registered.subject, registered.version)
        self.deleted.setdefault(registered.subject, []).append(registered)

    def erase(self, subject: str, version: int) -> None:
        """Forget a version of a subject, deleted or not."""
        for versions in (self.subjects, self.deleted):
            kept = [each for each in versions.get(subject, []) if each.version != version]
            if kept:
                versions[subject] = kept
            else:
                versions.pop(subject, None)

    def versions(self, subject: str, *, deleted: bool = False) -> Sequence[Registered]:
        """The versions of a subject, oldest first; those that are deleted, too, if wanted."""
        found = [*self.subjects.get(subject, ())]
        if deleted:
            found += self.deleted.get(subject, ())
        return sorted(found, key=lambda each: each.version)

    def next_version(self, subject: str) -> int:
        """The number of the next version of a subject."""
        found = self.versions(subject, deleted=True)
        return found[-1].version + 1 if found else 1

    def level(self, subject: str) -> Level:
        """How compatible new versions of a subject must be."""
        return self.levels.get(subject) or self.levels.get(EVERY, DEFAULT)

    def by_id(self, schema_id: int) -> SchemaText:
        """See `Schemas`."""
        found = self.texts.get(schema_id)
        if found is None:
            raise UnavailableError(
                f"Schema {schema_id} is not in the registry of this database",
                hint="Register it, or skip the records that have it.",
            )
        return found

    def id_of_guid(self, guid: str) -> int:
        """See `Schemas`."""
        found = self.guids.get(guid)
        if found is None:
            raise UnavailableError(
                f"The schema with the global id {guid} is not in the registry of this database",
                hint="Register it, or skip the records that have it.",
            )
        return found

    def has(self, subject: str | None, schema_id: int | None) -> bool:
        """See `Schemas`."""
        if subject is None:
            return schema_id in self.texts
        return any(schema_id in (None, each.id) for each in self.subjects.get(subject, []))

    def id_of(self, subject: str, schema: SchemaText) -> int:
        """See `Schemas`. Raises UnavailableError for a schema that is not registered."""
        wanted = normal(schema)
        for each in self.subjects.get(subject, []):
            if each.schema == wanted:
                return each.id
        raise UnavailableError(f"The schema of {subject} was not registered before the job began")

    def latest(self, subject: str) -> Registered | None:
        """See `Schemas`."""
        versions = self.subjects.get(subject)
        return versions[-1] if versions else None

    def delete(self, subject: str) -> None:
        """See `Schemas`."""
        raise UnavailableError(f"{subject} cannot be deleted in another process")

    def prompt(self) -> KnownSchemas:
        """See `Schemas`."""
        return self

    def imported(self, schema: SchemaText) -> dict[str, str]:
        """See `Schemas`."""
        return imported_by(schema, self._referenced)

    def _referenced(self, reference: Reference) -> SchemaText:
        for each in self.versions(reference.subject, deleted=True):
            if each.version == reference.version:
                return each.schema
        raise wordings.REFERENCE_MISSING(version=reference.version, subject=reference.subject)
