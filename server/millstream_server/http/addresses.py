"""Joint limits on the connections of one address."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from millstream_server.http.frames import Bucket, Kind, Shared

ADDRESSES_MAX = 10_000
KNOWN_SECONDS = 300.0
"""How long an address is trusted after a request from it was authenticated."""
FLOOD_SECONDS = 1.0
"""For each connection that is closed for flooding, its address may open no new ones for this
long."""
FLOODS_REMEMBERED = 10
"""The longest time without new connections, in units of FLOOD_SECONDS."""
_IPV6_PREFIX = 64


@lru_cache(maxsize=1_024)
def network_of(host: str) -> str:
    """The key of an address. With IPv6, one client has all addresses of a /64 prefix."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.is_loopback:
        return "::1"
    return str(ipaddress.ip_network((int(address), _IPV6_PREFIX), strict=False))


@lru_cache(maxsize=1_024)
def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class AddressLimits:
    """`connections_per_second` may be opened, with bursts of up to `connections_burst`.
    `frames_factor`: how many times the frames of one connection all of them may send."""

    connections_per_second: float = 200.0
    connections_burst: float = 500.0
    frames_factor: float = 6.0


@dataclass(slots=True)
class _Usage:
    opened: Bucket
    frames: dict[Kind, Bucket] = field(default_factory=dict)
    known_until: float = 0.0


class Addresses:
    """The recent activity of each address. Loopback, where proxies and tools of this machine are,
    and addresses of authenticated clients may open connections at any rate."""

    def __init__(self, limits: AddressLimits, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._limits, self._clock = limits, clock
        self._usages: OrderedDict[str, _Usage] = OrderedDict()

    def may_connect(self, address: str) -> bool:
        """Count a new connection; returns False if there are too many per second."""
        if _is_loopback(address):
            return True
        usage, now = self._usage(address), self._clock()
        if now < usage.known_until:
            return True
        return usage.opened.take(1.0, now)

    def authenticated(self, address: str) -> None:
        """Note that a request from the address was authenticated."""
        self._usage(address).known_until = self._clock() + KNOWN_SECONDS

    def flooded(self, address: str) -> None:
        """Note that a connection was closed for flooding."""
        cost = self._limits.connections_per_second * FLOOD_SECONDS
        opened = self._usage(address).opened
        opened.spend(cost, self._clock(), least=-FLOODS_REMEMBERED * cost)

    def frames(self, address: str) -> Shared:
        """Counts frames of a connection together with all others of its address; returns False if
        there are too many. A negative count returns frames."""

        def count(kind: Kind, times: float) -> bool:
            factor = self._limits.frames_factor
            buckets = self._usage(address).frames
            if kind not in buckets:
                burst = kind.burst * factor
                buckets[kind] = Bucket(burst, kind.per_second * factor, burst, self._clock())
            return buckets[kind].take(times, self._clock())

        return count

    def _usage(self, address: str) -> _Usage:
        usage = self._usages.get(address)
        if usage is None:
            if len(self._usages) >= ADDRESSES_MAX:
                self._usages.popitem(last=False)
            burst = self._limits.connections_burst
            opened = Bucket(burst, self._limits.connections_per_second, burst, self._clock())
            usage = self._usages[address] = _Usage(opened)
        self._usages.move_to_end(address)
        return usage
