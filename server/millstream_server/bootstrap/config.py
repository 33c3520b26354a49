"""The configuration of a server: reads files, environment and flags into one immutable value.

Flags override the environment, the environment overrides files, later files override earlier ones.
Everything else has a default, and every default is finite.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from millstream.model.errors import StatementError
from millstream.model.nearest import nearest
from millstream.model.properties import PROPERTIES
from millstream.model.settings import canonical_name, check_property
from millstream_server.bootstrap.options import BY_NAME, OPTIONS, WITHOUT_EFFECT, Option, ValueKind
from millstream_server.bootstrap.secret import (
    References,
    Secret,
    is_reference,
    is_secret_key,
    parse_properties,
    read_settings,
)

PREFIXES = ("MILLSTREAM_", "KSQL_")
PROPERTY_NAMES = frozenset(item.name for item in PROPERTIES)
SPARK = "spark."
REGISTRY = "ksql.schema.registry."
KAFKA = ("security.protocol", "sasl.", "millstream.kafka.")
_ENVIRONMENT_OF_OTHERS = re.compile(
    r"KSQL_(HEAP_OPTS|OPTS|JMX_OPTS|CLASSPATH|LOG4J.*|GC_LOG.*|HOME|DIR|JVM_PERFORMANCE_OPTS)"
    r"|MILLSTREAM_(KAFKA|KAFKA_CLIENT|TOKEN|CRASH_MASTER|REQUIRE_CLIENTS)"
    # Variables that Kubernetes sets for all pods beside a service of this name.
    r"|(KSQL|MILLSTREAM)(_\w+)?_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP)(_\w+)?)?)"
)
_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
Value = str | tuple[str, ...] | int | float | Secret


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The settings of a server. Each kind has its accessor."""

    values: Mapping[str, Value]
    properties: Mapping[str, str] = field(default_factory=dict)
    """Defaults of sessions, as if set by SET."""
    kafka: Mapping[str, str | Secret] = field(default_factory=dict)
    """Settings of the Kafka clients."""
    registry: Mapping[str, str | Secret] = field(default_factory=dict)
    """Settings of the client of the schema registry."""
    insecure: bool = False
    """Whether the operator allowed an insecure public listener on the command line."""
    warnings: tuple[str, ...] = ()
    spark: Mapping[str, str] = field(default_factory=dict)
    """Options of the Spark session."""

    def text(self, name: str) -> str:
        """A setting of kind TEXT."""
        value = self.values[name]
        assert isinstance(value, str), name
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A setting of kind LIST."""
        value = self.values[name]
        assert isinstance(value, tuple), name
        return value

    def count(self, name: str) -> int:
        """A setting of kind COUNT, NUMBER or SIZE."""
        value = self.values[name]
        assert isinstance(value, int), name
        return value

    def flag(self, name: str) -> bool:
        """A setting of kind FLAG."""
        return self.text(name) == "true"

    def seconds(self, name: str) -> float:
        """A setting of kind SECONDS."""
        value = self.values[name]
        assert isinstance(value, float), name
        return value

    def secret(self, name: str) -> Secret:
        """A setting of kind SECRET."""
        value = self.values[name]
        assert isinstance(value, Secret), name
        return value


def load_config(
    files: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
    *,
    insecure: bool = False,
) -> ServerConfig:
    """Read and check all settings. Raises StatementError (code E-CONFIG) with the name of the
    invalid one, and the nearest name for an unknown one. `insecure` is a flag only, so that no file
    can set it."""
    environment = environment or {}
    texts: dict[str, str] = {}
    for path in files:
        texts.update(parse_properties(read_settings(path)))
    texts.update(_from_environment(environment))
    texts.update(flags or {})
    references = References(environment)
    values = {option.name: _read(option, option.default, references) for option in OPTIONS}
    properties: dict[str, str] = {}
    kafka: dict[str, str | Secret] = {}
    registry: dict[str, str | Secret] = {}
    spark: dict[str, str] = {}
    warnings = []
    for name, text in texts.items():
        option = BY_NAME.get(name) or BY_NAME.get(name.removeprefix("ksql.streams."))
        if option is not None:
            values[option.name] = _read(option, text, references)
        elif name.startswith(KAFKA):
            kafka[name.removeprefix(KAFKA[-1])] = _client_value(name, text, references)
        elif name.startswith(REGISTRY):
            registry[name.removeprefix(REGISTRY)] = _client_value(name, text, references)
        elif name.startswith(SPARK):
            spark[name] = text
        elif canonical_name(name) in PROPERTY_NAMES:
            canonical, value = _property(name, text)
            properties[canonical] = value
        elif name.removeprefix("ksql.streams.") in WITHOUT_EFFECT:
            warnings.append(f"The setting {name} has no effect in Millstream")
        else:
            raise _unknown(name)
    return ServerConfig(values, properties, kafka, registry, insecure, tuple(warnings), spark)


def _property(name: str, text: str) -> tuple[str, str]:
    try:
        return check_property(name, text)
    except StatementError as error:
        raise StatementError(error.message, hint=error.hint, code="E-CONFIG") from error


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Those of ksqlDB's container first, because Millstream's own names override them."""
    known = {_variable(name): name for name in (*BY_NAME, *(p.name for p in PROPERTIES))}
    for prefix in reversed(PREFIXES):
        for variable, text in sorted(environment.items()):
            if variable.startswith(prefix) and not _ENVIRONMENT_OF_OTHERS.fullmatch(variable):
                bare = variable.removeprefix(prefix)
                # MILLSTREAM_HOSTS as well as MILLSTREAM_MILLSTREAM_HOSTS.
                name = known.get(bare) or known.get(variable) or bare.lower().replace("_", ".")
                yield name, text


def _variable(name: str) -> str:
    return name.upper().replace(".", "_")


def _read(option: Option, text: str, references: References) -> Value:
    if option.kind is ValueKind.SECRET:
        return references.resolve(text)
    found = references.resolve(text).reveal() if is_reference(text) else text
    try:
        value = _typed(option.kind, found.strip())
    except ValueError:
        raise _wrong(option, text, f"expected {option.kind.value}") from None
    if isinstance(value, int | float) and value > option.most:
        raise _wrong(option, text, f"the most is {option.most:g}: every limit is finite")
    return value


def _typed(kind: ValueKind, text: str) -> Value:
    match kind:
        case ValueKind.LIST:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        case ValueKind.COUNT:
            return _positive(int(text))
        case ValueKind.NUMBER:
            return _positive(int(text) + 1) - 1
        case ValueKind.FLAG:
            if text.lower() not in ("true", "false"):
                raise ValueError
            return text.lower()
        case ValueKind.SIZE:
            found = re.fullmatch(r"(\d{1,15})\s*([A-Za-z]*)", text)
            unit = _UNITS.get(found[2].upper()) if found else None
            if found is None or unit is None:
                raise ValueError
            return _positive(int(found[1]) * unit)
        case ValueKind.SECONDS:
            return _positive(float(text))
        case _:
            return text


def _positive(number: int | float) -> int | float:
    # Also refuses NaN, which is not greater than any number.
    if not number > 0:
        raise ValueError
    return number


def _wrong(option: Option, text: str, why: str) -> StatementError:
    shown = "***" if is_secret_key(option.name) else f"'{text}'"
    return StatementError(
        f"The setting {option.name} cannot be {shown}: {why}.",
        hint=option.meaning,
        code="E-CONFIG",
    )


def _client_value(name: str, text: str, references: References) -> str | Secret:
    # A URL may hold a user and a password.
    secret = is_secret_key(name) or is_reference(text) or "@" in text
    return references.resolve(text) if secret else text


def _unknown(name: str) -> StatementError:
    """An unknown setting is refused, because its intended effect would be missing."""
    known = (*BY_NAME, *(item.name for item in PROPERTIES))
    bare = name.removeprefix("ksql.streams.")
    near = nearest(name, known) or nearest(bare, known)
    shown = name.encode("unicode_escape").decode("ascii")[:200]
    hint = "docs/settings.md lists all settings." if near is None else f"Did you mean {near}?"
    return StatementError(f"Unknown setting: {shown}.", hint=hint, code="E-CONFIG")
