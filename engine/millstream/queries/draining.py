"""Waiting until the queries have processed what there is, while more may arrive."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from millstream.log.log import TopicPartition
from millstream.model.errors import UnavailableError
from millstream.queries.registry import QueryRegistry
from millstream.runtime.alignment import Lineage, moved_up_to
from millstream.runtime.query_runner import STOPPED

DRAIN_SECONDS = 60
"""The time that `drain` waits for queries that retry."""
POLL_SECONDS = 0.2
"""How often it looks at these, and whether what has arrived since the call is all that is left."""


def drain(registry: QueryRegistry) -> None:
    """Return when all queries have processed and committed all records that were there at the call;
    if no more arrive, when there is nothing left to do at all.

    If instances share the log, it also waits for queries that retry because brokers are not
    available. Raises UnavailableError if that takes longer than a minute.
    """
    began = time.monotonic()
    target: _CatchUpTarget | None = None
    while True:
        while registry.driver.run_until_idle(time.monotonic() + POLL_SECONDS):
            if time.monotonic() > began + POLL_SECONDS:
                target = target or _CatchUpTarget.now(registry)
                if target.reached(registry):
                    return
        waiting = registry.runtime.retrying() if registry.shared else {}
        if not waiting:
            return
        if time.monotonic() > began + DRAIN_SECONDS:
            query_id, reason = next(iter(waiting.items()))
            raise UnavailableError(f"Query {query_id} cannot continue: {reason}")
        time.sleep(POLL_SECONDS)


@dataclass(slots=True)
class _CatchUpTarget:
    """The ends of the sources at one moment, and how far the queries have come, in the order of the
    data. `bounds`: what each partition has to be read up to, as far as that is known: the bound of
    a topic that queries write is its end after these have reached theirs."""

    lineage: Lineage
    bounds: dict[TopicPartition, int]
    ends: dict[TopicPartition, int] = field(init=False)
    done: int = 0

    def __post_init__(self) -> None:
        self.ends = dict(self.bounds)

    @staticmethod
    def now(registry: QueryRegistry) -> _CatchUpTarget:
        """The target for the records that are there now."""
        lineage = registry.runtime.lineage(tuple(registry.catalog.queries))
        read = {p for query in lineage.queries for p in query.partitions if p[0] in lineage.sources}
        return _CatchUpTarget(lineage, registry.log.end_offsets(read))

    def reached(self, registry: QueryRegistry) -> bool:
        """Whether all running queries have committed what belongs to it, and more has arrived
        since: where nothing arrives, the queries become idle."""
        if registry.log.end_offsets(tuple(self.ends)) == self.ends:
            return False
        while self.done < len(self.lineage.queries):
            if not self._next_reached(registry):
                return False
            self.done += 1
        return True

    def _next_reached(self, registry: QueryRegistry) -> bool:
        query = self.lineage.queries[self.done]
        found = registry.runtime.reached(query.query_id)
        if found is None or found.state in STOPPED:
            return True
        inner = [p for p in query.partitions if p[0] in query.inputs and p not in self.bounds]
        self.bounds |= registry.log.written_ends(inner)
        while True:
            own = {p: end for p, end in self.bounds.items() if p in query.partitions}
            positions = registry.log.positions(query.query_id)
            if any(positions.get(p, 0) < end for p, end in own.items()):
                return False
            moved = moved_up_to(query, own, positions)
            if not moved:
                return _is_settled(registry, query.query_id)
            self.bounds |= registry.log.written_ends(moved)


def _is_settled(registry: QueryRegistry, query_id: str) -> bool:
    """Whether its state is committed, too, which follows the positions: its thread has left it."""
    try:
        with registry.driver.holding((query_id,), time.monotonic() + POLL_SECONDS):
            return True
    except UnavailableError:
        return False
