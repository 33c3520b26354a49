"""What a process that was killed inside of a statement left half made or half ended.

A statement counts from the moment it is on the command log. One that starts a query makes topics
and state before that, one that ends a query drops them after: what belongs to no query of the
catalog when the file is opened is waste of either kind. It must go, as the next query may get the
same id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from millstream.service import queries
from millstream.service.engine import Engine
from millstream.topology.topology import INTERNAL_TOPIC


def sweep(engine: Engine) -> None:
    """Drop the internal topics, the positions and the state of queries that do not exist. To be
    called when the command log is replayed and no query runs yet."""
    for query_id in sorted(_with_topics(engine) | engine.store.query_ids()):
        if query_id not in engine.catalog.queries:
            queries.end(engine, query_id, replaying=False)


def delete_topics(engine: Engine, doomed: Iterable[tuple[str, str]]) -> None:
    """Delete the topics, by name and id, that statements were going to delete after they were
    written down. A later topic of the same name has another id."""
    for name, identity in doomed:
        topic = engine.log.topic(name)
        if topic is not None and identity and topic.id == identity:
            engine.log.delete_topic(name)


def _with_topics(engine: Engine) -> set[str]:
    prefix = re.escape(engine.settings.internal_prefix)
    internal = re.compile(f"{prefix}(.+)-{INTERNAL_TOPIC}")
    found = (internal.fullmatch(topic.name) for topic in engine.log.topics())
    return {match[1] for match in found if match}
