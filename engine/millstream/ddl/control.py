"""Plans TERMINATE, PAUSE and RESUME of one persistent query or of all."""

from __future__ import annotations

from dataclasses import replace

from millstream.catalog.catalog import QueryKind
from millstream.ddl import wordings
from millstream.ddl.effects import Change, Effect, EndQuery, PauseQuery, ResumeQuery
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.model import refusals
from millstream.model.errors import StatementError
from millstream_parser import statements as s


def control_query(statement: s.ControlQuery, before: CatalogSnapshot) -> Change:
    """The change of one query or of all; raises StatementError if no query has the id."""
    chosen = _chosen(statement.query_id, before)
    listed = ", ".join(chosen) or "none"
    effects: list[Effect]
    match statement.action:
        case "TERMINATE":
            catalog = before.catalog
            for query_id in chosen:
                catalog = catalog.without_query(query_id)
            effects = [EndQuery(id, before.topics.get(id, ())) for id in chosen]
            return Change(
                before.with_catalog(catalog), f"Query terminated: {listed}", tuple(effects)
            )
        case "PAUSE":
            after = replace(before, paused=before.paused | set(chosen))
            effects = [PauseQuery(id) for id in chosen]
            return Change(after, f"Query paused: {listed}", tuple(effects))
    after = replace(before, paused=before.paused - set(chosen))
    effects = [ResumeQuery(id) for id in chosen]
    return Change(after, f"Query resumed: {listed}", tuple(effects))


def unknown_query(query_id: str) -> StatementError:
    """The error for an id that no query has."""
    return refusals.UNKNOWN_QUERY(query=query_id, hint="SHOW QUERIES lists the running queries.")


def _chosen(wanted: str | None, before: CatalogSnapshot) -> list[str]:
    queries = before.catalog.queries
    if wanted is not None and wanted not in queries:
        raise unknown_query(wanted)
    chosen = [
        query.id
        for query in queries.values()
        if query.kind is not QueryKind.SOURCE_TABLE and wanted in (None, query.id)
    ]
    if wanted is not None and not chosen:
        raise wordings.QUERY_OF_SOURCE_TABLE(wanted=wanted)
    return chosen
