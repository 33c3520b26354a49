"""Deletes orphans: topics and state that a process left behind when it was killed during a
statement.

A statement takes effect when it is on the command log. A statement that starts a query creates
topics and state before that; one that ends a query deletes them after it. So anything that belongs
to no query of the catalog when the database is opened is an orphan. It must be deleted, because the
next query may get the same id.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from millstream.log.log import Log
from millstream.model.errors import MillstreamError
from millstream.queries import teardown
from millstream.queries.registry import EndedQuery, QueryRegistry
from millstream.topology.topology import owner_of


def sweep(registry: QueryRegistry, *, below: int | None = None) -> None:
    """Delete the internal topics, the positions and the state of queries that do not exist. Call it
    after the command log is replayed and before any query runs.

    `below`: on a log that other instances share, topics and positions are deleted only if the
    number in the query's id is smaller.
    """
    for query_id in sorted(_with_topics(registry) | registry.store.query_ids()):
        if query_id in registry.catalog.queries:
            continue
        teardown.drop_local(registry, query_id, commit=False)
        number = teardown.generated_number(query_id)
        if below is None:
            teardown.erase(registry, query_id)
        elif number is not None and number < below:
            registry.ended_queries[query_id] = EndedQuery(frozenset(), teardown.DELETE_ATTEMPTS)
    erase_ended(registry)


def erase_ended(registry: QueryRegistry) -> None:
    """Try to delete the topics and positions of ended queries. This fails while other instances
    still run them. What remains after the last try is deleted at the next start."""
    for query_id, ended in tuple(registry.ended_queries.items()):
        del registry.ended_queries[query_id]
        try:
            teardown.erase(registry, query_id, ended.topics)
        except MillstreamError:
            if ended.attempts > 1:
                registry.ended_queries[query_id] = replace(ended, attempts=ended.attempts - 1)


def delete_topic(log: Log[Any], name: str, identity: str) -> None:
    """Delete a topic by name and id. A later topic of the same name has another id and stays."""
    topic = log.topic(name)
    if topic is not None and identity and topic.id == identity:
        log.delete_topic(name)


def _with_topics(registry: QueryRegistry) -> set[str]:
    prefix = registry.settings.internal_prefix
    found = (owner_of(topic.name, prefix) for topic in registry.log.topics())
    return {query_id for query_id in found if query_id is not None}
