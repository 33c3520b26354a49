"""Schemas of the cases, and test records in the formats that have them in a registry: written and
read by published libraries, not by the engine's own formats."""

from __future__ import annotations

import base64
import io
import itertools
import json
import struct
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import fastavro

from millstream.catalog.catalog import Catalog
from millstream.catalog.formats import DEFAULT_KEY, INFERRING
from millstream.catalog.properties import Form, read_properties
from millstream.catalog.source import Format
from millstream.ddl.registrations import of_sides
from millstream.model.errors import MillstreamError
from millstream.model.schema_text import Reference, Registered, SchemaText
from millstream.plan import define
from millstream.schemas.compatibility import Level, normal
from millstream.schemas.embedded import EmbeddedRegistry
from millstream.service.engine import Engine
from millstream_parser import statements as s
from tests.conformance.cases import Case
from tests.conformance.messages import messages_of, shown, written
from tests.conformance.wire import json_text

_FIRST_REFERENCE = 1_000_000
_IDS_OF_REFERENCES = itertools.count(_FIRST_REFERENCE)
_REGISTERED = ("AVRO", "PROTOBUF", "JSON_SR")
_KINDS = {"AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON": "JSON", "JSON_SR": "JSON"}


def register_schemas(case: Case, statements: Iterable[s.Statement], engine: Engine) -> None:
    """Register what the suite's runner registers before the first statement: the schemas of
    statements with columns, then those of topics."""
    registry = registry_of(engine)
    topics = case.raw.get("topics", [])
    if any(form in str(case.raw) for form in _REGISTERED):
        # The registry of the suite's runner checks nothing.
        registry.set_level(Level.NONE)
    given = {
        f"{topic['name']}-{side}"
        for topic in topics
        for side in ("key", "value")
        if f"{side}_schema" in topic
    }
    session = {name: value for name, value in case.properties.items() if name.startswith("ksql.")}
    for topic in topics:
        _register_with_ids(topic, registry)
    for statement in statements:
        if isinstance(statement, s.CreateSource) and statement.elements:
            for subject, schema in _declared(statement, session):
                if subject not in given:
                    _register(subject, schema, registry)
    for topic in topics:
        for side in ("key", "value"):
            if f"{side}_schema" in topic and f"{side}_schema_id" not in topic:
                _register(f"{topic['name']}-{side}", _schema(topic, side, registry), registry)


def _register(subject: str, schema: SchemaText, registry: EmbeddedRegistry) -> None:
    """Register a schema under the next id that is none of a reference."""
    known = [each for name in registry.subjects() for each in registry.versions(name)]
    found = next((each.id for each in known if each.schema == normal(schema)), None)
    ids = [each.id for each in known if each.id < _FIRST_REFERENCE]
    registry.register(subject, schema, found or max(ids, default=0) + 1)


def registry_of(engine: Engine) -> EmbeddedRegistry:
    """The registry within an engine."""
    assert engine.schemas is not None
    return engine.schemas


def _register_with_ids(topic: dict[str, Any], registry: EmbeddedRegistry) -> None:
    for side in ("key", "value"):
        if f"{side}_schema" in topic and f"{side}_schema_id" in topic:
            schema = _schema(topic, side, registry)
            registry.register(f"{topic['name']}-{side}", schema, topic[f"{side}_schema_id"])


def _schema(topic: dict[str, Any], side: str, registry: EmbeddedRegistry) -> SchemaText:
    references = []
    for other in topic.get(f"{side}_schema_refs", []):
        kind = _KINDS[other.get("format", "AVRO")]
        schema = SchemaText(kind, _text(other["schema"]))
        # Their ids are none that a case names.
        made = registry.register(other["name"], schema, next(_IDS_OF_REFERENCES))
        references.append(Reference(other["name"], made.subject, made.version))
    kind = _KINDS[topic.get(f"{side}_format", "AVRO")]
    return SchemaText(kind, _text(topic[f"{side}_schema"]), tuple(references))


def _text(given: Any) -> str:
    return given if isinstance(given, str) and not given.isalpha() else json.dumps(given)


def _declared(statement: s.CreateSource, session: dict[str, str]) -> list[tuple[str, SchemaText]]:
    """The schemas of the columns of a statement; none if it is refused."""
    try:
        properties = read_properties(statement.properties, Form.CREATE)
        names = {properties.key_format or DEFAULT_KEY, properties.value_format or ""}
        if not names & INFERRING:
            return []
        source = define.create_source(statement, Catalog(), session)
        return [(each.subject, each.schema) for each in of_sides(source)]
    except MillstreamError:
        return []


def encode(value: Any, form: Format, subject: str, registry: EmbeddedRegistry) -> bytes:
    """A key or value of a case as what a producer would have written with the newest schema."""
    registered = registry.latest(subject)
    assert registered is not None, f"no schema of {subject}"
    prefix = struct.pack(">bI", 0, registered.id)
    match form.name:
        case "AVRO":
            return prefix + _avro(value, registered)
        case "JSON_SR":
            return prefix + json_text(value).encode()
        case "PROTOBUF":
            known = messages_of(registered.schema.text, _imports(registered.schema, registry))
            chosen = form.properties.get("fullSchemaName")
            names = [each.full_name for each in known]
            number = names.index(chosen) if chosen in names else 0
            path = bytes([2, 2 * number]) if number else b"\0"
            return prefix + path + written(value, known[number])
    raise NotImplementedError(f"format {form.name}")


def decode(data: bytes, name: str, registry: EmbeddedRegistry) -> Any:
    """What the engine wrote, by the schema that it says."""
    zero, schema_id = struct.unpack(">bI", data[:5])
    assert zero == 0
    schema = registry.by_id(schema_id)
    match name:
        case "AVRO":
            parsed = fastavro.parse_schema(_plain(json.loads(schema.text)))
            read = fastavro.schemaless_reader(io.BytesIO(data[5:]), parsed, None)
            return _shown(read, json.loads(schema.text))
        case "JSON_SR":
            return json.loads(data[5:], parse_float=Decimal)
        case "PROTOBUF":
            known = messages_of(schema.text, _imports(schema, registry))
            if data[5] == 0:
                return shown(data[6:], known[0])
            assert data[5] == 2, "a message within another one"
            return shown(data[7:], known[data[6] // 2])
    raise NotImplementedError(f"format {name}")


def _imports(schema: SchemaText, registry: EmbeddedRegistry) -> tuple[tuple[str, str], ...]:
    return tuple(registry.imported(schema).items())


def _avro(value: Any, registered: Registered) -> bytes:
    schema = json.loads(registered.schema.text)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(_plain(schema)), _datum(value, schema))
    return out.getvalue()


def _plain(schema: Any) -> Any:
    """A schema without its logical types of time: the cases have their numbers."""
    match schema:
        case list():
            return [_plain(branch) for branch in schema]
        case dict():
            kept = {name: _plain(each) for name, each in schema.items() if name != "default"}
            if kept.get("logicalType") != "decimal":
                kept.pop("logicalType", None)
            return kept
    return schema


def _datum(value: Any, schema: Any) -> Any:
    """A value of a case as one of a schema: fields by their names in any case, texts of scalars."""
    if isinstance(schema, list):
        if value is None:
            return None
        return _datum(value, next(branch for branch in schema if branch != "null"))
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return _datum(value, kind)
    match kind:
        case "record":
            folded = {name.upper(): each for name, each in (value or {}).items()}
            return {
                field["name"]: _datum(folded.get(field["name"].upper()), field["type"])
                for field in schema["fields"]
            }
        case "array" if isinstance(value, dict):
            return [_datum({"key": k, "value": v}, schema["items"]) for k, v in value.items()]
        case "array":
            return [_datum(each, schema["items"]) for each in value]
        case "map":
            return {name: _datum(each, schema["values"]) for name, each in value.items()}
        case "bytes" | "fixed" if isinstance(schema, dict) and "logicalType" in schema:
            return Decimal(value)
        case "bytes" | "fixed":
            return value if value is None else base64.b64decode(value)
        case "int" | "long":
            return value if value is None else int(value)
        case "string" | "enum":
            return value if value is None or isinstance(value, str) else str(value)
        case "float" | "double":
            return value if value is None else float(value)
    return value


def _shown(value: Any, schema: Any) -> Any:
    """A value as the cases have it."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return value if value is None or len(others) > 1 else _shown(value, others[0])
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return _shown(value, kind)
    match kind:
        case "record":
            return {f["name"]: _shown(value[f["name"]], f["type"]) for f in schema["fields"]}
        case "array":
            items = [_shown(each, schema["items"]) for each in value]
            entries = isinstance(schema["items"], dict) and (
                schema["items"].get("connect.internal.type") == "MapEntry"
            )
            return {each["key"]: each["value"] for each in items} if entries else items
        case "map":
            return {name: _shown(each, schema["values"]) for name, each in value.items()}
        case "bytes":
            return None if value == b"" else value
    return value
