"""The WITH clause: which properties a statement may have and what they mean (reference §5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from millstream.catalog import wordings
from millstream.catalog.formats import (
    CAPABILITIES,
    DEFAULT_KEY,
    NULLS,
    SCHEMA_ID,
    SCHEMA_NAME,
    USABLE,
)
from millstream.catalog.source import Format
from millstream.model import refusals
from millstream.model.errors import StatementError
from millstream.model.nearest import did_you_mean
from millstream.model.schema import SourceKind, WindowedKey, WindowKind
from millstream_parser import read_duration

DEFAULT_KEY_FORMAT = "ksql.persistence.default.format.key"
DEFAULT_VALUE_FORMAT = "ksql.persistence.default.format.value"
DEFAULT_WRAP = "ksql.persistence.wrap.single.values"

PART_SETTINGS = {
    "DELIMITER": "delimiter",
    "SCHEMA_ID": SCHEMA_ID,
    "SCHEMA_FULL_NAME": SCHEMA_NAME,
    "PROTOBUF_NULLABLE_REPRESENTATION": NULLS,
}
"""Properties of the format of a key or a value, behind KEY_ or VALUE_, and its settings."""
_COMMON = {
    "KAFKA_TOPIC",
    "PARTITIONS",
    "REPLICAS",
    "RETENTION_MS",
    "FORMAT",
    "KEY_FORMAT",
    "VALUE_FORMAT",
    "WRAP_SINGLE_VALUE",
    "TIMESTAMP",
    "TIMESTAMP_FORMAT",
    "PARTITION_COLUMN",
    "VALUE_AVRO_SCHEMA_FULL_NAME",
} | {f"{part}_{name}" for part in ("KEY", "VALUE") for name in PART_SETTINGS}
_WINDOW_TYPES = ("SESSION", "HOPPING", "TUMBLING")
_NULLABLE_REPRESENTATIONS = ("OPTIONAL", "WRAPPER")
_WHOLE = {
    "PARTITIONS": "INT",
    "REPLICAS": "SHORT",
    "RETENTION_MS": "LONG",
    "KEY_SCHEMA_ID": "INT",
    "VALUE_SCHEMA_ID": "INT",
}
"""Properties that are whole numbers, with the type that Kafka's configurations have for them."""
_BITS = {"SHORT": 15, "INT": 31, "LONG": 63}
_DIGITS = re.compile(r"[+-]?[0-9]{1,19}")
BACKFILLS = ("duckdb", "spark")
"""Where the back-fill of a new query may be computed: in this process or as a Spark job."""


class Form(Enum):
    """The kind of statement a WITH clause belongs to; `value` is the properties that it
    supports."""

    CREATE = frozenset(
        _COMMON | {"WINDOW_TYPE", "WINDOW_SIZE", "SOURCED_BY_CONNECTOR", "SOURCE_CONNECTOR"}
    )
    CREATE_AS = frozenset(_COMMON | {"BACKFILL"})
    INSERT = frozenset({"QUERY_ID"})


@dataclass(frozen=True, slots=True)
class Properties:
    """A parsed WITH clause. None where a property was not given.

    Format names are upper case and valid; `…_settings` are named as in `Format.properties`.
    """

    topic: str | None = None
    partitions: int | None = None
    replicas: int | None = None
    retention_ms: int | None = None
    key_format: str | None = None
    value_format: str | None = None
    key_settings: Mapping[str, str] = field(default_factory=dict)
    value_settings: Mapping[str, str] = field(default_factory=dict)
    wrap: bool | None = None
    timestamp: str | None = None
    timestamp_format: str | None = None
    partition_column: str | None = None
    window: WindowedKey | None = None
    query_id: str | None = None
    backfill: str | None = None


def read_properties(given: tuple[tuple[str, Any], ...], form: Form) -> Properties:
    """Parse the WITH clause of a statement; the StatementError names the property that is wrong."""
    items = dict(given)
    unknown = sorted(set(items) - form.value)
    if unknown:
        hint = did_you_mean(unknown[0], sorted(form.value - set(items)))
        raise wordings.UNKNOWN_PROPERTIES(unknown=",".join(unknown), hint=hint)
    _refuse_format_with_parts(items)
    both = _format(items, "FORMAT")
    if "TIMESTAMP_FORMAT" in items and "TIMESTAMP" not in items:
        raise wordings.TIMESTAMP_FORMAT_ALONE()
    return Properties(
        topic=_topic(items),
        partitions=_positive(items, "PARTITIONS"),
        replicas=_positive(items, "REPLICAS", or_minus_one=True),
        retention_ms=_integer(items, "RETENTION_MS"),
        key_format=both or _format(items, "KEY_FORMAT"),
        value_format=both or _format(items, "VALUE_FORMAT"),
        key_settings=_settings(items, "KEY"),
        value_settings=_settings(items, "VALUE"),
        wrap=_boolean(items, "WRAP_SINGLE_VALUE"),
        timestamp=_name(_text(items, "TIMESTAMP")),
        timestamp_format=_text(items, "TIMESTAMP_FORMAT"),
        partition_column=_name(_text(items, "PARTITION_COLUMN")),
        window=_window(items),
        query_id=_query_id(items),
        backfill=_backfill(items),
    )


def make_format(name: str, settings: Mapping[str, str], wrap: bool | None = None) -> Format:
    """A format with its settings; raises StatementError for settings that it does not have."""
    foreign = sorted(set(settings) - CAPABILITIES[name].settings)
    if foreign:
        raise refusals.FOREIGN_SETTINGS(format=name, configs=", ".join(foreign))
    return Format(name, wrap, dict(settings))


def check_retention(given: Properties, kind: SourceKind, window: WindowedKey | None) -> None:
    """Refuse a retention time on a compacted topic."""
    if given.retention_ms is not None and kind is SourceKind.TABLE and window is None:
        raise wordings.RETENTION_OF_TABLE()


def default_format(settings: Mapping[str, str], name: str) -> str | None:
    """The server's or session's default format, checked; `name` is one of the two settings."""
    text = settings.get(name) or None
    return None if text is None else known_format(text)


def format_names(given: Properties, settings: Mapping[str, str]) -> tuple[str, str | None]:
    """The formats of keys and of values: those of the WITH clause, else the session's defaults, of
    which that of values may be missing."""
    key = given.key_format or default_format(settings, DEFAULT_KEY_FORMAT) or DEFAULT_KEY
    return key, given.value_format or default_format(settings, DEFAULT_VALUE_FORMAT)


def known_format(text: str) -> str:
    """The format's name in upper case; raises StatementError when there is no such format."""
    name = text.strip().upper()
    if name not in CAPABILITIES:
        raise wordings.UNKNOWN_FORMAT(
            name=name, hint=did_you_mean(name, USABLE, f"The formats are {', '.join(USABLE)}.")
        )
    return name


def wrapping(
    explicit: bool | None, settings: Mapping[str, str], format_name: str, value_columns: int
) -> bool | None:
    """Whether a single value is wrapped: as given, else the session's default where it applies."""
    if explicit is not None:
        if value_columns != 1:
            raise refusals.WRAPPED_COLUMNS(
                hint=f"The value has {value_columns} columns: leave the property out."
            )
        return explicit
    default = settings.get(DEFAULT_WRAP)
    if default is None or value_columns != 1 or len(CAPABILITIES[format_name].wraps) < 2:
        return None
    return default.strip().lower() == "true"


def _refuse_format_with_parts(items: Mapping[str, Any]) -> None:
    for part in ("KEY_FORMAT", "VALUE_FORMAT"):
        if part in items and "FORMAT" in items:
            raise wordings.FORMAT_TWICE(part=part)


def _text(items: Mapping[str, Any], name: str) -> str | None:
    value = items.get(name)
    if value is not None and not isinstance(value, str):
        raise _wrong_value(items, name, "Expected value to be a string")
    return value


def _wrong_value(items: Mapping[str, Any], name: str, reason: str) -> StatementError:
    return wordings.PROPERTY_VALUE(value=_written(items[name]), property=name, reason=reason)


def _written(value: Any) -> str:
    """A literal as written in the statement."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _topic(items: Mapping[str, Any]) -> str | None:
    name = _text(items, "KAFKA_TOPIC")
    if name is not None and not name.strip():
        raise refusals.INVALID_PROPERTY(
            property="KAFKA_TOPIC", reason="the name of a topic cannot be empty."
        )
    return name


def _integer(items: Mapping[str, Any], name: str) -> int | None:
    value = items.get(name)
    if value is None:
        return None
    text, kind = str(value).strip(), _WHOLE[name]
    if _DIGITS.fullmatch(text) and -(2 ** _BITS[kind]) <= int(text) < 2 ** _BITS[kind]:
        return int(text)
    raise _wrong_value(items, name, f"Not a number of type {kind}")


def _positive(items: Mapping[str, Any], name: str, or_minus_one: bool = False) -> int | None:
    value = _integer(items, name)
    if value is None or value > 0 or (or_minus_one and value == -1):
        return value
    raise refusals.INVALID_PROPERTY(property=name, reason=f"{value} is not greater than 0.")


def _boolean(items: Mapping[str, Any], name: str) -> bool | None:
    value = items.get(name)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise _wrong_value(items, name, "Expected value to be either true or false")


def _one_of(items: Mapping[str, Any], name: str, allowed: Sequence[str]) -> str | None:
    """The value of a property with a fixed set of values, in any case."""
    text = _text(items, name)
    if text is None or text.upper() in allowed:
        return None if text is None else text.upper()
    raise _wrong_value(items, name, f"String must be one of: {', '.join(allowed)}, null")


def _format(items: Mapping[str, Any], name: str) -> str | None:
    text = _text(items, name)
    return None if text is None else known_format(text)


def _name(text: str | None) -> str | None:
    """A column name as written inside a string: folded unless it is quoted there."""
    if text is None:
        return None
    if len(text) > 1 and text[0] == text[-1] and text[0] in '`"':
        return text[1:-1].replace(text[0] * 2, text[0])
    return text.upper()


def _settings(items: Mapping[str, Any], part: str) -> Mapping[str, str]:
    _integer(items, f"{part}_SCHEMA_ID")
    nulls = _one_of(items, f"{part}_PROTOBUF_NULLABLE_REPRESENTATION", _NULLABLE_REPRESENTATIONS)
    settings = {
        setting: str(items[f"{part}_{name}"])
        for name, setting in PART_SETTINGS.items()
        if f"{part}_{name}" in items
    }
    if nulls is not None:
        settings[NULLS] = nulls
    if part == "VALUE" and "VALUE_AVRO_SCHEMA_FULL_NAME" in items:
        if SCHEMA_NAME in settings:
            raise wordings.SCHEMA_NAME_TWICE()
        settings[SCHEMA_NAME] = str(items["VALUE_AVRO_SCHEMA_FULL_NAME"])
    if "delimiter" in settings:
        settings["delimiter"] = _delimiter(settings["delimiter"], f"{part}_DELIMITER")
    if not settings.get(SCHEMA_NAME, "x").strip():
        raise wordings.EMPTY_SCHEMA_NAME(hint=f"Leave {part}_SCHEMA_FULL_NAME out, or fill it in.")
    return settings


def _delimiter(text: str, name: str) -> str:
    if not text.strip():
        raise refusals.EMPTY_DELIMITER(property=name)
    if len(text) != 1 and text not in ("TAB", "SPACE"):
        raise refusals.LONG_DELIMITER(property=name, delimiter=text)
    return text


def _window(items: Mapping[str, Any]) -> WindowedKey | None:
    kind_text = _one_of(items, "WINDOW_TYPE", _WINDOW_TYPES)
    size_text = _text(items, "WINDOW_SIZE")
    if kind_text is None:
        if size_text is not None:
            raise wordings.WINDOW_SIZE_ALONE()
        return None
    kind = WindowKind[kind_text]
    if kind is WindowKind.SESSION:
        if size_text is not None:
            raise wordings.SESSION_SIZE()
        return WindowedKey(kind)
    if size_text is None:
        raise wordings.WINDOW_SIZE_MISSING(kind=kind.value)
    return WindowedKey(kind, _window_size(size_text))


def _window_size(text: str) -> int:
    try:
        return read_duration(text).milliseconds
    except ValueError as error:
        raise refusals.INVALID_PROPERTY(
            property="WINDOW_SIZE", reason=f"Invalid duration: '{text}'. {error}"
        ) from None


def _query_id(items: Mapping[str, Any]) -> str | None:
    text = _text(items, "QUERY_ID")
    if text is None:
        return None
    name = text.upper()
    if not name.replace("_", "").isalnum() or not name.isascii():
        raise wordings.QUERY_ID_CHARACTERS(text=text)
    if name.startswith(("INSERTQUERY_", "CTAS_", "CSAS_", "CST_")):
        raise wordings.QUERY_ID_RESERVED(text=text)
    return name


def _backfill(items: Mapping[str, Any]) -> str | None:
    text = _text(items, "BACKFILL")
    if text is None:
        return None
    if text.lower() not in BACKFILLS:
        raise refusals.INVALID_PROPERTY(
            property="BACKFILL", reason=f"'{text}' is not one of {', '.join(BACKFILLS)}."
        )
    return text.lower()
