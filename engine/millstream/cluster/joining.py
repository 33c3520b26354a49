"""Makes this process an instance of its service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from millstream.cluster.cluster import CLIENT_IDENTITY, Cluster
from millstream.cluster.copies import copies
from millstream.cluster.metadata import HostedPartitions, InstanceMetadata
from millstream.cluster.sharing import MembershipThread, join_peers
from millstream.cluster.standby_tasks import Partitions, StandbyTasks
from millstream.log.assignment.group_assignment import Copies
from millstream.model.settings import InstanceSettings
from millstream.runtime.following import Progress, Role
from millstream.runtime.tasks import TaskState


def join_service(
    cluster: Cluster,
    settings: InstanceSettings,
    warmups: Callable[[], Partitions],
    rack: str = "",
) -> MembershipThread:
    """Publish this instance to its peers and accept their reads. If it dies, they abort its open
    transactions. `warmups`: returns the tasks, by query, whose state is to be brought up to date
    here. `rack`: where it runs; standby tasks are in other racks than their task, if possible."""
    name = settings.instance_id or cluster.incarnation
    membership = join_peers(
        cluster,
        name,
        settings.listener,
        hosted=lambda query_id: hosted_partitions(cluster, query_id),
        writers=lambda: writer_identities(cluster),
        incarnation=cluster.incarnation,
        session_ms=settings.session_timeout_ms,
        rack=rack,
    )
    restoring = cluster.registry.restoring
    if restoring is not None:
        membership.on_heartbeat = StandbyTasks(
            restoring, membership, name, settings.standby_replicas, warmups
        ).update
    cluster.on_start.append(membership.start)
    return membership


def hosted_partitions(cluster: Cluster, query_id: str) -> HostedPartitions:
    """The partitions of a query whose state is on this instance."""
    tasks = cluster.registry.runtime.tasks(query_id)
    positions = Counter[int]()
    for task in tasks:
        positions[task.id.partition] += task.position
    opening = {task.id.partition: 0 for task in tasks if task.state is TaskState.RESTORING}
    active = frozenset(task.id.partition for task in tasks) - opening.keys()
    restoring = cluster.registry.restoring
    following = () if restoring is None else restoring.progress(query_id)
    for progress in following:
        positions[progress.task.partition] += progress.position
    for partition, position in _left(cluster, query_id).items():
        positions.setdefault(partition, position)
    standby, restoring_percent = _restore_progress(following)
    inactive = {partition: lag for partition, lag in standby.items() if partition not in active}
    return HostedPartitions(active, inactive, {**restoring_percent, **opening}, positions)


def copies_of(cluster: Cluster, membership: MembershipThread, members: Collection[str]) -> Copies:
    """Where the members have the state of tasks, as this instance has read it last. Makes no
    request."""
    restoring = cluster.registry.restoring
    hosted = {
        name: hosted_partitions(cluster, name) for name in list(cluster.registry.catalog.queries)
    }
    own = InstanceMetadata("", cluster.incarnation, queries=hosted)
    peers = [view.metadata for view in (*membership.live, *membership.expired)]
    stateful = [name for name in hosted if restoring is not None and restoring.partitions(name)]
    return copies([own, *peers], stateful, members)


def _left(cluster: Cluster, query_id: str) -> Mapping[int, int]:
    restoring = cluster.registry.restoring
    return {} if restoring is None else restoring.left(query_id)


def _restore_progress(following: Collection[Progress]) -> tuple[dict[int, int], dict[int, int]]:
    """The lag of each standby task, and the restored percentage of each task in restoration."""
    standby: dict[int, int] = {}
    restoring_percent: dict[int, int] = {}
    for progress in following:
        partition = progress.task.partition
        if progress.role is Role.STANDBY:
            standby[partition] = max(progress.lag, standby.get(partition, 0))
        else:
            percent = 100 * progress.position // max(1, progress.target)
            restoring_percent[partition] = min(percent, 99, restoring_percent.get(partition, 99))
    return standby, restoring_percent


def writer_identities(cluster: Cluster) -> tuple[str, ...]:
    """The identities (transactional ids) of this process's writers."""
    return tuple(map(cluster.unique_name, (CLIENT_IDENTITY, *cluster.registry.runtime.query_ids())))
