"""Whether local state holds all that its changelog does. It holds less right after it was opened:
its file was lost, or the process ended between a commit on the log and one in the state."""

from __future__ import annotations

from millstream.cluster.partition_read import not_ready
from millstream.queries.registry import QueryRegistry
from millstream.runtime.query_runner import STOPPED
from millstream.runtime.spec import QueryState
from millstream.topology.topology import SubTopology


def check_restored(registry: QueryRegistry, query_id: str, sub: SubTopology) -> None:
    """Raise UnavailableError (E-NOT-READY) while the state of a sub-topology is behind its
    changelog. Costs nothing once the query is running."""
    state = registry.runtime.state(query_id)
    if state is QueryState.RUNNING or sub.changelog is None:
        return
    ends = registry.log.end_offsets([(sub.changelog, part) for part in range(sub.partitions)])
    positions = registry.store.positions(query_id, sub.index)
    for (_, part), end in sorted(ends.items()):
        at = positions.get(part, 0)
        if at < end:
            if state in STOPPED:
                raise not_ready(
                    query_id,
                    part,
                    f"is not restored, and its query is stopped ({state.value})",
                    f"RESUME {query_id}; restores it. SHOW QUERIES EXTENDED; tells its error.",
                )
            raise not_ready(query_id, part, f"restoring {min(100 * at // end, 99)} %")
