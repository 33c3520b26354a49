"""The schema registry of a database: its schemas are records of a topic of the same log.

What is read from them when the database is opened is kept in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace

import pyarrow as pa

from millstream.formats.registered_rows import ResolvedSchema, with_imports
from millstream.formats.schema_error import SchemaError
from millstream.log.compacted import records_of
from millstream.log.log import Appended, Log, Topic, Writer
from millstream.model.batch import raw_batch
from millstream.model.schema_text import Registered, SchemaText
from millstream.schemas import wordings
from millstream.schemas.compatibility import (
    KINDS,
    Level,
    check_schema,
    incompatibilities,
    normal,
)
from millstream.schemas.known import EVERY, KnownSchemas
from millstream.schemas.records import Record, apply, erasing_record, level_record, version_record

_IDENTITY = "schema registry"
TOLD_MAX = 5
"""The incompatible changes that a refusal tells."""


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
        for record in self._records():
            apply(self._known, record)

    # ---- what there is -----------------------------------------------------------------------

    def by_id(self, schema_id: int) -> SchemaText:
        """The schema with an id; raises UnavailableError if there is none yet."""
        with self._lock:
            return self._known.by_id(schema_id)

    def id_of_guid(self, guid: str) -> int:
        """See `Schemas`."""
        with self._lock:
            return self._known.id_of_guid(guid)

    def has(self, subject: str | None, schema_id: int | None) -> bool:
        """See `Schemas`."""
        with self._lock:
            return self._known.has(subject, schema_id)

    def latest(self, subject: str) -> Registered | None:
        """The newest schema of a subject; None if it has none."""
        with self._lock:
            return self._known.latest(subject)

    def subjects(self, *, deleted: bool = False) -> tuple[str, ...]:
        """The names of all subjects; those that are deleted, too, if wanted."""
        with self._lock:
            return tuple(sorted({*self._known.subjects, *(self._known.deleted if deleted else ())}))

    def versions(self, subject: str, *, deleted: bool = False) -> tuple[Registered, ...]:
        """The versions of a subject, oldest first; those that are deleted, too, if wanted."""
        with self._lock:
            return tuple(self._known.versions(subject, deleted=deleted))

    def imported(self, schema: SchemaText) -> dict[str, str]:
        """The texts of the schemas that one imports, by their names; each behind those that it
        imports itself. Raises StatementError for one that does not exist."""
        with self._lock:
            return self._known.imported(schema)

    def found(self, subject: str, schema: SchemaText) -> Registered | None:
        """The version of a subject that has a schema; None if none has."""
        wanted = _normal(schema)
        return next((each for each in self.versions(subject) if each.schema == wanted), None)

    def prompt(self) -> EmbeddedRegistry:
        """See `Schemas`."""
        return self

    # ---- changes -----------------------------------------------------------------------------

    def id_of(self, subject: str, schema: SchemaText) -> int:
        """The id of a schema of a subject, which is registered unless it is. Raises StatementError
        as `register` does."""
        return self.register(subject, schema).id

    def register(
        self, subject: str, schema: SchemaText, schema_id: int | None = None
    ) -> Registered:
        """Register a schema as the next version of a subject, unless a version has it. `schema_id`:
        its id, if it must have a certain one. Raises StatementError for what is no schema, for one
        that is not compatible with those of the subject, for a reference to what does not exist,
        and for an id that another schema has."""
        schema = _normal(schema)
        with self._lock:
            known = self.found(subject, schema)
            if known is not None:
                return known
            self._check(subject, schema)
            found = schema_id or self._known.ids.get(schema)
            if found is None:
                found = max(self._known.texts, default=0) + 1
            elif self._known.texts.get(found, schema) != schema:
                raise wordings.ID_TAKEN(id=found)
            made = Registered(found, subject, self._known.next_version(subject), schema)
            self._write(version_record(made, deleted=False))
            return made

    def refused(
        self, subject: str, schema: SchemaText, earlier: Sequence[Registered] | None = None
    ) -> list[str]:
        """Why a subject does not take a schema; empty if it does. `earlier`: the versions to
        compare it with, by default those that the level of the subject demands. Raises
        StatementError for what is no schema."""
        with self._lock:
            new = self._resolved(_normal(schema))
            old = self._known.versions(subject) if earlier is None else earlier
            level = self._known.level(subject)
            try:
                check_schema(new)
                return incompatibilities(level, new, [self._resolved(each.schema) for each in old])
            except SchemaError as error:
                raise _invalid(error) from error

    def delete(self, subject: str) -> None:
        """Delete a subject; its schemas keep their ids. Does nothing if there is none."""
        for each in self.versions(subject):
            self.delete_version(each)

    def delete_version(self, version: Registered) -> None:
        """Delete a version of a subject. It can still be asked for by its number."""
        self._write(version_record(version, deleted=True))

    def erase_version(self, version: Registered) -> None:
        """Delete a version of a subject for good; its id stays."""
        self._write(erasing_record(version.subject, version.version))

    def level(self, subject: str = EVERY) -> Level:
        """How compatible new versions of a subject must be."""
        with self._lock:
            return self._known.level(subject)

    def own_level(self, subject: str) -> Level | None:
        """The level that was set for a subject; None for none."""
        with self._lock:
            return self._known.levels.get(subject)

    def set_level(self, level: Level | None, subject: str = EVERY) -> None:
        """Set the level of a subject, or of all that have none of their own; None: it has none any
        more."""
        self._write(level_record(subject, level))

    # ---- the rest ----------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Callable[..., KnownSchemas], tuple[KnownSchemas]]:
        """What another process gets: all that is registered now."""
        with self._lock:
            return replace, (deepcopy(self._known),)

    def close(self) -> None:
        """Release the writer; idempotent."""
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _check(self, subject: str, schema: SchemaText) -> None:
        reasons = self.refused(subject, schema)
        if reasons:
            raise wordings.SCHEMA_INCOMPATIBLE(
                subject=subject,
                level=self._known.level(subject).value,
                reasons="; ".join(reasons[:TOLD_MAX]),
                code=wordings.INCOMPATIBLE,
            )

    def _resolved(self, schema: SchemaText) -> ResolvedSchema:
        return with_imports(self._known, schema)

    def _write(self, record: Record) -> None:
        with self._lock:
            if self._writer is None:
                if self._log.topic(self._topic) is None:
                    config = {"cleanup.policy": "compact"}
                    self._log.create_topic(Topic(self._topic, 1, config=config))
                self._writer = self._log.writer(_IDENTITY)
            batch = raw_batch([(*record, self._clock())])
            size = batch.nbytes
            self._writer.append([Appended(self._topic, 0, batch, batch.num_rows, size)])
            apply(self._known, record)

    def _records(self) -> Iterator[Record]:
        return records_of(self._log, self._topic)


def _normal(schema: SchemaText) -> SchemaText:
    if schema.kind not in KINDS:
        raise _invalid(f"there is no kind of schemas {schema.kind}")
    try:
        return normal(schema)
    except SchemaError as error:
        raise _invalid(error) from error


def _invalid(reason: object) -> Exception:
    return wordings.SCHEMA_INVALID(reason=reason, code=wordings.INVALID)
