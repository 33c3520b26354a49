"""An engine on a log that it shares becomes one of the instances of its service."""

from __future__ import annotations

from millstream.model.settings import InstanceSettings
from millstream.runtime.following import Role
from millstream.runtime.tasks import TaskState
from millstream.service.cluster.metadata import Held, owner, standby_of
from millstream.service.cluster.sharing import Sharing, share
from millstream.service.engine import CLIENT_IDENTITY, Engine


def join_service(engine: Engine, settings: InstanceSettings) -> Sharing:
    """Have the others see this instance, ask it, and settle what it leaves when it dies."""
    name = settings.instance_id or engine.incarnation
    sharing = share(
        engine,
        name,
        settings.door,
        held=lambda query_id: held_here(engine, query_id),
        writers=lambda: writers_of(engine),
        incarnation=engine.incarnation,
        session_ms=settings.session_timeout_ms,
    )
    if settings.standby_replicas:
        sharing.on_beat = lambda: follow_for_others(
            engine, sharing, name, settings.standby_replicas
        )
    engine.on_start.append(sharing.start)
    return sharing


def held_here(engine: Engine, query_id: str) -> Held:
    """What this instance has of a query's state."""
    tasks = engine.runtime.tasks(query_id)
    opening = {task.id.partition: 0 for task in tasks if task.state is TaskState.RESTORING}
    active = frozenset(task.id.partition for task in tasks) - opening.keys()
    standby, starting = _followed(engine, query_id)
    others = {part: lag for part, lag in standby.items() if part not in active}
    return Held(active, others, {**starting, **opening})


def _followed(engine: Engine, query_id: str) -> tuple[dict[int, int], dict[int, int]]:
    """The lag of each copy, and the percentage that is there of each task that is restored."""
    standby: dict[int, int] = {}
    starting: dict[int, int] = {}
    for one in engine.restoring.progress() if engine.restoring else ():
        if one.query_id != query_id:
            continue
        part = one.task.partition
        if one.role is Role.STANDBY:
            standby[part] = max(one.lag, standby.get(part, 0))
        else:
            there = 100 * one.position // max(1, one.target)
            starting[part] = min(there, 99, starting.get(part, 99))
    return standby, starting


def follow_for_others(engine: Engine, sharing: Sharing, name: str, replicas: int) -> None:
    """Keep the copies that are this instance's to keep, by who lives and who owns what."""
    restoring = engine.restoring
    if restoring is None:
        return
    live, presence = sharing.instances(), sharing.presence()
    for query_id, own in presence.queries.items():
        wanted = set()
        for partition in range(restoring.partitions(query_id)):
            owning = owner(sharing.live, query_id, partition)
            mine = partition in own.active or partition in own.restoring
            holder = name if mine else None if owning is None else owning.instance
            if name in standby_of(query_id, partition, replicas, live, holder):
                wanted.add(partition)
        restoring.standby(query_id, frozenset(wanted))


def writers_of(engine: Engine) -> tuple[str, ...]:
    """The identities by which this process writes transactions."""
    return tuple(engine.named(name) for name in (CLIENT_IDENTITY, *engine.runtime.query_ids()))
