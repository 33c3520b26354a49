"""Where the instances of a service have the state of tasks, as their heartbeats say, for the
assignment of tasks to members."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from millstream.cluster.metadata import HostedPartitions, InstanceMetadata
from millstream.log.assignment.group_assignment import Copies, Task, process_of

_FAR: Final = 1 << 61
"""Greater than any lag: the lag of a copy of which only the position is known is given as less by
its position, so that the best of several such copies can be found."""


def copies(
    instances: Collection[InstanceMetadata], stateful: Collection[str], members: Iterable[str]
) -> Copies:
    """How far the copies of the members are behind. `instances`: what is known of all instances,
    also of those that are no members any more; what these say counts for the lag of the others.
    `stateful`: the queries with state."""
    by_process: dict[str, list[str]] = {}
    for name in members:
        by_process.setdefault(process_of(name), []).append(name)
    ends = _ends(instances, stateful)
    lags: dict[Task, dict[str, int]] = {}
    for instance in instances:
        names = by_process.get(instance.incarnation, ())
        for query_id in stateful if names else ():
            hosted = instance.hosted(query_id)
            for partition in {*hosted.active, *hosted.standby, *hosted.positions}:
                task = (query_id, partition)
                lag = _lag(hosted, partition, ends.get(task))
                if lag is not None:
                    lags.setdefault(task, {}).update(dict.fromkeys(names, lag))
    empty = frozenset(task for task, end in ends.items() if end == 0)
    return Copies(frozenset(stateful), lags, empty)


def _ends(instances: Collection[InstanceMetadata], stateful: Collection[str]) -> Mapping[Task, int]:
    """Where the changelogs end at least. It is known of tasks that have or had an owner; an owner
    that has died may have been followed by others that have written more."""
    ends: dict[Task, int] = {}
    for query_id in stateful:
        hosted = [instance.hosted(query_id) for instance in instances]
        for partition in {p for each in hosted for p in each.active}:
            ends[query_id, partition] = max(each.positions.get(partition, 0) for each in hosted)
    return ends


def _lag(hosted: HostedPartitions, partition: int, end: int | None) -> int | None:
    """The lag of a copy; None where nothing is there yet. A few records may hold many rows: without
    any of them, it is no copy, however short the changelog is. A standby measures its own lag: what
    it has replayed and what the owner has written are reported at different moments, between which
    a busy task writes a lot."""
    position = hosted.positions.get(partition, 0)
    reported = 0 if partition in hosted.active else hosted.standby.get(partition)
    if reported == 0 or (reported is not None and position > 0):
        return reported
    if position == 0:
        return None
    return _FAR - position if end is None else max(0, end - position)
