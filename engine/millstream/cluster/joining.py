"""Makes this process an instance of its service."""

from __future__ import annotations

from millstream.cluster.cluster import CLIENT_IDENTITY, Cluster
from millstream.cluster.metadata import HostedPartitions, assigned_standbys, owner
from millstream.cluster.sharing import MembershipThread, join_peers
from millstream.model.settings import InstanceSettings
from millstream.runtime.following import Role
from millstream.runtime.tasks import TaskState


def join_service(cluster: Cluster, settings: InstanceSettings) -> MembershipThread:
    """Publish this instance to its peers and accept their reads. If it dies, they abort its open
    transactions."""
    name = settings.instance_id or cluster.incarnation
    membership = join_peers(
        cluster,
        name,
        settings.listener,
        hosted=lambda query_id: hosted_partitions(cluster, query_id),
        writers=lambda: writer_identities(cluster),
        incarnation=cluster.incarnation,
        session_ms=settings.session_timeout_ms,
    )
    if settings.standby_replicas:
        membership.on_heartbeat = lambda: update_standbys(
            cluster, membership, name, settings.standby_replicas
        )
    cluster.on_start.append(membership.start)
    return membership


def hosted_partitions(cluster: Cluster, query_id: str) -> HostedPartitions:
    """The partitions of a query whose state is on this instance."""
    tasks = cluster.registry.runtime.tasks(query_id)
    opening = {task.id.partition: 0 for task in tasks if task.state is TaskState.RESTORING}
    active = frozenset(task.id.partition for task in tasks) - opening.keys()
    standby, restoring_percent = _restore_progress(cluster, query_id)
    inactive = {partition: lag for partition, lag in standby.items() if partition not in active}
    return HostedPartitions(active, inactive, {**restoring_percent, **opening})


def _restore_progress(cluster: Cluster, query_id: str) -> tuple[dict[int, int], dict[int, int]]:
    """The lag of each standby task, and the restored percentage of each task in restoration."""
    standby: dict[int, int] = {}
    restoring_percent: dict[int, int] = {}
    for progress in cluster.registry.restoring.progress() if cluster.registry.restoring else ():
        if progress.query_id != query_id:
            continue
        partition = progress.task.partition
        if progress.role is Role.STANDBY:
            standby[partition] = max(progress.lag, standby.get(partition, 0))
        else:
            percent = 100 * progress.position // max(1, progress.target)
            restoring_percent[partition] = min(percent, 99, restoring_percent.get(partition, 99))
    return standby, restoring_percent


def update_standbys(
    cluster: Cluster, membership: MembershipThread, name: str, replicas: int
) -> None:
    """Maintain the standby tasks that are assigned to this instance, given the live instances and
    the owners of partitions."""
    restoring = cluster.registry.restoring
    if restoring is None:
        return
    live, metadata = membership.instances(), membership.metadata()
    for query_id, own in metadata.queries.items():
        wanted = set()
        for partition in range(restoring.partitions(query_id)):
            peer = owner(membership.live, query_id, partition)
            local = partition in own.active or partition in own.restoring
            owner_name = name if local else None if peer is None else peer.instance
            if name in assigned_standbys(query_id, partition, replicas, live, owner_name):
                wanted.add(partition)
        restoring.standby(query_id, frozenset(wanted))


def writer_identities(cluster: Cluster) -> tuple[str, ...]:
    """The identities (transactional ids) of this process's writers."""
    return tuple(map(cluster.unique_name, (CLIENT_IDENTITY, *cluster.registry.runtime.query_ids())))
