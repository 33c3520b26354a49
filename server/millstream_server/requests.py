"""Parses request bodies and media types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream_parser import Values
from millstream_server.failures import MALFORMED, UNACCEPTABLE, RefusedError

DEPTH_MAX = 64
_NESTING = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[][{}]', re.DOTALL)
"""Strings, whose contents are skipped, and nesting characters."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Statements and their execution settings."""

    sql: str
    properties: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Between servers."""
    after_command: int | None = None
    """Wait until this command has been executed here."""
    parameters: Values = ()
    """The values of `?`, `$1` or `:name`."""


def check_depth(body: bytes) -> None:
    """Raise RefusedError for JSON that is nested too deeply: its parser is recursive."""
    if body.count(b"[") + body.count(b"{") <= DEPTH_MAX:
        return
    depth = 0
    for token in _NESTING.findall(body):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token, 0)
        if depth > DEPTH_MAX:
            message = f"Invalid JSON in request: it is nested more than {DEPTH_MAX} levels deep"
            raise RefusedError(MALFORMED, message)


def parsed_body(body: bytes) -> dict[str, Any]:
    """Parse a JSON object; raises RefusedError for anything else."""
    check_depth(body)
    try:
        value = json.loads(body or b"null")
    except (ValueError, RecursionError) as error:
        raise RefusedError(MALFORMED, f"Invalid JSON in request: {error}") from error
    if not isinstance(value, dict):
        raise RefusedError(MALFORMED, "Invalid JSON in request: expected an object")
    check_characters(body, value)
    return value


def check_characters(body: bytes, value: object) -> None:
    """Raise RefusedError for a lone surrogate escape: an error that quotes such text could not be
    sent."""
    if b"\\u" not in body:
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start : error.end])
        message = f"Invalid JSON in request: {half} is half a character (a lone surrogate)"
        raise RefusedError(MALFORMED, message) from error


def asked(value: Mapping[str, Any]) -> Asked:
    """Parse a KsqlRequest or QueryStreamArgs; a missing final `;` is added."""
    sql = value.get("ksql", value.get("sql"))
    if not isinstance(sql, str) or not sql.strip():
        raise RefusedError(MALFORMED, 'The request has no statement: give it as "ksql" or "sql"')
    number = value.get("commandSequenceNumber")
    if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
        raise RefusedError(MALFORMED, "commandSequenceNumber must be a whole number")
    return Asked(
        sql if sql.rstrip().endswith(";") else f"{sql.rstrip()};",
        settings_of(value, "streamsProperties", "properties"),
        settings_of(value, "sessionVariables"),
        _object(value, "requestProperties"),
        number,
        parameters_of(value),
    )


def settings_of(value: Mapping[str, Any], *names: str) -> dict[str, str]:
    """Names and values of an object, the values as texts."""
    found: dict[str, str] = {}
    for name in names:
        for key, item in _object(value, name).items():
            found[key] = _setting(key, item)
    return found


def parameters_of(value: Mapping[str, Any]) -> Values:
    """The values for parameters, in a list or by name; their types are checked later."""
    found = value.get("parameters")
    if found is None:
        return ()
    if not isinstance(found, list | dict):
        raise RefusedError(MALFORMED, "parameters must be a list, or an object")
    return found


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise RefusedError(MALFORMED, f"{name} must be an object")
    return found


def _setting(name: str, value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return str(value)
    raise RefusedError(MALFORMED, f"The value of {name} must be a string, a number or a boolean")


def accepted(accept: str, offered: Sequence[str], default: str) -> str:
    """The media type of the response: the most preferred one offered; raises RefusedError if none
    is acceptable.

    Among equally preferred types the first in the header wins.
    """
    if not accept.strip():
        return default
    liked = sorted((_range(item) for item in accept.split(",")), key=lambda item: -item[1])
    for kind, quality in liked:
        if quality <= 0:
            continue
        if kind in offered:
            return kind
        if kind in ("*/*", "application/*"):
            return default
    raise RefusedError(
        UNACCEPTABLE, f"None of the types in Accept is offered here; there is {', '.join(offered)}"
    )


def _range(item: str) -> tuple[str, float]:
    kind, *parameters = (part.strip() for part in item.lower().split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return kind, float(value)
            except ValueError:
                return kind, 0.0
    return kind, 1.0
