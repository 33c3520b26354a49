"""The API as an OpenAPI document, generated from the table of endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from millstream_server.endpoint import Endpoint
from millstream_server.results.framing import DELIMITED, KSQL

_TEXT, _WHOLE, _ANY = {"type": "string"}, {"type": "integer"}, {"type": "object"}
_TRUTH = {"type": "boolean"}
_SQL = {"type": "string", "format": "sql"}
_SETTINGS = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean"]},
}
_PARAMETER = {"type": ["string", "number", "boolean", "null"]}
_PARAMETERS = {
    "oneOf": [
        {"type": "array", "items": _PARAMETER},
        {"type": "object", "additionalProperties": _PARAMETER},
    ]
}
_HOST = {
    "type": "object",
    "properties": {"host": _TEXT, "port": _WHOLE},
    "required": ["host", "port"],
}


def _object(required: str = "", **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return {**made, "required": required.split()} if required else made


def _mapping(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": of}


def _listed(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


_HEALTHY = _object("isHealthy", isHealthy=_TRUTH)
_LEVEL = {
    "enum": [
        *("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE"),
        *("FULL", "FULL_TRANSITIVE"),
    ]
}
_REFERENCE = _object("name subject version", name=_TEXT, subject=_TEXT, version=_WHOLE)
_SCHEMA = {
    "guid": _TEXT,
    "schema": _TEXT,
    "schemaType": {"enum": ["AVRO", "JSON", "PROTOBUF"]},
    "references": _listed(_REFERENCE),
}
_PLACE = {"subject": _TEXT, "version": _WHOLE}
_VERSION = _object("subject version id schema", **_PLACE, id=_WHOLE, **_SCHEMA)
_OF_REGISTRY: dict[str, Any] = {
    "Names": _listed(_TEXT),
    "Numbers": _listed(_WHOLE),
    "Number": _WHOLE,
    "Text": {},
    "Schema": _object("schema", **_SCHEMA),
    "SchemaId": _object("id", id=_WHOLE, version=_WHOLE, guid=_TEXT),
    "Version": _VERSION,
    "Versions": _listed(_VERSION),
    "Places": _listed(_object("subject version", **_PLACE)),
    "Compatible": _object("is_compatible", is_compatible=_TRUTH, messages=_listed(_TEXT)),
    "Level": _object("compatibilityLevel", compatibilityLevel=_LEVEL),
    "LevelWanted": _object("compatibility", compatibility=_LEVEL),
    "Mode": _object("mode", mode={"enum": ["READWRITE"]}),
}
_IDS = _object("id scope", id=_TEXT, scope=_ANY)
ANSWERS: dict[str, Any] = {
    "ServerInfo": _object(
        "KsqlServerInfo",
        KsqlServerInfo=_object(
            "version kafkaClusterId ksqlServiceId serverStatus",
            version=_TEXT,
            kafkaClusterId=_TEXT,
            ksqlServiceId=_TEXT,
            serverStatus={"enum": ["RUNNING", "ERROR", "DEGRADED"]},
        ),
    ),
    "Health": _object(
        "isHealthy details serverState",
        isHealthy=_TRUTH,
        details=_mapping(_HEALTHY),
        serverState={"enum": ["INITIALIZING", "READY", "TERMINATING", "TERMINATED"]},
    ),
    "Entities": _listed(_object("@type statementText", **{"@type": _TEXT, "statementText": _TEXT})),
    "Statuses": _object("commandStatuses", commandStatuses=_mapping(_TEXT)),
    "Status": _object(
        "status message", status=_TEXT, message=_TEXT, queryId={"type": ["string", "null"]}
    ),
    "Progress": _object(
        "stages",
        stages=_listed(_object("name done total", name=_TEXT, done=_WHOLE, total=_WHOLE)),
    ),
    "Truth": _TRUTH,
    "Cluster": _object(
        "clusterStatus", clusterStatus=_mapping(_object("hostAlive", hostAlive=_TRUTH))
    ),
    "Metadata": _object("version clusterId", version=_TEXT, clusterId=_IDS),
    "Ids": _IDS,
    "Taken": _object("ok", ok=_TRUTH),
    "Nothing": _object(),
    **_OF_REGISTRY,
}
"""The media types of endpoints that return one JSON value."""
SCHEMAS: dict[str, Any] = {
    **ANSWERS,
    "KsqlRequest": _object(
        "ksql",
        ksql=_SQL,
        streamsProperties=_SETTINGS,
        sessionVariables=_SETTINGS,
        requestProperties=_ANY,
        commandSequenceNumber=_WHOLE,
        parameters=_PARAMETERS,
    ),
    "QueryStreamArgs": _object(
        "sql",
        sql=_SQL,
        properties=_SETTINGS,
        sessionVariables=_SETTINGS,
        requestProperties=_ANY,
        parameters=_PARAMETERS,
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
    "RegistryError": _object("error_code message", error_code=_WHOLE, message=_TEXT),
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


_PLAIN = ("405", "406")
"""Refusals that are plain text."""


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
        kinds: tuple[str, ...] = (KSQL, "application/json")
        if endpoint.body == "InsertsStream":
            kinds = (DELIMITED,)
        if endpoint.error == "RegistryError":
            kinds = endpoint.gives
        reference = {"$ref": f"#/components/schemas/{endpoint.body}"}
        made["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": reference} for kind in kinds},
        }
    return made


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    # What the guard refuses is the same for all.
    kinds = {KSQL: "Error"}
    if endpoint.error != "Error":
        kinds[endpoint.gives[0]] = endpoint.error
    error = {
        "content": {
            kind: {"schema": {"$ref": f"#/components/schemas/{name}"}}
            for kind, name in kinds.items()
        }
    }
    reference = {"$ref": f"#/components/schemas/{endpoint.answer}"}
    answer = {"schema": reference} if endpoint.answer else {}
    found: dict[str, Any] = {
        "200": {"description": "Done", "content": dict.fromkeys(endpoint.gives, answer)}
    }
    if endpoint.path == "/":
        found["307"] = {"description": "To /info, for clients other than browsers"}
    for code, meaning in (
        ("400", "The request or its statement is wrong"),
        ("401", "Nobody knows who asks"),
        ("403", "They may not"),
        ("404", "There is none"),
        ("409", "A schema is not compatible with others of its subject"),
        ("405", "Not by this method"),
        ("406", "None of the accepted types is offered"),
        ("413", "The body is too large"),
        ("417", "An ASSERT does not hold"),
        ("422", "A schema, a version or a level is none"),
        ("428", "There is no schema registry"),
        ("429", "Too much at once"),
        ("503", "Not now"),
    ):
        found[code] = {"description": meaning, **({} if code in _PLAIN else error)}
    return found
