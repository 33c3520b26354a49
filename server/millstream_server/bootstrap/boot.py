"""Checks that prevent a server from starting with a public listener by oversight."""

from __future__ import annotations

from millstream.model.errors import StatementError
from millstream_server.bootstrap.addresses import Address, read_address, read_postgres_address
from millstream_server.bootstrap.config import ServerConfig, load_config
from millstream_server.bootstrap.options import ON_KAFKA_ONLY

METHODS = frozenset({"BASIC", "BEARER", "MTLS"})
DEFAULTS = load_config()
GROUP_PROTOCOLS = ("classic", "consumer")
CLIENT_CERTIFICATES = ("NONE", "REQUESTED", "REQUIRED")


def check_boot(config: ServerConfig) -> tuple[Address, ...]:
    """The addresses to listen on; raises StatementError (E-INSECURE, E-CONFIG) if the configuration
    is refused."""
    _check_methods(config)
    _check_instances(config)
    addresses = tuple(read_address(url) for url in config.texts("listeners"))
    if not addresses:
        raise _refusal("There is no listener.", "Set listeners.")
    for address in addresses:
        _check_address(address, config)
    if (postgres := postgres_address(config)) is not None:
        _check_public(postgres, config, "a certificate (ssl.keystore.location)")
    return addresses


def postgres_address(config: ServerConfig) -> Address | None:
    """Where to listen for PostgreSQL's protocol, if anywhere; raises StatementError (E-CONFIG)."""
    text = config.text("millstream.postgres.listener")
    if not text:
        return None
    return read_postgres_address(text, tls=bool(config.text("ssl.keystore.location")))


def methods(config: ServerConfig) -> frozenset[str]:
    """The enabled authentication methods."""
    named = frozenset(name.upper() for name in config.texts("authentication.method"))
    return named - {"NONE"}


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


def _check_instances(config: ServerConfig) -> None:
    if config.text("group.protocol") not in GROUP_PROTOCOLS:
        raise _refusal("group.protocol is classic or consumer.")
    if config.text("bootstrap.servers"):
        return
    for name in ON_KAFKA_ONLY:
        if config.values[name] != DEFAULTS.values[name]:
            raise _refusal(
                f"{name} is for instances that share a service, on Kafka.",
                "Set bootstrap.servers, or leave it out.",
            )


def _check_address(address: Address, config: ServerConfig) -> None:
    _check_certificate(address, config)
    _check_public(address, config, "TLS (an https listener, ssl.keystore.location)")


def _check_public(address: Address, config: ServerConfig, tls: str) -> None:
    if address.loopback or config.insecure:
        return
    missing = []
    if not address.tls:
        missing.append(tls)
    if not methods(config):
        missing.append("authentication (authentication.method)")
    if missing:
        raise StatementError(
            f"Refusing to listen on {address.host}:{address.port}, which others can reach, "
            f"without {' and '.join(missing)}.",
            hint="Set these, listen on 127.0.0.1, or start with --insecure-i-know.",
            code="E-INSECURE",
        )


def _check_certificate(address: Address, config: ServerConfig) -> None:
    if address.tls and not config.text("ssl.keystore.location"):
        raise _refusal(
            f"https://{address.host}:{address.port} needs a certificate.",
            "Set ssl.keystore.location to a PEM file with key and certificates.",
        )


def _refusal(message: str, hint: str = "") -> StatementError:
    return StatementError(message, hint=hint, code="E-CONFIG")
