"""The constructor arguments of Hypercorn's protocols."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.config import Config
from hypercorn.events import Event
from hypercorn.typing import AppWrapper, ConnectionState, WorkerContext

Endpoint = tuple[str, int] | None
Given = tuple[
    AppWrapper,
    Config,
    WorkerContext,
    TaskGroup,
    ConnectionState,
    bool,
    Endpoint,
    Endpoint,
    Callable[[Event], Awaitable[None]],
]
"""Among others: TLS or not, the client, the server."""
