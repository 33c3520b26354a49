"""Addresses to listen on, as URLs."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from millstream.model.errors import StatementError

PORT, POSTGRES_PORT = 8088, 5432
EVERYWHERE = ("0.0.0.0", "::", "")
"""Hosts that bind a listener to all addresses of the machine."""


@dataclass(frozen=True, slots=True)
class Address:
    """Host and port, 0 for any that is free; `tls`: of an https URL."""

    host: str
    port: int
    tls: bool

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than localhost counts as public."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def read_postgres_address(text: str, *, tls: bool) -> Address:
    """The address of `host:port`, where `tls` says whether there is a certificate; raises
    StatementError (E-CONFIG) for another form."""
    try:
        parts = urlsplit(f"//{text.strip()}")
        port, host = parts.port, parts.hostname
    except ValueError:
        parts, port, host = urlsplit(""), None, None
    if not host or parts.path or parts.query or parts.fragment or parts.username is not None:
        raise StatementError(
            f"'{text}' is no address to listen on.",
            hint="Write host:port, such as 127.0.0.1:5432.",
            code="E-CONFIG",
        )
    return Address(host, POSTGRES_PORT if port is None else port, tls)


def read_address(url: str) -> Address:
    """The address of `http://host:port` or `https://host:port`; raises StatementError (E-CONFIG)
    for another form."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        parts, port, host = urlsplit(""), None, None
    plain = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)
    if parts.scheme not in ("http", "https") or not host or not plain:
        raise StatementError(
            f"'{url}' is no listener.",
            hint="Write http://host:port or https://host:port.",
            code="E-CONFIG",
        )
    return Address(host, PORT if port is None else port, parts.scheme == "https")
