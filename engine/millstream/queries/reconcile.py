"""Makes the queries of this process match the catalog: carries out the effects of statements, and
reconciles running queries with the catalog."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import assert_never

import pyarrow as pa

from millstream.ddl.effects import (
    BackfillQuery,
    Change,
    CreateTopic,
    DeleteSubjects,
    DeleteTopic,
    Effect,
    EndQuery,
    PauseQuery,
    RegisterSchema,
    ReplaceQuery,
    ResumeQuery,
    StartQuery,
)
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.ddl.topics import PlannedTopics
from millstream.ddl.topologies import topology_of
from millstream.ddl.upgrade import state_tables
from millstream.log.log import Writer
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.queries import orphans, starting, teardown
from millstream.queries.backfill_result import BackfillResult, check_backfill
from millstream.queries.registry import PersistentQuery, QueryRegistry
from millstream.queries.topic_creation import create_topics
from millstream.topology.topology import Topology


def prepare(
    registry: QueryRegistry,
    changes: Sequence[Change],
    backfill: BackfillResult | None,
    planned: PlannedTopics,
    writer: Writer[pa.Table],
) -> CatalogSnapshot:
    """Carry out the effects that precede the commands of several statements, or undo them all if
    one fails. Returns the catalog after the statements, with the topics of the queries that they
    start. `planned`: the topics with which they were planned. `writer`: that of the command topic.

    The queries are in the catalog from then on, because they may process records at once.
    """
    effects = [effect for change in changes for effect in change.effects]
    topics = [effect.topic for effect in effects if isinstance(effect, CreateTopic)]
    starts = [item for item in effects if isinstance(item, StartQuery | BackfillQuery)]
    for effect in effects:
        if isinstance(effect, RegisterSchema) and registry.schemas is not None:
            registry.schemas.id_of(effect.subject, effect.schema)
    if not starts:
        created = create_topics(registry.log, topics, shared=registry.shared)
        if created.error is not None:
            starting.delete_topics(registry, created.made)
            raise created.error
        return changes[-1].after
    before, registry.definitions = registry.definitions, changes[-1].after
    made: Sequence[str] = ()
    try:
        topologies = [_topology_of_new(registry, effect, backfill, planned) for effect in starts]
        created = starting.create_all(registry, topologies, topics, planned)
        made = [topic.name for topic in topics if topic.name in created.made]
        if created.error is not None:
            raise created.error
        if backfill is None:
            starting.start_new(registry, topologies, writer)
    except BaseException as failure:
        registry.definitions = before
        # A kill, which is no Exception, leaves orphans for the next start to delete.
        if isinstance(failure, Exception):
            with ExitStack() as undone:
                undone.callback(starting.delete_topics, registry, made)
                for effect in starts:
                    undone.callback(teardown.undo_start, registry, effect.query_id)
        raise
    return registry.definitions


def _topology_of_new(
    registry: QueryRegistry,
    effect: StartQuery | BackfillQuery,
    backfill: BackfillResult | None,
    planned: PlannedTopics,
) -> Topology:
    if isinstance(effect, BackfillQuery) and backfill is not None:
        check_backfill(registry, effect.query_id, backfill)
    environment = replace(registry.environment, topics=planned)
    return topology_of(effect.query_id, registry.plans[effect.query_id], environment)


def take_back(registry: QueryRegistry, before: CatalogSnapshot, *, written: bool) -> None:
    """Undo `prepare` for commands that could not be written. `written`: whether they may have been
    written nevertheless; then the topics and positions stay."""
    for query_id in registry.catalog.queries.keys() - before.catalog.queries.keys():
        if written:
            teardown.drop_local(registry, query_id, commit=False)
        else:
            teardown.undo_start(registry, query_id)
    registry.definitions = before


def complete(
    registry: QueryRegistry, changes: Sequence[Change], backfill: BackfillResult | None
) -> None:
    """Carry out all effects that follow the commands, then raise the first error."""
    errors: list[MillstreamError] = []
    for effect in (effect for change in changes for effect in change.effects):
        try:
            _complete(registry, effect, backfill)
        except MillstreamError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _complete(registry: QueryRegistry, effect: Effect, backfill: BackfillResult | None) -> None:
    match effect:
        case CreateTopic() | RegisterSchema() | StartQuery():
            pass
        case BackfillQuery(query_id):
            if backfill is not None:
                registry.report(query_id, backfill.problems)
                reconcile(registry)
        case ReplaceQuery(query_id):
            try:
                _replace(registry, query_id)
            except MillstreamError as error:
                _note(registry, query_id, error)
                raise
        case EndQuery(query_id, topics):
            teardown.end(registry, query_id, topics)
        case PauseQuery(query_id):
            _pause(registry, query_id)
        case ResumeQuery(query_id):
            _resume(registry, query_id)
        case DeleteTopic(name, identity):
            orphans.delete_topic(registry.log, name, identity)
        case DeleteSubjects(topic):
            if registry.schemas is not None:
                for side in ("key", "value"):
                    registry.schemas.delete(f"{topic}-{side}")
        case _:
            assert_never(effect)


def reconcile(registry: QueryRegistry, *, retry: bool = False, quiesced: str | None = None) -> None:
    """Start, replace, pause, resume and drop queries until this process matches the catalog.

    If that fails for a query, the error is kept in its `PersistentQuery`; with `retry`, queries for
    which the log did not respond are tried again. The query `quiesced` is not started. Call it
    under the driver's lock, at any time: it does nothing if nothing differs. It does not touch
    topics and positions of ended queries, since they belong to the whole service.
    """
    for query_id in dict.fromkeys((*registry.queries, *registry.catalog.queries)):
        try:
            if query_id not in registry.catalog.queries:
                teardown.drop_local(registry, query_id, commit=False)
            elif query_id != quiesced:
                _reconcile(registry, query_id, retry=retry)
            elif query_id not in registry.queries:
                registry.queries[query_id] = PersistentQuery(registry.plans[query_id], stopped=True)
        except Exception as error:
            _note(registry, query_id, error)


def _reconcile(registry: QueryRegistry, query_id: str, *, retry: bool) -> None:
    running = registry.queries.get(query_id)
    if running is None or running.stopped or (retry and running.retry):
        # Another process may have left the state of an earlier plan.
        if query_id in registry.replaced:
            _adapt_state(registry, query_id)
        starting.start(registry, query_id)
    elif running.planned is not registry.plans[query_id]:
        _replace(registry, query_id)
    elif not running.error and running.paused != (query_id in registry.paused):
        (_resume if running.paused else _pause)(registry, query_id)


def _replace(registry: QueryRegistry, query_id: str) -> None:
    teardown.stop(registry, query_id)
    _adapt_state(registry, query_id)
    starting.start(registry, query_id)


def _pause(registry: QueryRegistry, query_id: str) -> None:
    registry.driver.pause(query_id)
    registry.queries[query_id].paused = True


def _resume(registry: QueryRegistry, query_id: str) -> None:
    registry.driver.resume(query_id)
    registry.queries[query_id].paused = False


def _note(registry: QueryRegistry, query_id: str, error: Exception) -> None:
    """Keep the error of a query that does not run. It must not stop the others."""
    logging.getLogger("millstream").warning("query %s cannot be started here: %s", query_id, error)
    if query_id in registry.plans:
        registry.queries[query_id] = PersistentQuery(
            registry.plans[query_id], error=str(error), retry=isinstance(error, UnavailableError)
        )


def _adapt_state(registry: QueryRegistry, query_id: str) -> None:
    """Add the new columns of a query's plan to its state tables, with NULL in existing rows. The
    query must not be running."""
    topology = starting.topology_of(registry, query_id, registry.plans[query_id])
    for (subtopology, _), table in state_tables(topology, registry.functions).items():
        registry.store.widen(query_id, subtopology, table)
