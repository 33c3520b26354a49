"""A schema registry that other programs use, too: a client of its HTTP API.

What it has said of an id or a version never changes, and is kept. Statements wait for an answer;
threads that process queries hardly do: their query waits instead, and tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import TypeVar

import httpx2
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.model.schema_text import UNNAMED_KIND, Reference, Registered, SchemaText
from millstream.schemas import wordings
from millstream.schemas.client_settings import client_settings, shown
from millstream.schemas.imports import imported_by
from millstream.schemas.requests import PROCESSING_SECONDS, STATEMENT_SECONDS, Requests

Found = TypeVar("Found")
_NOT_FOUND, _CONFLICT, _INVALID = 404, 409, 422
_REFUSED = (401, 403)
_ID_MAX = 2**32 - 1


@dataclass(frozen=True, eq=False)
class RemoteRegistry:
    """See `Schemas`. The methods may be called by any thread."""

    settings: Mapping[str, str] = field(repr=False)
    url: str
    """Where it is, without credentials."""
    client: SchemaRegistryClient
    requests: Requests
    waits: bool = True
    """Whether callers wait for answers."""
    texts: dict[int, SchemaText] = field(default_factory=dict, repr=False)
    guids: dict[str, int] = field(default_factory=dict, repr=False)
    numbers: Iterator[int] = field(default_factory=lambda: count(_ID_MAX, -1), repr=False)
    ids: dict[tuple[str, SchemaText], int] = field(default_factory=dict, repr=False)
    versions: dict[tuple[str, int], SchemaText] = field(default_factory=dict, repr=False)

    @staticmethod
    def open(settings: Mapping[str, str]) -> RemoteRegistry:
        """`settings`: those of confluent-kafka's client by name, with a `url` at least. Raises
        StatementError for one that it does not have."""
        made = client_settings(settings)
        url = shown(str(made["url"]))
        try:
            client = SchemaRegistryClient(made)
        except (ValueError, TypeError, OSError) as error:
            raise StatementError(
                f"The client of the schema registry refuses its settings: {_told(error)}"
            ) from error
        return RemoteRegistry(dict(settings), url, client, Requests(url))

    def by_id(self, schema_id: int) -> SchemaText:
        """See `Schemas`."""
        known = self._text(schema_id)
        if known is None:
            raise UnavailableError(
                f"Schema {schema_id} is not in the registry at {self.url}",
                hint="Register it, or skip the records that have it.",
            )
        return known

    def id_of_guid(self, guid: str) -> int:
        """See `Schemas`. A registry does not tell the id that belongs to a global one, so it gets a
        number of this process, the last of those that four bytes can have."""
        known = self.guids.get(guid)
        if known is None:
            what = f"the schema with the global id {guid}"
            ask = partial(self.client.get_schema_by_guid, guid)
            found = self._asked(what, ("guid", guid), lambda: _text_of(ask()))
            if found is None:
                raise UnavailableError(
                    f"The schema with the global id {guid} is not in the registry at {self.url}",
                    hint="Register it, or skip the records that have it.",
                )
            # Known by its number before any other thread gets that.
            number = next(self.numbers)
            self.texts[number] = found
            known = self.guids.setdefault(guid, number)
        return known

    def id_of(self, subject: str, schema: SchemaText) -> int:
        """See `Schemas`. Statements ask even if the id is known: the subject may be gone since."""
        known = None if self.waits else self.ids.get((subject, schema))
        if known is None:
            what = f"to register the schema of {subject}"
            ask = partial(self._registered, subject, schema)
            known = self._asked(what, ("register", subject, schema), ask)
            if known is None:
                raise wordings.SCHEMA_REFUSED(what=what, registry=self.url, reason="not found")
            self.ids[subject, schema] = known
        return known

    def has(self, subject: str | None, schema_id: int | None) -> bool:
        """See `Schemas`."""
        if schema_id is None:
            assert subject is not None
            return self.latest(subject) is not None
        if subject is None:
            return self._text(schema_id) is not None
        what = f"the subjects of schema {schema_id}"
        ask = partial(self.client.get_subjects_by_schema_id, schema_id)
        return subject in (self._asked(what, ("subjects", schema_id), ask) or ())

    def latest(self, subject: str) -> Registered | None:
        """See `Schemas`."""

        def ask() -> Registered:
            # The client keeps what it was told, for ever.
            self.client.clear_latest_caches()
            found = self.client.get_latest_version(subject)
            schema_id, version = _number(found.schema_id), _number(found.version)
            return Registered(schema_id, subject, version, _text_of(found.schema))

        return self._asked(f"the newest schema of {subject}", ("latest", subject), ask)

    def delete(self, subject: str) -> None:
        """See `Schemas`."""
        ask = partial(self.client.delete_subject, subject)
        self._asked(f"to delete {subject}", ("delete", subject), ask)

    def imported(self, schema: SchemaText) -> dict[str, str]:
        """See `Schemas`. Raises StatementError for one that does not exist."""
        return imported_by(schema, lambda one: self._version(one.subject, one.version))

    def prompt(self) -> RemoteRegistry:
        """See `Schemas`."""
        return replace(self, waits=False)

    def close(self) -> None:
        """Close the connections; idempotent."""
        self.client.close()

    def __reduce__(self) -> tuple[Callable[..., RemoteRegistry], tuple[Mapping[str, str]]]:
        """Another process asks the registry by itself."""
        return RemoteRegistry.open, (self.settings,)

    def _text(self, schema_id: int) -> SchemaText | None:
        known = self.texts.get(schema_id)
        if known is None:
            found = self._asked(
                f"schema {schema_id}",
                ("id", schema_id),
                lambda: _text_of(self.client.get_schema(schema_id)),
            )
            if found is None:
                return None
            known = self.texts[schema_id] = found
        return known

    def _registered(self, subject: str, schema: SchemaText) -> int:
        # The client keeps the ids of subjects that are deleted since.
        self.client.clear_caches()
        references = [SchemaReference(r.name, r.subject, r.version) for r in schema.references]
        given = Schema(schema.text, schema.kind, references)
        try:
            return _number(self.client.lookup_schema(subject, given).schema_id)
        except SchemaRegistryError as error:
            if error.http_status_code != _NOT_FOUND:
                raise
        return _number(self.client.register_schema(subject, given))

    def _version(self, subject: str, version: int) -> SchemaText:
        known = self.versions.get((subject, version))
        if known is None:
            found = self._asked(
                f"version {version} of {subject}",
                ("version", subject, version),
                lambda: _text_of(self.client.get_version(subject, version).schema),
            )
            if found is None:
                raise wordings.REFERENCE_MISSING(version=version, subject=subject)
            known = self.versions[subject, version] = found
        return known

    def _asked(self, what: str, key: Hashable, ask: Callable[[], Found]) -> Found | None:
        """What a request brings; None if the registry does not have it."""
        if self.waits:
            seconds = STATEMENT_SECONDS
        else:
            seconds = 0.0 if self.requests.silent else PROCESSING_SECONDS
        return self.requests.answer(what, key, lambda: self._answer(what, ask), seconds)

    def _answer(self, what: str, ask: Callable[[], Found]) -> Found | None:
        try:
            return ask()
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND:
                return None
            raise self._error(what, error) from error
        except (httpx2.HTTPError, OSError, ValueError, TypeError, KeyError) as error:
            raise UnavailableError(
                f"The schema registry at {self.url} cannot be used: {_told(error)} ({what})",
                hint="Does it run, and can it be reached from here?",
            ) from error

    def _error(self, what: str, error: SchemaRegistryError) -> MillstreamError:
        status, message = error.http_status_code, str(error.error_message)
        if status in _REFUSED:
            return wordings.REGISTRY_REFUSED(what=what, registry=self.url, status=status)
        if status in (_CONFLICT, _INVALID):
            return wordings.SCHEMA_REFUSED(what=what, registry=self.url, reason=message)
        return UnavailableError(
            f"The schema registry at {self.url} answers with {status}: {message} ({what})"
        )


def _text_of(schema: Schema) -> SchemaText:
    references = tuple(
        Reference(_text(each.name), _text(each.subject), _number(each.version))
        for each in schema.references or ()
    )
    return SchemaText(schema.schema_type or UNNAMED_KIND, _text(schema.schema_str), references)


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError(f"its answer has {given!r} where a text belongs")
    return given


def _number(given: object) -> int:
    if not isinstance(given, int):
        raise ValueError(f"its answer has {given!r} where a number belongs")
    return given


def _told(error: Exception) -> str:
    """What an exception says; some say nothing but their kind."""
    return str(error) or type(error).__name__
