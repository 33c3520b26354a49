"""Checks that topics are still the ones that a query was created for.

A topic that was deleted, recreated or enlarged is a different topic: positions, state and the
partitions of keys have another meaning on it. The query then stops instead of silently starting
anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from millstream.log.log import Log, Topic
from millstream.model.errors import CorruptionError, MillstreamError

Advice = Callable[[str], str]
"""What to do when the topic of a name has another number of partitions than before."""


def again(_topic: str) -> str:
    """The advice where nothing is known of the query."""
    return "Keys have moved between its partitions. Drop the query and create it again."


def check_topics(log: Log[Any], noted: Iterable[Topic], advice: Advice = again) -> None:
    """Compare topics with what was recorded earlier, as they are on the log now, in one request;
    raises CorruptionError (code E-TOPIC-REPLACED or E-PARTITIONS) for the first one that differs.
    """
    known = {topic.name: topic for topic in noted}
    found = log.describe(known.keys()) if known else {}
    for name, topic in known.items():
        check_same(topic, found.get(name), advice)


def check_seen(log: Log[Any], noted: Mapping[str, Topic], advice: Advice = again) -> None:
    """The same check with the log's cached metadata. The cache may be older than the recorded
    topics, so the log itself is read before a topic is rejected."""
    for name, found in log.seen(noted.keys()).items():
        try:
            check_same(noted[name], found, advice)
        except CorruptionError:
            check_topics(log, [noted[name]], advice)


def check_same(noted: Topic, found: Topic | None, advice: Advice = again) -> None:
    """Raise CorruptionError unless the topic is the recorded one."""
    if found is None:
        raise _replaced(f"topic '{noted.name}' was deleted")
    if noted.id and found.id != noted.id:
        raise _replaced(
            f"topic '{noted.name}' was deleted and made again: its id was {noted.id}, now it is"
            f" {found.id}"
        )
    if found.partitions != noted.partitions:
        raise CorruptionError(
            f"topic '{noted.name}' had {noted.partitions} partitions, now {found.partitions}",
            hint=advice(noted.name),
            code="E-PARTITIONS",
        )


def cause(
    log: Log[Any], noted: Iterable[Topic], error: Exception, advice: Advice = again
) -> Exception:
    """The cause of a query's error: a replaced topic if there is one, else the error itself."""
    if not isinstance(error, MillstreamError):
        return error
    with suppress(MillstreamError):
        try:
            check_topics(log, noted, advice)
        except CorruptionError as found:
            return found
    return error


def _replaced(text: str) -> CorruptionError:
    return CorruptionError(
        text,
        hint="The query's positions and state belong to the earlier one. Drop the query and create"
        " it again.",
        code="E-TOPIC-REPLACED",
    )
