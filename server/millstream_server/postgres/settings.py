"""The settings of a session that PostgreSQL's clients ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from millstream_server.postgres.refusals import NOT_SUPPORTED, PgError

SERVER_VERSION = "15.0"
"""The version of PostgreSQL whose protocol and catalog clients may expect."""
DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "application_name": "",
        "bytea_output": "hex",
        "client_encoding": "UTF8",
        "client_min_messages": "notice",
        "datestyle": "ISO, MDY",
        "default_transaction_isolation": "read committed",
        "default_transaction_read_only": "off",
        "extra_float_digits": "1",
        "idle_in_transaction_session_timeout": "0",
        "in_hot_standby": "off",
        "integer_datetimes": "on",
        "intervalstyle": "postgres",
        "is_superuser": "off",
        "jit": "off",
        "lock_timeout": "0",
        "max_identifier_length": "63",
        "max_index_keys": "32",
        "row_security": "on",
        "search_path": "public",
        "server_encoding": "UTF8",
        "server_version": SERVER_VERSION,
        "server_version_num": "150000",
        "session_authorization": "",
        "standard_conforming_strings": "on",
        "statement_timeout": "0",
        "synchronize_seqscans": "on",
        "timezone": "UTC",
        "transaction_isolation": "read committed",
        "transaction_read_only": "off",
    }
)
REPORTED = {
    "application_name": "application_name",
    "client_encoding": "client_encoding",
    "datestyle": "DateStyle",
    "default_transaction_read_only": "default_transaction_read_only",
    "in_hot_standby": "in_hot_standby",
    "integer_datetimes": "integer_datetimes",
    "intervalstyle": "IntervalStyle",
    "is_superuser": "is_superuser",
    "search_path": "search_path",
    "server_encoding": "server_encoding",
    "server_version": "server_version",
    "session_authorization": "session_authorization",
    "standard_conforming_strings": "standard_conforming_strings",
    "timezone": "TimeZone",
}
"""The settings that are sent at the start of a session and when they change, with their names in
the protocol."""
_FIXED = {
    "client_encoding": ("utf8", "utf-8", "unicode"),
    "standard_conforming_strings": ("on", "true", "1"),
    "bytea_output": ("hex",),
    "timezone": ("utc", "gmt", "etc/utc", "utc0", "z", "0", "zulu", "uct"),
}
"""Settings that stay as they are: the values that say so."""
_READ_ONLY = ("server_version", "server_version_num", "server_encoding", "integer_datetimes")


_TIMES = {"us": 0.001, "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_TIME = re.compile(r"\s*([0-9]{1,12})\s*([a-z]*)\s*")


def milliseconds(value: str) -> float:
    """A duration of a setting, such as 5000 or 5s; 0 for none. Raises PgError."""
    found = _TIME.fullmatch(value)
    unit = _TIMES.get(found[2] or "ms") if found else None
    if found is None or unit is None:
        raise PgError(f"'{value}' is no duration.", hint="Write 5000 or '5s'.", code="22023")
    return int(found[1]) * unit


def changed(name: str, value: str | None, *, strict: bool = True) -> tuple[str, str] | None:
    """The new value of a setting, None for a name that is none here. Raises PgError for a value
    that cannot be had: values are always UTF-8, and times UTC. Where it is not `strict`, as at the
    start of a session, the default stays instead."""
    if name not in DEFAULTS:
        return None
    given = DEFAULTS[name] if value is None else value
    if name == "statement_timeout":
        milliseconds(given)
    if name == "datestyle":
        # Dates are always ISO; the order of day and month is only for reading others.
        return name, DEFAULTS[name]
    kept = _FIXED.get(name)
    if (kept is None or given.strip().lower() in kept) and name not in _READ_ONLY:
        return name, DEFAULTS[name] if kept else given
    if not strict or (name in _READ_ONLY and given == DEFAULTS[name]):
        return name, DEFAULTS[name]
    raise PgError(
        f"{name} is {DEFAULTS[name]} and cannot be changed.",
        hint="Convert in the client.",
        code=NOT_SUPPORTED,
    )
