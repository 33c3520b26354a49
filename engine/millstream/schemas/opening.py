"""Which registry a database has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from millstream.log.log import Log
from millstream.model.errors import StatementError
from millstream.model.extras import install
from millstream.model.settings import EngineSettings
from millstream.schemas.embedded import EmbeddedRegistry

if TYPE_CHECKING:
    from millstream.schemas.remote import RemoteRegistry


def open_registry(
    settings: EngineSettings, log: Log[pa.Table], clock: Callable[[], int], *, shared: bool
) -> EmbeddedRegistry | RemoteRegistry | None:
    """The registry elsewhere that the settings name, or else the one within the database; None for
    a log that is `shared` with other instances, which has none within. Raises StatementError for
    settings that the client does not have."""
    if not settings.schema_registry:
        topic = f"{settings.internal_prefix}schemas"
        return None if shared else EmbeddedRegistry(log, topic, clock)
    try:
        # Most databases need no client, and it takes long to import.
        from millstream.schemas.remote import RemoteRegistry
    except ModuleNotFoundError as error:
        raise StatementError(
            "The client of the schema registry is not installed",
            hint=install("registry"),
        ) from error
    return RemoteRegistry.open(settings.schema_registry)
