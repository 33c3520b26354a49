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
from millstream.service import leftovers, queries
from millstream.service.engine import Engine
from millstream.service.history.filled import Filled, check_filled
from millstream.service.statements import ending


def prepare(engine: Engine, change: Change, filled: Filled | None) -> CatalogSnapshot:
    """Carry out the effects that come before the command is written; where that fails, nothing of
    them stays. Gives the catalog after the statement, with the topics of the query it starts.

    A query that starts is in the engine's catalog from then on: its first records may come at once.
    """
    before = engine.definitions
    created: list[str] = []
    for effect in change.effects:
        match effect:
            case CreateTopic(topic):
                created += filter(None, [queries.make_topic(engine, topic)])
            case StartQuery(query_id) | BackfillQuery(query_id):
                engine.definitions = change.after
                try:
                    _begin(engine, effect, filled)
                except BaseException as failure:
                    engine.definitions = before
                    # What a killed process has made is left to the next start.
                    if isinstance(failure, Exception):
                        ending.take_back(engine, query_id)
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
            ending.drop_here(engine, query_id, commit=False)
        else:
            ending.take_back(engine, query_id)
    engine.definitions = before


def complete(engine: Engine, change: Change, filled: Filled | None) -> None:
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


def _begin(engine: Engine, effect: StartQuery | BackfillQuery, filled: Filled | None) -> None:
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


def _complete(engine: Engine, effect: Effect, filled: Filled | None) -> None:
    match effect:
        case CreateTopic() | StartQuery():
            pass
        case BackfillQuery(query_id):
            if filled is not None:
                engine.processing_log.add(query_id, filled.problems)
                begin(engine, query_id)
        case ReplaceQuery(query_id):
            replace(engine, query_id)
        case EndQuery(query_id, topics):
            ending.end(engine, query_id, topics)
        case PauseQuery(query_id):
            engine.instance.pause(query_id)
        case ResumeQuery(query_id):
            engine.driver.resume(query_id)
        case DeleteTopic(name, identity):
            leftovers.delete_topic(engine, name, identity)
        case _:
            assert_never(effect)


def start_all(engine: Engine) -> None:
    """Start the queries that the command topic has left running."""
    stood = engine.ledger.standing
    for query_id in engine.catalog.queries:
        if stood is not None and stood.hold.query_id == query_id:
            continue
        try:
            if query_id in engine.ledger.replaced:
                _adapt_state(engine, query_id)
            queries.start(engine, query_id)
        except MillstreamError as error:
            # One query that cannot run is no reason to refuse the file and all the others.
            engine.failed[query_id] = str(error)


def converge(engine: Engine, before: CatalogSnapshot) -> None:
    """Let the queries that run, which were those of the catalog `before`, be those of the catalog.
    A query for which that fails is noted."""
    for query_id in before.catalog.queries.keys() | engine.catalog.queries.keys():
        try:
            _converge(engine, query_id, before)
        except Exception as error:
            _failed(engine, query_id, error)


def _converge(engine: Engine, query_id: str, before: CatalogSnapshot) -> None:
    if query_id not in engine.catalog.queries:
        ending.drop_here(engine, query_id, commit=False)
    elif query_id not in before.catalog.queries:
        queries.start(engine, query_id)
    elif engine.plans[query_id] is not before.plans[query_id]:
        replace(engine, query_id)
    elif query_id in engine.paused - before.paused:
        engine.instance.pause(query_id)
    elif query_id in before.paused - engine.paused:
        engine.driver.resume(query_id)


def replace(engine: Engine, query_id: str) -> None:
    """Let a query that runs go on with another plan, which the catalog has already."""
    ending.stop(engine, query_id)
    engine.failed.pop(query_id, None)
    _adapt_state(engine, query_id)
    queries.start(engine, query_id)


def begin(engine: Engine, query_id: str) -> None:
    """Start a query whose command is written already: if that fails, it is noted."""
    try:
        queries.start(engine, query_id)
    except MillstreamError as error:
        _failed(engine, query_id, error)


def begin_waiting(engine: Engine) -> None:
    """Try again what failed as the log did not answer."""
    waiting, engine.ledger.waiting = engine.ledger.waiting, set()
    for query_id in waiting & engine.catalog.queries.keys():
        try:
            queries.start(engine, query_id)
            del engine.failed[query_id]
        except MillstreamError as error:
            _failed(engine, query_id, error)


def _failed(engine: Engine, query_id: str, error: Exception) -> None:
    logging.getLogger("millstream").warning("query %s cannot be started here: %s", query_id, error)
    engine.failed[query_id] = str(error)
    if isinstance(error, UnavailableError):
        engine.ledger.waiting.add(query_id)


def _adapt_state(engine: Engine, query_id: str) -> None:
    """Give the state tables of a query with another plan their new columns, NULL in the rows that
    are there. The query must not be running."""
    topology = queries.topology_of(engine, query_id, engine.plans[query_id])
    for (subtopology, _), table in state_tables(topology, engine.functions).items():
        engine.store.widen(query_id, subtopology, table)
