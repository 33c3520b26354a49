"""The internal listener, where an instance of a service serves the other instances."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address

from millstream.model.errors import StatementError


@dataclass(frozen=True, slots=True)
class InternalListener:
    """The address of an instance's internal listener, and its mutual authentication.

    `address` is where it listens, `advertised` the address for other instances, if different.
    `token`: a secret that all instances of a service share. `certificate`, `key`: PEM files of this
    instance; `authorities`: the CAs of the other instances' certificates, which are required. With
    `plain`, anyone who can read the network can read the rows and the token.
    """

    address: str = "127.0.0.1:0"
    advertised: str = ""
    token: str = field(default="", repr=False)
    certificate: str = ""
    key: str = ""
    authorities: str = ""
    plain: bool = False

    @property
    def encrypted(self) -> bool:
        """Whether connections are encrypted, and both sides authenticated by their certificates."""
        return bool(self.certificate and self.key and self.authorities)

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        return _loopback(self.address.rpartition(":")[0])

    def location(self, address: str) -> str:
        """The Flight location of an address of this service."""
        return f"grpc{'+tls' if self.encrypted else ''}://{address}"

    def check(self) -> None:
        """Raise StatementError for a listener without authentication."""
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdigit():
            raise StatementError(f"'{self.address}' is no address of the form host:port")
        if not self.token:
            raise StatementError("The instances of a service need a token that they share")
        if bool(self.certificate or self.key or self.authorities) != self.encrypted:
            raise StatementError("Encryption takes a certificate, its key and the authorities")
        if not (self.loopback or self.encrypted or self.plain):
            raise StatementError(
                f"Rows would leave this machine by '{self.address}' without encryption",
                hint="Give certificate, key and authorities, or say that all may read (plain).",
            )


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
