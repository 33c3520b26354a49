"""How what belongs to a service is called in a cluster."""

from __future__ import annotations

import re

from millstream.model.errors import StatementError


def namespace_of(service_id: str) -> str:
    """How the names of all that is a service's own begin; StatementError for what cannot be a
    service id. Dots end it, and ids have none: no service's names begin like those of another."""
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", service_id):
        raise StatementError(
            f"'{service_id}' cannot be a service id",
            hint="A service id has 1 to 64 letters, digits and hyphens.",
        )
    return f"_millstream.{service_id}."
