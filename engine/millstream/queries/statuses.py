"""The progress of the running queries: their statuses, and waiting until they have caught up."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from millstream.log.log import TopicPartition
from millstream.model.errors import UnavailableError
from millstream.queries.registry import QueryRegistry
from millstream.runtime.spec import QueryStatus

POLL_SECONDS = 0.2
"""The wait for the driver's lock in `statuses`, and the interval at which `drain` checks
queries."""
DRAIN_SECONDS = 60
"""The time that `drain` waits for queries that retry."""


def statuses(registry: QueryRegistry) -> tuple[QueryStatus, ...]:
    """The status of every running query, within a second. If the log does not answer, the lag
    is unknown. If another thread holds the driver's lock for long, the status is read without
    it."""
    with registry.driver.lock.tried(POLL_SECONDS):
        inputs = registry.runtime.inputs()
    ends = registry.log.end_offsets(inputs)
    with registry.driver.lock.tried(POLL_SECONDS):
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


def drain(registry: QueryRegistry) -> None:
    """Return when all queries have processed and committed all available records.

    If instances share the log, it also waits for queries that retry because brokers are not
    available. Raises UnavailableError if that takes longer than a minute.
    """
    until = time.monotonic() + DRAIN_SECONDS
    while True:
        while registry.driver.run_until_idle():
            pass
        waiting = registry.runtime.retrying() if registry.shared else {}
        if not waiting:
            return
        if time.monotonic() > until:
            query_id, reason = next(iter(waiting.items()))
            raise UnavailableError(f"Query {query_id} cannot continue: {reason}")
        time.sleep(POLL_SECONDS)
