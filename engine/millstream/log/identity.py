"""Whether topics are still those that a query was made for.

A topic that is deleted, made again or larger than it was is another one: positions, state and the
places of keys mean something else on it. A query stops then, instead of starting anew in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from millstream.log.log import Log, Topic
from millstream.model.errors import CorruptionError, MillstreamError


def check_topics(log: Log[Any], noted: Iterable[Topic]) -> None:
    """Ask the log for topics as they were noted once; CorruptionError (code E-TOPIC-REPLACED or
    E-PARTITIONS) for the first one that is another now."""
    for topic in noted:
        check_same(topic, log.topic(topic.name))


def check_seen(log: Log[Any], noted: Mapping[str, Topic]) -> None:
    """The same by what the log knows without asking. That may be older than what was noted, so
    the log is asked before anything is held against a topic."""
    for name, found in log.seen(noted.keys()).items():
        try:
            check_same(noted[name], found)
        except CorruptionError:
            check_topics(log, [noted[name]])


def check_same(noted: Topic, found: Topic | None) -> None:
    """CorruptionError unless the topic is the one that was noted."""
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
            hint="Keys have moved between its partitions. Drop the query and create it again.",
            code="E-PARTITIONS",
        )


def cause(log: Log[Any], noted: Iterable[Topic], error: Exception) -> Exception:
    """What lies behind an error of a query: that a topic is another one, or just the error."""
    if not isinstance(error, MillstreamError):
        return error
    with suppress(MillstreamError):
        try:
            check_topics(log, noted)
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
