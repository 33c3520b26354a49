"""The names of a service's objects in a cluster."""

from __future__ import annotations

import re

from millstream.model.errors import StatementError


def namespace_of(service_id: str) -> str:
    """The prefix of all names that belong to a service; raises StatementError for an invalid
    service id. It ends with a dot, which ids cannot contain, so no service's prefix is the
    beginning of another's."""
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", service_id):
        raise StatementError(
            f"'{service_id}' cannot be a service id",
            hint="A service id has 1 to 64 letters, digits and hyphens.",
        )
    return f"_millstream.{service_id}."
