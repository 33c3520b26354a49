"""Levels of compatibility, for all subjects and for one."""

from __future__ import annotations

from typing import Any

from millstream.schemas.compatibility import DEFAULT, Level
from millstream.schemas.known import EVERY
from millstream_server.auth.needs import Operation
from millstream_server.failures import RefusedError
from millstream_server.registry.failures import INVALID_LEVEL, NO_LEVEL
from millstream_server.registry.serving import Asked


def level(asked: Asked) -> dict[str, Any]:
    """GET /config."""
    return {"compatibilityLevel": asked.registry.level().value}


def set_level(asked: Asked) -> dict[str, Any]:
    """PUT /config."""
    asked.demand_service(Operation.OPERATE)
    return _set(asked, EVERY)


def reset_level(asked: Asked) -> dict[str, Any]:
    """DELETE /config."""
    asked.demand_service(Operation.OPERATE)
    asked.registry.set_level(None)
    return {"compatibilityLevel": DEFAULT.value}


def subject_level(asked: Asked) -> dict[str, Any]:
    """GET /config/{subject}."""
    asked.demand(Operation.DESCRIBE)
    own = asked.registry.own_level(asked.subject)
    if own is None and not asked.flag("defaultToGlobal"):
        raise _none(asked.subject)
    return {"compatibilityLevel": (own or asked.registry.level()).value}


def set_subject_level(asked: Asked) -> dict[str, Any]:
    """PUT /config/{subject}."""
    asked.demand(Operation.ALTER)
    return _set(asked, asked.subject)


def reset_subject_level(asked: Asked) -> dict[str, Any]:
    """DELETE /config/{subject}."""
    asked.demand(Operation.ALTER)
    own = asked.registry.own_level(asked.subject)
    if own is None:
        raise _none(asked.subject)
    asked.registry.set_level(None, asked.subject)
    return {"compatibilityLevel": own.value}


def mode(asked: Asked) -> dict[str, Any]:
    """GET /mode, and /mode/{subject}: there is only one."""
    return {"mode": "READWRITE"}


def _set(asked: Asked, subject: str) -> dict[str, Any]:
    given = asked.body.get("compatibility")
    try:
        found = Level(str(given).upper())
    except ValueError:
        levels = ", ".join(each.value for each in Level)
        raise RefusedError(
            INVALID_LEVEL, f"Invalid compatibility level. Valid values are {levels}"
        ) from None
    asked.registry.set_level(found, subject)
    return {"compatibility": found.value}


def _none(subject: str) -> RefusedError:
    return RefusedError(
        NO_LEVEL, f"Subject '{subject}' does not have subject-level compatibility configured"
    )
