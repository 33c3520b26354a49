"""What runs in this process follows the catalog: effects of statements are carried out, and
differences between two catalogs made up for."""

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
from millstream.service.history.backfill_result import BackfillResult, check_filled
from millstream.service.statements import teardown


def prepare(engine: Engine, change: Change, filled: BackfillResult | None) -> CatalogSnapshot:
    """Carry out the effects that come before the command is written; where that fails, nothing of
    them stays. Gives the catalog after the statement, with the topics of the query it starts.

    A query that starts is in the engine's catalog from then on: its first records may come at once.
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
                    _begin(engine, effect, filled)
                except BaseException as failure:
                    engine.definitions = before
                    # What a killed process has made is left to the next start.
                    if isinstance(failure, Exception):
                        teardown.take_back(engine, query_id)
                        _delete(engine, created)
                    raise
            case ReplaceQuery() | EndQuery() | PauseQuery() | ResumeQuery() | DeleteTopic():
                pass
            case _:
                assert_never(effect)
    return change.after if engine.definitions is before else engine.definitions


def take_back(engine: Engine, before: CatalogSnapshot, *, written: bool) -> None:
    """Undo what was prepared for a command that could not be written. `written`: nobody can tell
    whether it was, so what the service needs in that case has to stay."""
    for query_id in engine.catalog.queries.keys() - before.catalog.queries.keys():
        if written:
            teardown.drop_here(engine, query_id, commit=False)
        else:
            teardown.take_back(engine, query_id)
    engine.definitions = before


def complete(engine: Engine, change: Change, filled: BackfillResult | None) -> None:
    """Carry out the effects that come after the command is written: all of them, and then raise
    the first error."""
    errors: list[MillstreamError] = []
    for effect in change.effects:
        try:
            _complete(engine, effect, filled)
        except MillstreamError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _begin(
    engine: Engine, effect: StartQuery | BackfillQuery, filled: BackfillResult | None
) -> None:
    query_id = effect.query_id
    if isinstance(effect, BackfillQuery) and filled is not None:
        check_filled(engine, query_id, filled)
        queries.make_topics(engine, query_id, fresh=True)
    else:
        queries.start_new(engine, query_id)


def _delete(engine: Engine, topics: Sequence[str]) -> None:
    """Another instance may have found them, and made its own of them."""
    for topic in () if engine.shared else topics:
        engine.log.delete_topic(topic)


def _complete(engine: Engine, effect: Effect, filled: BackfillResult | None) -> None:
    match effect:
        case CreateTopic() | StartQuery():
            pass
        case BackfillQuery(query_id):
            if filled is not None:
                engine.processing_log.add(query_id, filled.problems)
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
    """Start, replace, pause, resume and drop queries, so that what runs in this process is what the
    catalog says. A query for which that fails is noted, and tried again with `retry` if the log did
    not answer. May be called at any time under the driver's lock: where nothing differs, it does
    nothing.

    Topics and positions of queries that have ended are the service's; they are not touched.
    """
    standing = engine.ledger.standing
    held = standing.hold.query_id if standing is not None else None
    for query_id in dict.fromkeys((*engine.queries, *engine.catalog.queries)):
        try:
            if query_id not in engine.catalog.queries:
                teardown.drop_here(engine, query_id, commit=False)
            elif query_id != held:
                _reconcile(engine, query_id, retry=retry)
            elif query_id not in engine.queries:
                engine.queries[query_id] = PersistentQuery(engine.plans[query_id], stopped=True)
        except Exception as error:
            _note(engine, query_id, error)


def _reconcile(engine: Engine, query_id: str, *, retry: bool) -> None:
    running = engine.queries.get(query_id)
    if running is None or running.stopped or (retry and running.retry):
        # Its state may be one that another process has left for an earlier plan.
        if query_id in engine.ledger.replaced:
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
    """Keep why a query does not run. One query that cannot is no reason to stop all others."""
    logging.getLogger("millstream").warning("query %s cannot be started here: %s", query_id, error)
    if query_id in engine.plans:
        engine.queries[query_id] = PersistentQuery(
            engine.plans[query_id], error=str(error), retry=isinstance(error, UnavailableError)
        )


def _adapt_state(engine: Engine, query_id: str) -> None:
    """Give the state tables of a query with another plan their new columns, NULL in the rows that
    are there. The query must not be running."""
    topology = queries.topology_of(engine, query_id, engine.plans[query_id])
    for (subtopology, _), table in state_tables(topology, engine.functions).items():
        engine.store.widen(query_id, subtopology, table)
