"""Which pages of browsers may call: those of this server, and the ones that are listed.

A browser tells the origin of the page with every request that could change something, and with
each websocket; other clients tell none. `Host` is looked at where names are listed, so that a
name which someone else points here is none of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from millstream_server.failures import MISDIRECTED
from millstream_server.guarding.principal import Refusal, forbidden

_LOOKED_AT = (b"host", b":authority", b"origin")


@dataclass(frozen=True, slots=True)
class Origins:
    """`allowed`: origins of other pages, `*` for all; `hosts`: names in Host, empty for any."""

    allowed: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> Refusal | None:
        """Why a request with these headers is not answered; None where it is."""
        found = {
            name: value.decode("latin-1")
            for given, value in headers
            if (name := given.lower()) in _LOOKED_AT
        }
        host = found.get(b"host", found.get(b":authority", ""))
        if self.hosts and (urlsplit(f"//{host}").hostname or "") not in self.hosts:
            return Refusal(
                MISDIRECTED, "E-HOST", "This server does not go by that name.", reason=host
            )
        origin = found.get(b"origin")
        if origin is None or self.allowed & {origin, "*"}:
            return None
        if host and urlsplit(origin).netloc == host:
            return None
        return forbidden("Pages of another origin may not call this server.", reason=origin)
