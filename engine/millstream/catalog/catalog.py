"""Every stream, table, type and persistent query in an immutable snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from millstream.catalog import wordings
from millstream.catalog.source import Source
from millstream.model import refusals
from millstream.model.errors import ConflictError
from millstream.model.nearest import Suggested, did_you_mean, nearest
from millstream.model.schema import SourceKind
from millstream.model.types import SqlType

TERMINATED_MAX = 100
"""The number of terminated queries that a catalog keeps."""
_STORE = "Stores of processors are read by pull queries: a SELECT without EMIT."
_V = TypeVar("_V")


class QueryKind(Enum):
    """The statement that created a persistent query: CREATE … AS, INSERT INTO … SELECT, or CREATE
    SOURCE TABLE."""

    CREATE_AS = "CREATE_AS"
    INSERT = "INSERT"
    SOURCE_TABLE = "SOURCE_TABLE"


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """A persistent query: `sources` are the names it reads, `sink` the one it writes into.

    `properties` are the session's settings at the moment of its statement; they never change.
    """

    id: str
    statement: str
    kind: QueryKind
    sources: tuple[str, ...]
    sink: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TerminatedQuery:
    """A persistent query that TERMINATE or the DROP of a source ended. `ended_at`: the time of the
    command, in ms; 0 if the command has none."""

    record: QueryRecord
    ended_at: int


@dataclass(frozen=True, slots=True)
class Catalog:
    """One immutable state of the catalog. `with_…` and `without_…` return a changed copy."""

    sources: Mapping[str, Source] = field(default_factory=dict)
    types: Mapping[str, SqlType] = field(default_factory=dict)
    queries: Mapping[str, QueryRecord] = field(default_factory=dict)
    system: Mapping[str, Source] = field(default_factory=dict)
    """Sources that are part of the engine. A source created by a statement takes precedence."""
    terminated: tuple[TerminatedQuery, ...] = ()
    """The last terminated queries, newest first."""

    def find(self, name: str) -> Source | None:
        """The stream or table of this name, if there is one; including the engine's own."""
        return self.sources.get(name) or self.system.get(name)

    def every(self) -> Mapping[str, Source]:
        """All streams and tables by name, including the engine's own."""
        return {**self.system, **self.sources}

    def source(self, name: str) -> Source:
        """The stream or table of this name; raises StatementError with a hint when there is
        none."""
        found = self.find(name)
        if found is not None:
            return found
        hint = self.spelling_hint(name) if self.query_of_store(name) is None else _STORE
        raise wordings.SOURCE_MISSING(name=name, hint=hint)

    def query_of_store(self, name: str) -> QueryRecord | None:
        """The query that keeps a store of this name, if it has one: `stream.store`, by the stream
        that it writes, or `query.store`, by its id."""
        owner, dot, _ = name.rpartition(".")
        source = self.find(owner)
        query_id = owner if source is None else source.query_id or ""
        return self.queries.get(query_id) if dot else None

    def spelling_hint(self, name: str) -> str:
        """A hint at an existing name that is similar, or nothing."""
        near = nearest(name, self.every())
        if near is None:
            return ""
        if near.upper() != name.upper():
            shown = near if near == near.upper() else f'"{near}"'
            return Suggested(f"Did you mean {shown}?", "source", near)
        if near == near.upper():
            advice = f"{near}? Hint: try removing double quotes from the source name."
        else:
            advice = f'"{near}"? Hint: wrap the source name in double quotes to make it'
            advice += " case-sensitive."
        return Suggested(f"Did you mean {advice}", "source", near)

    def readers(self, name: str) -> tuple[QueryRecord, ...]:
        """The persistent queries that read a source."""
        return tuple(query for query in self.queries.values() if name in query.sources)

    def writers(self, name: str) -> tuple[QueryRecord, ...]:
        """The persistent queries that write into a source."""
        return tuple(query for query in self.queries.values() if query.sink == name)

    def made_from(self, name: str) -> tuple[str, ...]:
        """The names of the sources that CREATE … AS made from a source."""
        return tuple(sorted(s.name for s in self.sources.values() if name in s.origins))

    def over_topic(self, topic: str) -> tuple[Source, ...]:
        """The sources that read a topic."""
        return tuple(source for source in self.every().values() if source.topic == topic)

    def with_source(self, source: Source, *, replacing: bool = False) -> Catalog:
        """The catalog with one more source; raises ConflictError when the name is taken."""
        taken = self.sources.get(source.name)
        if taken is not None and not replacing:
            raise already_exists(source.kind, source.name, taken.kind)
        return replace(self, sources={**self.sources, source.name: source})

    def without_source(self, name: str) -> Catalog:
        """The catalog without a source; raises StatementError when there is none."""
        self.source(name)
        return replace(self, sources=_without(self.sources, name))

    def with_type(self, name: str, sql_type: SqlType) -> Catalog:
        """The catalog with one more custom type; raises ConflictError when the name is taken."""
        if name in self.types:
            raise wordings.TYPE_TAKEN(
                name=name,
                types=self.types[name],
                hint="Drop it first, or use CREATE TYPE IF NOT EXISTS.",
            )
        return replace(self, types={**self.types, name: sql_type})

    def without_type(self, name: str) -> Catalog:
        """The catalog without a custom type; sources that used it keep its definition."""
        if name not in self.types:
            raise wordings.TYPE_MISSING(name=name, hint=did_you_mean(name, self.types))
        return replace(self, types=_without(self.types, name))

    def with_query(self, query: QueryRecord, *, replacing: bool = False) -> Catalog:
        """The catalog with one more persistent query; raises ConflictError when the id is taken."""
        if query.id in self.queries and not replacing:
            raise wordings.QUERY_ID_TAKEN(query_id=query.id)
        return replace(self, queries={**self.queries, query.id: query})

    def without_query(self, query_id: str) -> Catalog:
        """The catalog without a persistent query; its output stays."""
        if query_id not in self.queries:
            raise refusals.UNKNOWN_QUERY(query=query_id)
        return replace(self, queries=_without(self.queries, query_id))


def last_terminated(
    before: tuple[TerminatedQuery, ...], ended: Iterable[QueryRecord], ended_at: int
) -> tuple[TerminatedQuery, ...]:
    """The last terminated queries after a command that ends some more. These are in the order of
    their ids, which all instances share."""
    records = sorted(ended, key=lambda record: record.id)
    newest = tuple(TerminatedQuery(record, ended_at) for record in records)
    return (*newest, *before)[:TERMINATED_MAX]


def already_exists(kind: SourceKind, name: str, taken: SourceKind) -> ConflictError:
    """The error for creating a source under a name that is in use."""
    noun, other = kind.value.lower(), taken.value.lower()
    return wordings.NAME_TAKEN(
        noun=noun,
        name=name,
        other=other,
        hint=f"Use CREATE OR REPLACE, CREATE {kind.value} IF NOT EXISTS, or another name.",
    )


def _without(items: Mapping[str, _V], name: str) -> Mapping[str, _V]:
    return {key: value for key, value in items.items() if key != name}
