"""The schema registry of a database: its schemas are records of a topic of the same log.

The records are those that Confluent's registry writes to its own topic: a key that says which
version of which subject, and a value with the id and the text. What is read from them when the
database is opened is kept in memory.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from millstream.log.log import Appended, Log, Topic, Writer
from millstream.model.batch import raw_batch
from millstream.model.errors import CorruptionError, UnavailableError
from millstream.model.schema_text import Reference, Registered, SchemaText
from millstream.schemas import wordings

READ_MAX = 10_000
_IDENTITY = "schema registry"


@dataclass(slots=True)
class KnownSchemas:
    """See `Schemas`: what is registered at some moment, such as when a job was sent to another
    process. `subjects`: the versions of each, oldest first."""

    texts: dict[int, SchemaText] = field(default_factory=dict)
    ids: dict[SchemaText, int] = field(default_factory=dict)
    subjects: dict[str, list[Registered]] = field(default_factory=dict)

    def add(self, registered: Registered) -> None:
        """Note a version of a subject."""
        self.texts[registered.id] = registered.schema
        self.ids.setdefault(registered.schema, registered.id)
        self.subjects.setdefault(registered.subject, []).append(registered)

    def by_id(self, schema_id: int) -> SchemaText:
        """See `Schemas`."""
        found = self.texts.get(schema_id)
        if found is None:
            raise UnavailableError(
                f"Schema {schema_id} is not in the registry of this database",
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
        for each in self.subjects.get(subject, []):
            if each.schema == schema:
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
        found: dict[str, str] = {}
        for reference in schema.references:
            other = self._referenced(reference)
            found |= self.imported(other) | {reference.name: other.text}
        return found

    def _referenced(self, reference: Reference) -> SchemaText:
        for each in self.subjects.get(reference.subject, []):
            if each.version == reference.version:
                return each.schema
        raise wordings.REFERENCE_MISSING(version=reference.version, subject=reference.subject)

    def remove(self, subject: str, version: int) -> None:
        """Note that a version is deleted. Its id stays: there may be records of it."""
        kept = [each for each in self.subjects.get(subject, []) if each.version != version]
        if kept:
            self.subjects[subject] = kept
        else:
            self.subjects.pop(subject, None)


class EmbeddedRegistry:
    """See `Schemas`. The methods may be called by any thread."""

    def __init__(self, log: Log[pa.Table], topic: str, clock: Callable[[], int]) -> None:
        """`topic`: the name of its topic, which is created with the first schema. `clock`: the time
        of day in ms."""
        self._log = log
        self._topic = topic
        self._clock = clock
        self._writer: Writer[pa.Table] | None = None
        self._lock = threading.RLock()
        self._known = KnownSchemas()
        for key, value in self._records():
            _apply(self._known, key, value)

    def by_id(self, schema_id: int) -> SchemaText:
        """The schema with an id; raises UnavailableError if there is none yet."""
        with self._lock:
            return self._known.by_id(schema_id)

    def id_of(self, subject: str, schema: SchemaText) -> int:
        """The id of a schema of a subject, which is registered unless it is. Raises StatementError
        if it refers to one that there is not."""
        return self.register(subject, schema).id

    def register(
        self, subject: str, schema: SchemaText, schema_id: int | None = None
    ) -> Registered:
        """Register a schema as the next version of a subject, unless a version has it. `schema_id`:
        its id, if it must have a certain one. Raises StatementError for a reference to what does
        not exist, and for an id that another schema has."""
        with self._lock:
            for each in self._known.subjects.get(subject, []):
                if each.schema == schema:
                    return each
            self.imported(schema)
            found = schema_id or self._known.ids.get(schema)
            if found is None:
                found = max(self._known.texts, default=0) + 1
            elif self._known.texts.get(found, schema) != schema:
                raise wordings.ID_TAKEN(id=found)
            before = self._known.latest(subject)
            version = 1 if before is None else before.version + 1
            made = Registered(found, subject, version, schema)
            self._write(made)
            self._known.add(made)
            return made

    def has(self, subject: str | None, schema_id: int | None) -> bool:
        """See `Schemas`."""
        with self._lock:
            return self._known.has(subject, schema_id)

    def latest(self, subject: str) -> Registered | None:
        """The newest schema of a subject; None if it has none."""
        with self._lock:
            return self._known.latest(subject)

    def subjects(self) -> tuple[str, ...]:
        """The names of all subjects."""
        with self._lock:
            return tuple(sorted(self._known.subjects))

    def versions(self, subject: str) -> tuple[Registered, ...]:
        """The versions of a subject, oldest first."""
        with self._lock:
            return tuple(self._known.subjects.get(subject, ()))

    def delete(self, subject: str) -> None:
        """Delete a subject; its schemas keep their ids. Does nothing if there is none."""
        with self._lock:
            for each in self._known.subjects.get(subject, [])[:]:
                self._write(each, deleted=True)
                self._known.remove(subject, each.version)

    def imported(self, schema: SchemaText) -> dict[str, str]:
        """The texts of the schemas that one imports, by their names; each behind those that it
        imports itself. Raises StatementError for one that does not exist."""
        with self._lock:
            return self._known.imported(schema)

    def prompt(self) -> EmbeddedRegistry:
        """See `Schemas`."""
        return self

    def __reduce__(self) -> tuple[type[KnownSchemas], tuple[object, ...]]:
        """What another process gets: all that is registered now."""
        with self._lock:
            known = deepcopy(self._known)
        return KnownSchemas, (known.texts, known.ids, known.subjects)

    def close(self) -> None:
        """Release the writer; idempotent."""
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _write(self, made: Registered, *, deleted: bool = False) -> None:
        if self._writer is None:
            if self._log.topic(self._topic) is None:
                self._log.create_topic(Topic(self._topic, 1, config={"cleanup.policy": "compact"}))
            self._writer = self._log.writer(_IDENTITY)
        batch = raw_batch([(*_encoded(made, deleted=deleted), self._clock())])
        size = batch.nbytes
        self._writer.append([Appended(self._topic, 0, batch, batch.num_rows, size)])

    def _records(self) -> Iterator[tuple[bytes, bytes | None]]:
        if self._log.topic(self._topic) is None:
            return
        position, end = self._log.start_offset(self._topic, 0), self._log.end_offset(self._topic, 0)
        while position < end:
            fetched = self._log.read(self._topic, 0, position, READ_MAX)
            for row in fetched.records().to_pylist() if fetched.count else ():
                yield row["key"], row["value"]
            if fetched.next_offset == position:
                return
            position = fetched.next_offset


def _encoded(made: Registered, *, deleted: bool) -> tuple[bytes, bytes]:
    key = {
        "keytype": "SCHEMA",
        "subject": made.subject,
        "version": made.version,
        "magic": 1,
    }
    value: dict[str, Any] = {
        "subject": made.subject,
        "version": made.version,
        "id": made.id,
        "schemaType": made.schema.kind,
        "references": [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in made.schema.references
        ],
        "schema": made.schema.text,
        "deleted": deleted,
    }
    return json.dumps(key).encode(), json.dumps(value).encode()


def _apply(known: KnownSchemas, key: bytes, content: bytes | None) -> None:
    try:
        value = json.loads(content or b"null")
        if value is None:
            return
        if value["deleted"]:
            known.remove(value["subject"], value["version"])
            return
        references = tuple(Reference(**each) for each in value["references"])
        schema = SchemaText(value["schemaType"], value["schema"], references)
        known.add(Registered(value["id"], value["subject"], value["version"], schema))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(
            f"A record of the schema registry cannot be read: {key!r}: {error}"
        ) from error
