"""Which standby tasks an instance keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from millstream.cluster.metadata import HostedPartitions, assigned_standbys, owner
from millstream.cluster.sharing import MembershipThread
from millstream.scheduler.restoring import Restoring

Partitions = Mapping[str, frozenset[int]]
"""Partitions by query."""


@dataclass(slots=True)
class StandbyTasks:
    """Maintains them: the ones that are placed on this instance because each task is to have
    `replicas` of them, and those that are warmed up before they are processed here."""

    restoring: Restoring
    membership: MembershipThread
    name: str
    replicas: int
    warmups: Callable[[], Partitions]
    _followed: frozenset[str] = field(default_factory=frozenset)
    """The queries with standby tasks here."""

    def update(self) -> None:
        """Follow what the live instances and the owners of tasks require now. An instance without
        standby tasks does nothing."""
        wanted = dict(self.warmups())
        if self.replicas:
            racks = {view.metadata.instance: view.metadata.rack for view in self.membership.live}
            racks[self.name] = self.membership.rack
            for query_id, own in self.membership.metadata().queries.items():
                placed = self._placed(query_id, own, racks)
                wanted[query_id] = wanted.get(query_id, frozenset()) | placed
        for query_id in sorted(self._followed | wanted.keys()):
            self.restoring.standby(query_id, wanted.get(query_id, frozenset()))
        self._followed = frozenset(query_id for query_id, found in wanted.items() if found)

    def _placed(
        self, query_id: str, own: HostedPartitions, racks: Mapping[str, str]
    ) -> frozenset[int]:
        names = self.membership.instances()
        return frozenset(
            partition
            for partition in range(self.restoring.partitions(query_id))
            if self.name
            in assigned_standbys(
                query_id,
                partition,
                self.replicas,
                names,
                self._owner(query_id, partition, own),
                racks,
            )
        )

    def _owner(self, query_id: str, partition: int, own: HostedPartitions) -> str | None:
        if partition in own.active or partition in own.restoring:
            return self.name
        peer = owner(self.membership.live, query_id, partition)
        return None if peer is None else peer.instance
