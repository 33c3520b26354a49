"""Checks the host names of the server, and which web pages may call it.

A page can make any name of its own resolve to this server (DNS rebinding), but the browser still
sends that name in `Host`. A browser names the origin of the page with each websocket and with each
request that can change something, and for most others sends their relation in `Sec-Fetch-Site`;
other clients send neither.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from millstream_server.auth.principal import Refusal, forbidden
from millstream_server.failures import MISDIRECTED

ANY = "*"
_LOOKED_AT = frozenset(
    (b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest")
)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s\[\]:/?#@\\]+)(?::(\d{1,5}))?")
_PORTS = {"http": 80, "https": 443}
_FROM_ELSEWHERE = frozenset(("cross-site", "same-site"))


@dataclass(frozen=True, slots=True)
class Origins:
    """`allowed`: origins of other pages, `*` for all; `hosts`: names in Host beside those of
    loopback and the address that the client has connected to, `*` for any."""

    allowed: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    def refusal(
        self, headers: Iterable[tuple[bytes, bytes]], scheme: str = "http", address: str = ""
    ) -> Refusal | None:
        """The reason to refuse a request with these headers, or None. `address`: the local address
        of the connection."""
        found: dict[bytes, str] = {}
        for header, value in headers:
            if header in _LOOKED_AT:
                if header in found:
                    return _misdirected(f"more than one {header.decode()}")
                found[header] = value.decode("latin-1")
        host = found.get(b"host", "")
        name, port = _parts(host)
        if not self._answers_to(name, address):
            return _misdirected(host)
        if len(found) == 1:
            return None
        origin = found.get(b"origin")
        if origin is not None:
            if self.allowed & {origin, ANY} or _same(origin, scheme, name, port):
                return None
            return forbidden("Pages of another origin may not call this server.", reason=origin)
        return self._of_browser(found)

    def _answers_to(self, name: str, address: str) -> bool:
        if ANY in self.hosts or name in self.hosts:
            return True
        return _is_loopback(name) or (bool(name) and name == address)

    def _of_browser(self, found: dict[bytes, str]) -> Refusal | None:
        """For a request without an origin, which a browser sends for requests that change
        nothing."""
        opened = (found.get(b"sec-fetch-mode"), found.get(b"sec-fetch-dest"))
        if found.get(b"sec-fetch-site") not in _FROM_ELSEWHERE or ANY in self.allowed:
            return None
        if opened == ("navigate", "document"):
            return None
        return forbidden("Pages of another origin may not embed this server.", reason=str(opened))


def _misdirected(host: str) -> Refusal:
    return Refusal(
        MISDIRECTED,
        "E-HOST",
        "This server does not answer to the name in the Host header.",
        "Add the name to millstream.hosts, or use a name of loopback.",
        reason=host,
    )


@lru_cache(maxsize=256)
def _parts(host: str) -> tuple[str, int | None]:
    """The name in lower case, without brackets and final dot, and the port; no name for an invalid
    text."""
    match = _HOST.fullmatch(host)
    if match is None:
        return "", None
    name = match[1].strip("[]").lower().removesuffix(".")
    return name, int(match[2]) if match[2] else None


@lru_cache(maxsize=256)
def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _same(origin: str, scheme: str, name: str, port: int | None) -> bool:
    """Whether a page has the same origin as the server."""
    scheme = {"ws": "http", "wss": "https"}.get(scheme, scheme)
    parts = urlsplit(origin)
    if parts.scheme != scheme or f"{parts.scheme}://{parts.netloc}" != origin:
        return False
    theirs, their_port = _parts(parts.netloc)
    default = _PORTS.get(scheme)
    return bool(name) and (theirs, their_port or default) == (name, port or default)
