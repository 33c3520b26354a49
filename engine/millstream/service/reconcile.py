"""Makes the queries of this process match the catalog: carries out the effects of statements, and
reconciles running queries with the catalog."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import assert_never

from millstream.ddl.effects import (
    BackfillQuery,
    Change,
    CreateTopic,
    DeleteTopic,
    Effect,
    EndQuery,
    PauseQuery,
    ReplaceQuery,
    ResumeQuery,
    StartQuery,
)
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.ddl.upgrade import state_tables
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.service import orphans, queries
from millstream.service.engine import Engine, PersistentQuery
from millstream.service.history.backfill_result import BackfillResult, check_backfill
from millstream.service.statements import teardown


def prepare(engine: Engine, change: Change, backfill: BackfillResult | None) -> CatalogSnapshot:
    """Carry out the effects that precede the command, or undo them if one fails. Returns the
    catalog after the statement, with the topics of the query that it starts.

    The query is in the engine's catalog from then on, because it may process records at once.
    """
    before = engine.definitions
    created: list[str] = []
    for effect in change.effects:
        match effect:
            case CreateTopic(topic):
                created += filter(
                    None, [queries.make_topic(engine.log, topic, shared=engine.shared)]
                )
            case StartQuery(query_id) | BackfillQuery(query_id):
                engine.definitions = change.after
                try:
                    _begin(engine, effect, backfill)
                except BaseException as failure:
                    engine.definitions = before
                    # A kill, which is no Exception, leaves orphans for the next start to delete.
                    if isinstance(failure, Exception):
                        teardown.undo_start(engine, query_id)
                        _delete(engine, created)
                    raise
            case ReplaceQuery() | EndQuery() | PauseQuery() | ResumeQuery() | DeleteTopic():
                pass
            case _:
                assert_never(effect)
    return change.after if engine.definitions is before else engine.definitions


def take_back(engine: Engine, before: CatalogSnapshot, *, written: bool) -> None:
    """Undo `prepare` for a command that could not be written. `written`: whether it may have been
    written nevertheless; then the topics and positions stay."""
    for query_id in engine.catalog.queries.keys() - before.catalog.queries.keys():
        if written:
            teardown.drop_local(engine, query_id, commit=False)
        else:
            teardown.undo_start(engine, query_id)
    engine.definitions = before


def complete(engine: Engine, change: Change, backfill: BackfillResult | None) -> None:
    """Carry out all effects that follow the command, then raise the first error."""
    errors: list[MillstreamError] = []
    for effect in change.effects:
        try:
            _complete(engine, effect, backfill)
        except MillstreamError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _begin(
    engine: Engine, effect: StartQuery | BackfillQuery, backfill: BackfillResult | None
) -> None:
    query_id = effect.query_id
    if isinstance(effect, BackfillQuery) and backfill is not None:
        check_backfill(engine, query_id, backfill)
        queries.make_topics(engine, query_id, fresh=True)
    else:
        queries.start_new(engine, query_id)


def _delete(engine: Engine, topics: Sequence[str]) -> None:
    """Delete topics, unless other instances share the log: one of them may already use a topic."""
    for topic in () if engine.shared else topics:
        engine.log.delete_topic(topic)


def _complete(engine: Engine, effect: Effect, backfill: BackfillResult | None) -> None:
    match effect:
        case CreateTopic() | StartQuery():
            pass
        case BackfillQuery(query_id):
            if backfill is not None:
                engine.processing_log.add(query_id, backfill.problems)
                reconcile(engine)
        case ReplaceQuery(query_id):
            try:
                _replace(engine, query_id)
            except MillstreamError as error:
                _note(engine, query_id, error)
                raise
        case EndQuery(query_id, topics):
            teardown.end(engine, query_id, topics)
        case PauseQuery(query_id):
            _pause(engine, query_id)
        case ResumeQuery(query_id):
            _resume(engine, query_id)
        case DeleteTopic(name, identity):
            orphans.delete_topic(engine.log, name, identity)
        case _:
            assert_never(effect)


def reconcile(engine: Engine, *, retry: bool = False) -> None:
    """Start, replace, pause, resume and drop queries until this process matches the catalog.

    If that fails for a query, the error is kept in its `PersistentQuery`; with `retry`, queries for
    which the log did not respond are tried again. Call it under the driver's lock, at any time: it
    does nothing if nothing differs. It does not touch topics and positions of ended queries, since
    they belong to the whole service.
    """
    quiesced = engine.replay_state.quiesced
    held = quiesced.request.query_id if quiesced is not None else None
    for query_id in dict.fromkeys((*engine.queries, *engine.catalog.queries)):
        try:
            if query_id not in engine.catalog.queries:
                teardown.drop_local(engine, query_id, commit=False)
            elif query_id != held:
                _reconcile(engine, query_id, retry=retry)
            elif query_id not in engine.queries:
                engine.queries[query_id] = PersistentQuery(engine.plans[query_id], stopped=True)
        except Exception as error:
            _note(engine, query_id, error)


def _reconcile(engine: Engine, query_id: str, *, retry: bool) -> None:
    running = engine.queries.get(query_id)
    if running is None or running.stopped or (retry and running.retry):
        # Another process may have left the state of an earlier plan.
        if query_id in engine.replay_state.replaced:
            _adapt_state(engine, query_id)
        queries.start(engine, query_id)
    elif running.planned is not engine.plans[query_id]:
        _replace(engine, query_id)
    elif not running.error and running.paused != (query_id in engine.paused):
        (_resume if running.paused else _pause)(engine, query_id)


def _replace(engine: Engine, query_id: str) -> None:
    teardown.stop(engine, query_id)
    _adapt_state(engine, query_id)
    queries.start(engine, query_id)


def _pause(engine: Engine, query_id: str) -> None:
    engine.runtime.pause(query_id)
    engine.queries[query_id].paused = True


def _resume(engine: Engine, query_id: str) -> None:
    engine.driver.resume(query_id)
    engine.queries[query_id].paused = False


def _note(engine: Engine, query_id: str, error: Exception) -> None:
    """Keep the error of a query that does not run. It must not stop the others."""
    logging.getLogger("millstream").warning("query %s cannot be started here: %s", query_id, error)
    if query_id in engine.plans:
        engine.queries[query_id] = PersistentQuery(
            engine.plans[query_id], error=str(error), retry=isinstance(error, UnavailableError)
        )


def _adapt_state(engine: Engine, query_id: str) -> None:
    """Add the new columns of a query's plan to its state tables, with NULL in existing rows. The
    query must not be running."""
    topology = queries.topology_of(engine, query_id, engine.plans[query_id])
    for (subtopology, _), table in state_tables(topology, engine.functions).items():
        engine.store.widen(query_id, subtopology, table)
