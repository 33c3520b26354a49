"""The limits on connections."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream_server.http.admission import ConnectionLimits

CHECKS_PER_DEADLINE = 8


@dataclass(frozen=True, slots=True)
class Transport:
    """Limits on connections."""

    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    headers_bytes_max: int = 16 << 10
    headers_seconds: float = 10.0
    """Until the head of a request, or the rest of an unread body, is complete."""
    idle_seconds: float = 86_400
    stall_seconds: float = 60.0
    """Until a client that does not read its response is disconnected."""
    streams_max: int = 100
    """Requests at a time on one connection."""

    @property
    def check_seconds(self) -> float:
        """How often deadlines are checked."""
        return min(self.headers_seconds, self.stall_seconds, CHECKS_PER_DEADLINE) / (
            CHECKS_PER_DEADLINE
        )
