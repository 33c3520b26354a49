"""The push queries of this instance."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.cluster.cluster import Cluster
from millstream.model.errors import MillstreamError
from millstream.push.shared_push import SharedPushQuery
from millstream.queries.registry import QueryRegistry
from millstream.query.results import Stream


@dataclass(slots=True)
class PushQueries:
    """The running push queries, and the streams of their clients and of PRINT. They change under
    the driver's lock."""

    cluster: Cluster
    streams: dict[str, Stream] = field(default_factory=dict)
    """The streams of push queries and of PRINT, by id."""
    running: dict[str, SharedPushQuery] = field(default_factory=dict)
    """The running push queries, by id. Several streams may share one."""
    count: int = 0
    """How many streams were opened."""
    closed: bool = False

    @property
    def registry(self) -> QueryRegistry:
        """The catalog, the log and the runtime of this instance."""
        return self.cluster.registry

    def fail(self, error: MillstreamError) -> None:
        """End all streams with an error, as they get no more rows."""
        for stream in list(self.streams.values()):
            stream.fail(error)

    def close(self) -> None:
        """End all streams; idempotent."""
        for stream in list(self.streams.values()):
            stream.close()
        self.closed = True
