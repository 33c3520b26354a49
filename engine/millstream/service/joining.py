"""An engine on a log that it shares becomes one of the instances of its service."""

from __future__ import annotations

from millstream.model.settings import InstanceSettings
from millstream.runtime.tasks import TaskState
from millstream.service.engine import CLIENT_IDENTITY, Engine
from millstream.service.exchange import Door
from millstream.service.presence import Held
from millstream.service.sharing import share


def join_service(engine: Engine, settings: InstanceSettings) -> None:
    """Have the others see this instance, ask it, and settle what it leaves when it dies."""
    door = Door(
        settings.listen,
        settings.advertised,
        settings.token,
        settings.certificate,
        settings.key,
        settings.authorities,
    )
    sharing = share(
        engine,
        settings.instance_id or engine.incarnation,
        door,
        held=lambda query_id: held_here(engine, query_id),
        writers=lambda: writers_of(engine),
        incarnation=engine.incarnation,
        session_ms=settings.session_timeout_ms,
    )
    engine.on_start.append(sharing.start)


def held_here(engine: Engine, query_id: str) -> Held:
    """What this instance has of a query's state."""
    status = next((s for s in engine.instance.status({}) if s.query_id == query_id), None)
    if status is None:
        return Held()
    restoring = {task.id.partition: 0 for task in status.tasks if task.state is TaskState.RESTORING}
    here = frozenset(task.id.partition for task in status.tasks)
    return Held(active=here - restoring.keys(), restoring=restoring)


def writers_of(engine: Engine) -> tuple[str, ...]:
    """The identities by which this process writes transactions."""
    return tuple(engine.named(name) for name in (CLIENT_IDENTITY, *engine.instance.query_ids()))
