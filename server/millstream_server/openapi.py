"""The API as an OpenAPI document, made from the table of endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from millstream_server.framing import DELIMITED, KSQL

if TYPE_CHECKING:
    from millstream_server.routes import Endpoint

_TEXT, _WHOLE, _ANY = {"type": "string"}, {"type": "integer"}, {"type": "object"}
_SETTINGS = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean"]},
}
_HOST = {
    "type": "object",
    "properties": {"host": _TEXT, "port": _WHOLE},
    "required": ["host", "port"],
}


def _object(required: str = "", **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return {**made, "required": required.split()} if required else made


SCHEMAS: dict[str, Any] = {
    "KsqlRequest": _object(
        "ksql",
        ksql=_TEXT,
        streamsProperties=_SETTINGS,
        sessionVariables=_SETTINGS,
        requestProperties=_ANY,
        commandSequenceNumber=_WHOLE,
    ),
    "QueryStreamArgs": _object(
        "sql", sql=_TEXT, properties=_SETTINGS, sessionVariables=_SETTINGS, requestProperties=_ANY
    ),
    "CloseQueryArgs": _object("queryId", queryId=_TEXT),
    "ClusterTerminateRequest": _object(
        deleteTopicList={"type": "array", "items": _TEXT}, streamsProperties=_SETTINGS
    ),
    "InsertsStream": {
        "type": "string",
        "description": "First a line with the target, then one JSON object per line and row",
    },
    "Heartbeat": _object("hostInfo timestamp", hostInfo=_HOST, timestamp=_WHOLE),
    "LagReport": _object("ksqlHost hostStoreLags", ksqlHost=_HOST, hostStoreLags=_ANY),
    "Error": {
        "type": "object",
        "properties": {
            "@type": {"enum": ["generic_error", "statement_error"]},
            "error_code": _WHOLE,
            "message": _TEXT,
            "statementText": _TEXT,
            "entities": {"type": "array", "items": _ANY},
        },
        "required": ["@type", "error_code", "message"],
    },
}


def document(endpoints: Iterable[Endpoint]) -> dict[str, object]:
    """The document as JSON values."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Millstream",
            "version": "1",
            "description": "ksqlDB's HTTP API: streams, tables and queries in SQL.",
        },
        "paths": paths,
        "components": {"schemas": SCHEMAS},
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    made: dict[str, Any] = {"summary": endpoint.summary, "responses": _responses(endpoint)}
    names = re.findall(r"\{(\w+)\}", endpoint.path)
    if names:
        made["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names
        ]
    if endpoint.body:
        kinds = (DELIMITED,) if endpoint.body == "InsertsStream" else (KSQL, "application/json")
        reference = {"$ref": f"#/components/schemas/{endpoint.body}"}
        made["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": reference} for kind in kinds},
        }
    return made


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    error = {"content": {KSQL: {"schema": {"$ref": "#/components/schemas/Error"}}}}
    status = "307" if endpoint.path == "/" else "200"
    found: dict[str, Any] = {
        status: {"description": "Done", "content": {kind: {} for kind in endpoint.gives}}
    }
    for code, meaning in (
        ("400", "The request or its statement is wrong"),
        ("401", "Nobody knows who asks"),
        ("403", "They may not"),
        ("404", "There is none"),
        ("406", "None of the accepted types is offered"),
        ("429", "Too much at once"),
        ("503", "Not now"),
    ):
        found[code] = {"description": meaning, **({} if code == "406" else error)}
    return found
