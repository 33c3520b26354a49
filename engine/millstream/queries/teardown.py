"""Ends persistent queries, in this process or in the whole service."""

from __future__ import annotations

import re
from collections.abc import Iterable

from millstream.log.log import Topic
from millstream.model.errors import UnavailableError
from millstream.queries.registry import EndedQuery, QueryRegistry
from millstream.topology.topology import owner_of

DELETE_ATTEMPTS = 150
"""The number of attempts to delete the topics and positions of an ended query while other instances
may still run it. The next start deletes what remains then."""


def end(registry: QueryRegistry, query_id: str, topics: Iterable[Topic]) -> None:
    """End a persistent query permanently, and delete its state, positions and internal topics.
    `topics`: as they were when it was created. If the service has several instances, the topics and
    positions are deleted later."""
    drop_local(registry, query_id, commit=True)
    if registry.shared:
        registry.ended_queries[query_id] = EndedQuery(
            frozenset(topic.id for topic in topics), DELETE_ATTEMPTS
        )
    else:
        erase(registry, query_id)


def undo_start(registry: QueryRegistry, query_id: str) -> None:
    """Undo the start of a query whose statement failed. If another instance may be starting a query
    with the same id, the topics and positions of that id stay."""
    drop_local(registry, query_id, commit=True)
    try:
        erase(registry, query_id)
    except UnavailableError:
        registry.ended_queries[query_id] = EndedQuery(frozenset(), DELETE_ATTEMPTS)


def drop_local(registry: QueryRegistry, query_id: str, *, commit: bool) -> None:
    """Remove a query and its state from this process; its topics and positions stay. `commit`:
    whether it commits its last work."""
    try:
        stop(registry, query_id, commit=commit)
    finally:
        registry.queries.pop(query_id, None)
    registry.store.drop_query(query_id)


def stop(registry: QueryRegistry, query_id: str, *, commit: bool = True) -> None:
    """Stop a query in this process; its state stays."""
    if query_id in registry.queries:
        registry.queries[query_id].stopped = True
    if registry.restoring is not None:
        registry.restoring.remove_query(query_id)
    registry.driver.remove(query_id, commit=commit)


def erase(registry: QueryRegistry, query_id: str, topic_ids: frozenset[str] = frozenset()) -> None:
    """Delete the positions and the internal topics of an ended query.

    Another instance may be starting a new query with the same id at this moment, if the id was
    given by a user. In this case only the topics with an id in `topic_ids` are deleted, and the
    positions stay: the new query writes its own.
    """
    unique = not registry.shared or generated_number(query_id) is not None
    if unique:
        registry.log.forget_group(query_id)
    prefix = registry.settings.internal_prefix
    for topic in registry.log.topics():
        if owner_of(topic.name, prefix) == query_id and (unique or topic.id in topic_ids):
            registry.log.delete_topic(topic.name)


def generated_number(query_id: str) -> int | None:
    """The number in a generated query id, which no other attempt to start a query has. None for an
    id that was given by a user."""
    found = re.fullmatch(r"(?:C[ST]AS_.+|CST_.+|INSERTQUERY)_(\d+)", query_id)
    return int(found[1]) if found else None
