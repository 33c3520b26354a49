"""Settings of the client of a registry: those of confluent-kafka's, and Java's names for them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from millstream.model.errors import StatementError
from millstream.model.nearest import nearest

_TEXTS = frozenset(
    {
        "url",
        "proxy",
        "ssl.ca.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.certificate.location",
        "basic.auth.user.info",
        "bearer.auth.credentials.source",
        "bearer.auth.token",
        "bearer.auth.logical.cluster",
        "bearer.auth.identity.pool.id",
        "bearer.auth.client.id",
        "bearer.auth.client.secret",
        "bearer.auth.scope",
        "bearer.auth.issuer.endpoint.url",
    }
)
_NUMBERS = frozenset({"timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms"})
_OF_JAVA = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.keystore.location": "ssl.certificate.location",
    "schema.registry.url": "url",
}
_TYPES_OF_JAVA = ("ssl.truststore.type", "ssl.keystore.type")
_SOURCE = "basic.auth.credentials.source"
_DEFAULTS: Mapping[str, object] = {
    "timeout": 4.0,
    "max.retries": 2,
    "retries.wait.ms": 100,
    "retries.max.wait.ms": 1000,
}
"""The client of confluent-kafka waits for ever by itself."""


def client_settings(given: Mapping[str, str]) -> dict[str, object]:
    """The settings as the client takes them. Raises StatementError for one that it does not have,
    and for keys and certificates in formats of Java."""
    found: dict[str, object] = dict(_DEFAULTS)
    for name, value in given.items():
        if name in _TYPES_OF_JAVA:
            _require_pem(name, value)
        elif name == _SOURCE:
            _check_source(value, given)
        else:
            known = _OF_JAVA.get(name, name)
            found[known] = _checked(known, value)
    if not found.get("url"):
        raise StatementError("The settings of the schema registry have no url")
    if "bearer.auth.token" in found:
        # Confluent's cloud wants to know more than the token; other registries do not look at it.
        found.setdefault("bearer.auth.credentials.source", "STATIC_TOKEN")
        found.setdefault("bearer.auth.logical.cluster", "default")
        found.setdefault("bearer.auth.identity.pool.id", "default")
    return found


def shown(url: str) -> str:
    """The URLs of a registry without their credentials, for messages."""
    return ", ".join(_without_user(each.strip()) for each in url.split(","))


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")


def _checked(name: str, value: str) -> object:
    if name in _NUMBERS:
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        # More would be a wait without end, for statements as for retries.
        if not 0 <= number <= 600_000:
            raise StatementError(f"The registry's setting '{name}' is no number: '{value}'")
        return number
    if name == "url":
        for each in value.split(","):
            if urlsplit(each.strip()).scheme not in ("http", "https"):
                raise StatementError(
                    f"'{shown(each)}' is not the URL of a schema registry",
                    hint="Give http://host:port or https://host:port; several with commas between.",
                )
    elif name not in _TEXTS:
        known = nearest(name, _TEXTS | _NUMBERS | _OF_JAVA.keys())
        raise StatementError(
            f"The client of the schema registry has no setting '{name}'",
            hint=f"Did you mean '{known}'?" if known else "",
        )
    return value


def _require_pem(name: str, value: str) -> None:
    if value.upper() != "PEM":
        raise StatementError(
            f"The registry's setting '{name}' is {value}, and only PEM can be read",
            hint="keytool and openssl pkcs12 export keys and certificates as PEM.",
        )


def _check_source(value: str, given: Mapping[str, str]) -> None:
    missing = value.upper() == "USER_INFO" and "basic.auth.user.info" not in given
    if value.upper() not in ("USER_INFO", "URL") or missing:
        raise StatementError(
            f"The registry's setting '{_SOURCE}' cannot be {value} here",
            hint="Give USER_INFO with basic.auth.user.info (user:password), or URL with both in"
            " the url.",
        )
