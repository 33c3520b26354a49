"""The file of `--config-file`: lines of name=value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.model.errors import StatementError
from millstream.scripts.text import read_text

_REGISTRY = "ksql.schema.registry."
_CONNECTION = ("ssl.", "sasl.", "security.protocol")


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of connections, and properties of the session."""

    connection: Mapping[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    registry: Mapping[str, str] = field(default_factory=dict)
    """Settings of the client of the schema registry."""


def read_config(path: str | None) -> Config:
    """The settings of a file; none without a file. Raises StatementError if it cannot be read."""
    connection: dict[str, str] = {}
    properties: dict[str, str] = {}
    registry: dict[str, str] = {}
    for number, line in enumerate(read_text(path, "settings").splitlines() if path else (), 1):
        text = line.strip()
        if not text or text.startswith(("#", "!")):
            continue
        name, separator, value = text.partition("=")
        if not separator:
            raise StatementError(f"Line {number} of {path} is not of the form name=value.")
        name = name.strip()
        if name.startswith(_REGISTRY):
            registry[name.removeprefix(_REGISTRY)] = value.strip()
            continue
        chosen = connection if name.startswith(_CONNECTION) else properties
        chosen[name] = value.strip()
    return Config(connection, properties, registry)
