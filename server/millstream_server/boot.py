"""What a server refuses to start with: a door that is open to the world by oversight."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from millstream.model.errors import StatementError
from millstream_server.config import ServerConfig

METHODS = frozenset({"BASIC", "BEARER", "MTLS"})
CLIENT_CERTIFICATES = ("NONE", "REQUESTED", "REQUIRED")


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to listen on; `internal` for other instances alone."""

    host: str
    port: int
    tls: bool
    internal: bool = False

    @property
    def loopback(self) -> bool:
        """Whether this machine alone can reach it. A name other than localhost is taken for one
        that the world can reach."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def check_boot(config: ServerConfig) -> tuple[Listener, ...]:
    """The listeners of the configuration; StatementError (E-INSECURE, E-CONFIG) where it is
    refused."""
    _check_methods(config)
    listeners = [_listener(url) for url in config.texts("listeners")]
    if not listeners:
        raise _refusal("There is no listener.", "Set listeners.")
    for listener in listeners:
        _check_listener(listener, config)
    internal = config.text("ksql.internal.listener")
    if internal and internal not in config.texts("listeners"):
        listeners.append(_internal(internal, config))
    return tuple(listeners)


def methods(config: ServerConfig) -> frozenset[str]:
    """The ways to authenticate that are on; empty for none."""
    named = frozenset(name.upper() for name in config.texts("authentication.method"))
    return named - {"NONE"}


def _listener(url: str, internal: bool = False) -> Listener:
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        port, host, parts = None, None, urlsplit("")
    plain = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)
    if parts.scheme not in ("http", "https") or not host or not plain:
        raise _refusal(f"'{url}' is no listener.", "Write http://host:port or https://host:port.")
    return Listener(host, 8088 if port is None else port, parts.scheme == "https", internal)


def _check_methods(config: ServerConfig) -> None:
    chosen = methods(config)
    if unknown := chosen - METHODS:
        raise _refusal(
            f"authentication.method {', '.join(sorted(unknown))} is unknown.",
            "NONE, or any of BASIC, BEARER, MTLS.",
        )
    if config.text("ssl.client.authentication").upper() not in CLIENT_CERTIFICATES:
        raise _refusal("ssl.client.authentication is NONE, REQUESTED or REQUIRED.")
    if config.text("ssl.keystore.type").upper() != "PEM":
        raise _refusal(
            "ssl.keystore.type can be PEM only.",
            "openssl pkcs12 -in store.p12 -out store.pem makes one; chmod 600 it.",
        )
    needed = {
        "BASIC": ("authentication.users.file",),
        "BEARER": (
            "authentication.jwt.keys",
            "authentication.jwt.issuer",
            "authentication.jwt.audience",
        ),
        "MTLS": ("authentication.subjects.file", "ssl.truststore.location"),
    }
    for method in sorted(chosen):
        for name in needed[method]:
            if not config.text(name):
                raise _refusal(f"authentication.method {method} needs {name}.")
    if "MTLS" in chosen and config.text("ssl.client.authentication").upper() == "NONE":
        raise _refusal("authentication.method MTLS needs ssl.client.authentication.")


def _check_listener(listener: Listener, config: ServerConfig) -> None:
    _check_certificate(listener, config)
    if listener.loopback or config.insecure:
        return
    missing = []
    if not listener.tls:
        missing.append("TLS (an https listener, ssl.keystore.location)")
    if not methods(config):
        missing.append("authentication (authentication.method)")
    if missing:
        raise StatementError(
            f"Refusing to listen on {listener.host}:{listener.port}, which others can reach, "
            f"without {' and '.join(missing)}.",
            hint="Set these, listen on 127.0.0.1, or start with --insecure-i-know.",
            code="E-INSECURE",
        )


def _check_certificate(listener: Listener, config: ServerConfig) -> None:
    if listener.tls and not config.text("ssl.keystore.location"):
        raise _refusal(
            f"https://{listener.host}:{listener.port} needs a certificate.",
            "Set ssl.keystore.location to a PEM file with key and certificates.",
        )


def _internal(url: str, config: ServerConfig) -> Listener:
    listener = _listener(url, internal=True)
    required = config.text("ssl.client.authentication").upper() == "REQUIRED"
    if not listener.loopback and not config.insecure and not (listener.tls and required):
        raise StatementError(
            f"Refusing {url} for other instances without their certificates.",
            hint="Use https and ssl.client.authentication=REQUIRED.",
            code="E-INSECURE",
        )
    _check_certificate(listener, config)
    return listener


def _refusal(message: str, hint: str = "") -> StatementError:
    return StatementError(message, hint=hint, code="E-CONFIG")
