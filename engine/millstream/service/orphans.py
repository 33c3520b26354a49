"""What a process that was killed inside of a statement left half made or half ended.

A statement counts from the moment it is on the command log. One that starts a query makes topics
and state before that, one that ends a query drops them after: what belongs to no query of the
catalog when the file is opened is waste of either kind. It must go, as the next query may get the
same id.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from millstream.log.log import Log
from millstream.model.errors import MillstreamError
from millstream.service.engine import Ended, Engine
from millstream.service.statements import teardown
from millstream.topology.topology import owner_of


def sweep(engine: Engine, *, below: int | None = None) -> None:
    """Drop the internal topics, the positions and the state of queries that do not exist. To be
    called when the command log is replayed and no query runs yet.

    `below`: on a log that others work on too, what is the service's goes only where it is of a
    query with a smaller number.
    """
    for query_id in sorted(_with_topics(engine) | engine.store.query_ids()):
        if query_id in engine.catalog.queries:
            continue
        teardown.drop_here(engine, query_id, commit=False)
        number = teardown.number_of(query_id)
        if below is None:
            teardown.erase(engine, query_id)
        elif number is not None and number < below:
            engine.ended[query_id] = Ended(frozenset(), teardown.TRIES)
    erase_ended(engine)


def erase_ended(engine: Engine) -> None:
    """Try to delete the topics and positions of queries that have ended. It does not succeed while
    other instances still work on them; what is not deleted in the end is swept at the next start.
    """
    for query_id, ended in tuple(engine.ended.items()):
        del engine.ended[query_id]
        try:
            teardown.erase(engine, query_id, ended.topics)
        except MillstreamError:
            if ended.tries > 1:
                engine.ended[query_id] = replace(ended, tries=ended.tries - 1)


def finish_last(engine: Engine) -> None:
    """Delete the topic that the last statement was going to delete after it was written down, if
    whoever wrote it has not come to that. No other statement begins before, so that it cannot take
    the topic for one to go on with."""
    done = engine.ledger.done
    if done and done[-1].command.deletes is not None:
        delete_topic(engine.log, *done[-1].command.deletes)


def delete_topic(log: Log[Any], name: str, identity: str) -> None:
    """Delete a topic by name and id: a later one of the same name has another id."""
    topic = log.topic(name)
    if topic is not None and identity and topic.id == identity:
        log.delete_topic(name)


def _with_topics(engine: Engine) -> set[str]:
    prefix = engine.settings.internal_prefix
    found = (owner_of(topic.name, prefix) for topic in engine.log.topics())
    return {query_id for query_id in found if query_id is not None}
