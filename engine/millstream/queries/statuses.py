"""The progress of the running queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from millstream.log.log import TopicPartition
from millstream.queries.registry import QueryRegistry
from millstream.runtime.spec import QueryStatus

LOCK_SECONDS = 0.2
"""The wait for the driver's lock in `statuses`."""


def statuses(registry: QueryRegistry) -> tuple[QueryStatus, ...]:
    """The status of every running query, within a second. If the log does not answer, the lag
    is unknown. If another thread holds the driver's lock for long, the status is read without
    it."""
    with registry.driver.lock.tried(LOCK_SECONDS):
        inputs = registry.runtime.inputs()
    ends = registry.log.end_offsets(inputs)
    with registry.driver.lock.tried(LOCK_SECONDS):
        return statuses_at(registry, ends)


def statuses_at(
    registry: QueryRegistry,
    ends: Mapping[TopicPartition, int],
    query_ids: Collection[str] | None = None,
) -> tuple[QueryStatus, ...]:
    """The same without waiting, perhaps of these queries alone. `ends`: the end offsets of the
    inputs, where they are known."""
    found = registry.runtime.status(ends, query_ids)
    return found if registry.restoring is None else registry.restoring.completed(found)


def activity(registry: QueryRegistry) -> dict[str, tuple[int, ...]]:
    """Numbers for each query of which one changes with its counters. Much cheaper than statuses."""
    found: dict[str, tuple[int, ...]] = {
        query_id: (at,) for query_id, at in registry.runtime.activity().items()
    }
    for progress in registry.restoring.progress() if registry.restoring else ():
        if progress.query_id in found:
            found[progress.query_id] += (progress.position, progress.target)
    return found
