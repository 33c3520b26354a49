"""Ends persistent queries, in this process or in the whole service."""

from __future__ import annotations

import re
from collections.abc import Iterable

from millstream.log.log import Topic
from millstream.model.errors import UnavailableError
from millstream.service.engine import EndedQuery, Engine
from millstream.topology.topology import owner_of

DELETE_ATTEMPTS = 150
"""The number of attempts to delete the topics and positions of an ended query while other instances
may still run it. The next start deletes what remains then."""


def end(engine: Engine, query_id: str, topics: Iterable[Topic]) -> None:
    """End a persistent query permanently, and delete its state, positions and internal topics.
    `topics`: as they were when it was created. If the service has several instances, the topics and
    positions are deleted later."""
    drop_local(engine, query_id, commit=True)
    if engine.shared:
        engine.ended_queries[query_id] = EndedQuery(
            frozenset(topic.id for topic in topics), DELETE_ATTEMPTS
        )
    else:
        erase(engine, query_id)


def undo_start(engine: Engine, query_id: str) -> None:
    """Undo the start of a query whose statement failed. If another instance may be starting a query
    with the same id, the topics and positions of that id stay."""
    drop_local(engine, query_id, commit=True)
    try:
        erase(engine, query_id)
    except UnavailableError:
        engine.ended_queries[query_id] = EndedQuery(frozenset(), DELETE_ATTEMPTS)


def drop_local(engine: Engine, query_id: str, *, commit: bool) -> None:
    """Remove a query and its state from this process; its topics and positions stay. `commit`:
    whether it commits its last work."""
    try:
        stop(engine, query_id, commit=commit)
    finally:
        engine.queries.pop(query_id, None)
    engine.store.drop_query(query_id)


def stop(engine: Engine, query_id: str, *, commit: bool = True) -> None:
    """Stop a query in this process; its state stays."""
    if query_id in engine.queries:
        engine.queries[query_id].stopped = True
    if engine.restoring is not None:
        engine.restoring.remove_query(query_id)
    engine.driver.remove(query_id, commit=commit)


def erase(engine: Engine, query_id: str, topic_ids: frozenset[str] = frozenset()) -> None:
    """Delete the positions and the internal topics of an ended query.

    Another instance may be starting a new query with the same id at this moment, if the id was
    given by a user. In this case only the topics with an id in `topic_ids` are deleted, and the
    positions stay: the new query writes its own.
    """
    unique = not engine.shared or generated_number(query_id) is not None
    if unique:
        engine.log.forget_group(query_id)
    prefix = engine.settings.internal_prefix
    for topic in engine.log.topics():
        if owner_of(topic.name, prefix) == query_id and (unique or topic.id in topic_ids):
            engine.log.delete_topic(topic.name)


def generated_number(query_id: str) -> int | None:
    """The number in a generated query id, which no other attempt to start a query has. None for an
    id that was given by a user."""
    found = re.fullmatch(r"(?:C[ST]AS_.+|CST_.+|INSERTQUERY)_(\d+)", query_id)
    return int(found[1]) if found else None
