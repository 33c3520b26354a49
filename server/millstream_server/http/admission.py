"""Limits on open connections: in total, from one address, and of unauthenticated clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from millstream_server.http.addresses import Addresses, AddressLimits
from millstream_server.http.frames import Shared


class Admitted(Protocol):
    """A connection's interface for admission."""

    authenticated: bool
    """Whether a request on it was authenticated."""

    @property
    def idle(self) -> bool:
        """Whether it has no complete request in progress."""

    def close(self) -> None:
        """Close it."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """`reserved` of the `total` are for authenticated connections."""

    total: int = 1_000
    per_address: int = 500
    reserved: int = 0
    of_address: AddressLimits = field(default_factory=AddressLimits)


class Admission:
    """The open connections, oldest first. At a limit, a new connection replaces the oldest idle
    one: silent sockets cannot block others, and HTTP clients reopen a closed idle connection."""

    def __init__(
        self, limits: ConnectionLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock`: monotonic seconds."""
        self._limits = limits
        self._addresses = Addresses(limits.of_address, clock)
        self._open: dict[Admitted, str] = {}
        self._by_address: dict[str, dict[Admitted, None]] = {}
        self._authenticated = 0

    def connections(self) -> tuple[Admitted, ...]:
        """The open connections, oldest first."""
        return tuple(self._open)

    def admit(self, new: Admitted, address: str) -> bool:
        """Whether there is room for a new connection, which is counted from now on."""
        if not self._addresses.may_connect(address):
            return False
        limits, here = self._limits, self._by_address.get(address, {})
        if len(here) >= limits.per_address and not self._close_one(here, known_too=True):
            return False
        unknown = len(self._open) - self._authenticated
        if unknown >= limits.total - limits.reserved and not self._close_one(self._open):
            return False
        if len(self._open) >= limits.total and not self._close_one(self._open, known_too=True):
            return False
        self._open[new] = address
        self._by_address.setdefault(address, {})[new] = None
        return True

    def authenticate(self, connection: Admitted) -> None:
        """Note that a request on the connection was authenticated: it may use a reserved slot."""
        address = self._open.get(connection)
        if not connection.authenticated:
            connection.authenticated = True
            self._authenticated += address is not None
        if address is not None:
            self._addresses.authenticated(address)

    def flooded(self, connection: Admitted) -> None:
        """Note that the connection was closed for flooding."""
        address = self._open.get(connection)
        if address is not None:
            self._addresses.flooded(address)

    def frames(self, address: str) -> Shared:
        """Counts the frames of all connections of an address."""
        return self._addresses.frames(address)

    def remove(self, connection: Admitted) -> None:
        """Note that the connection is closed."""
        address = self._open.pop(connection, None)
        if address is None:
            return
        self._authenticated -= connection.authenticated
        here = self._by_address[address]
        del here[connection]
        if not here:
            del self._by_address[address]

    def _close_one(self, among: Iterable[Admitted], *, known_too: bool = False) -> bool:
        chosen = None
        for connection in among:
            if connection.idle:
                if not connection.authenticated:
                    chosen = connection
                    break
                chosen = chosen or (connection if known_too else None)
        if chosen is None:
            return False
        self.remove(chosen)
        chosen.close()
        return True
