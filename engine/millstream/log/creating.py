"""Several new topics in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.log.checks import check_new_topic
from millstream.log.log import Topic
from millstream.model.errors import MillstreamError


def create_together(
    topics: Sequence[Topic],
    existing: Callable[[str], Topic | None],
    insert: Callable[[Sequence[Topic]], Sequence[Topic]],
) -> list[Topic | MillstreamError]:
    """`Log.create_topics` where `insert` creates all of several or, if nothing can be written, none
    of them."""
    refused: dict[int, MillstreamError] = {}
    new: dict[str, Topic] = {}
    for at, topic in enumerate(topics):
        try:
            check_new_topic(topic, new.get(topic.name) or existing(topic.name))
        except MillstreamError as error:
            refused[at] = error
        else:
            new[topic.name] = topic
    try:
        created = {topic.name: topic for topic in insert(list(new.values()))} if new else {}
    except MillstreamError as error:
        return [refused.get(at, error) for at in range(len(topics))]
    return [refused.get(at) or created[topic.name] for at, topic in enumerate(topics)]


def raise_first(results: Sequence[Topic | MillstreamError]) -> None:
    """Raise the first error, if any is among them."""
    for result in results:
        if isinstance(result, MillstreamError):
            raise result
