"""Creates the topics of a statement, in one request, because a broker takes some ms for each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.log.log import Log, Topic
from millstream.model.errors import ConflictError, MillstreamError


@dataclass(frozen=True, slots=True)
class CreatedTopics:
    """`topics`: the requested topics that exist now, by name. `made`: the names of those that did
    not exist before. `error`: the first reason why some do not exist; the caller deletes the others
    then."""

    topics: Mapping[str, Topic]
    made: Sequence[str]
    error: MillstreamError | None = None


def create_topics(
    log: Log[pa.Table],
    topics: Sequence[Topic],
    *,
    shared: bool,
    stale: Collection[str] = (),
) -> CreatedTopics:
    """Create topics. On a shared log, another instance may have created one meanwhile, which is as
    good if it has as many partitions.

    `stale`: names of topics that are deleted and created again if they exist.
    """
    results = dict(zip((topic.name for topic in topics), log.create_topics(topics), strict=True))
    again = [
        topic
        for topic in topics
        if topic.name in stale and isinstance(results[topic.name], ConflictError)
    ]
    try:
        for topic in again:
            log.delete_topic(topic.name)
        results |= zip((topic.name for topic in again), log.create_topics(again), strict=True)
    except MillstreamError as error:
        results |= {topic.name: error for topic in again}
    made = [name for name, result in results.items() if isinstance(result, Topic)]
    for topic in topics:
        if shared and isinstance(results[topic.name], ConflictError):
            found = log.describe([topic.name]).get(topic.name)
            if found and found.partitions == topic.partitions:
                results[topic.name] = found
    errors = [result for result in results.values() if not isinstance(result, Topic)]
    existing = {name: result for name, result in results.items() if isinstance(result, Topic)}
    return CreatedTopics(existing, made, errors[0] if errors else None)
