"""This instance among the instances of its service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from millstream.cluster.host_info import HostInfo
from millstream.cluster.routing import Routing
from millstream.queries.registry import QueryRegistry

CLIENT_IDENTITY = "_millstream_client"
"""The writer of this process's inserts."""


@dataclass(slots=True)
class Cluster:
    """The queries of this instance, and how the state of other instances is found and read.

    `incarnation`: identifies this process; empty if the log is not shared. `clock`: the time of day
    in ms. `routing`: finds the state that other instances hold; None if all state is here.
    """

    registry: QueryRegistry
    incarnation: str
    clock: Callable[[], int]
    routing: Routing | None = None
    host_info: HostInfo = field(default_factory=HostInfo)
    on_start: list[Callable[[], None]] = field(default_factory=list)
    """Called when the queries start to run."""
    on_close: list[Callable[[], None]] = field(default_factory=list)
    """Called after the queries have ended, before the log and the state are closed."""

    def unique_name(self, identity: str) -> str:
        """The name of a writer or a query, made unique among the instances of the service."""
        return f"{identity}.{self.incarnation}" if self.incarnation else identity
