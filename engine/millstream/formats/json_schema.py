"""JSON Schema (draft 7) with the annotations of Kafka Connect, as types of SQL, and the schemas of
columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from millstream.formats.registered_rows import Columns, ResolvedSchema
from millstream.formats.schema_error import SchemaError, Size
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    SqlType,
    Struct,
)

DEPTH_MAX = 100
_CONNECT = "org.apache.kafka.connect.data."
_JSON = "io.confluent.connect.json."
_TITLED: dict[str, SqlType] = {
    f"{_CONNECT}Date": DATE,
    f"{_CONNECT}Time": TIME,
    f"{_CONNECT}Timestamp": TIMESTAMP,
}
_BY_CONNECT: dict[tuple[str, str], SqlType] = {
    ("integer", "int8"): INTEGER,
    ("integer", "int16"): INTEGER,
    ("integer", "int32"): INTEGER,
    ("string", "bytes"): BYTES,
}
"""What Connect's annotation makes of a type, where that is not the type's own."""
_PLAIN: dict[str, SqlType] = {
    "boolean": BOOLEAN,
    "integer": BIGINT,
    "number": DOUBLE,
    "string": STRING,
}
_WRITTEN: dict[SqlType, dict[str, Any]] = {
    BOOLEAN: {"type": "boolean"},
    INTEGER: {"type": "integer", "connect.type": "int32"},
    BIGINT: {"type": "integer", "connect.type": "int64"},
    DOUBLE: {"type": "number", "connect.type": "float64"},
    STRING: {"type": "string"},
    BYTES: {"type": "string", "connect.type": "bytes"},
    DATE: {
        "type": "integer",
        "title": f"{_CONNECT}Date",
        "connect.version": 1,
        "connect.type": "int32",
    },
    TIME: {
        "type": "integer",
        "title": f"{_CONNECT}Time",
        "connect.version": 1,
        "connect.type": "int32",
    },
    TIMESTAMP: {
        "type": "integer",
        "title": f"{_CONNECT}Timestamp",
        "connect.version": 1,
        "connect.type": "int64",
    },
}


ALTERNATIVE = f"{_JSON}OneOf.field."
"""How the members of a struct begin of which a value has one, as the JSON says."""
_ALTERNATIVES = re.compile(rf"({re.escape(ALTERNATIVE)}|connect_union_field_)\d+", re.IGNORECASE)


def is_choice(struct: Struct) -> bool:
    """Whether the members of a struct are alternatives."""
    names = [field.name for field in struct.fields]
    return bool(names) and all(map(_ALTERNATIVES.fullmatch, names))


@lru_cache(maxsize=1_000)
def json_type(schema: ResolvedSchema) -> SqlType | None:
    """The type of what a schema describes; None if no column can have it. Raises SchemaError."""
    documents = {name: _parsed(text) for name, text in schema.imported}
    root = _parsed(schema.text)
    return _Reader(root, documents, Size()).read(root, ("#",))


def json_text(columns: Columns, *, wrapped: bool) -> str:
    """The schema of columns: an object, or the type of the one column. Raises SchemaError for what
    has no place in it."""
    if wrapped:
        made = _object(columns)
    else:
        ((_, kind),) = columns
        made = _nullable(_of_type(kind))
    return json.dumps(made, separators=(",", ":"))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise SchemaError("the schema is not JSON") from None


class _Reader:
    """Reads types of a document; `imported`: others, by the names under which it refers to them."""

    def __init__(self, root: Any, imported: Mapping[str, Any], size: Size) -> None:
        self._root = root
        self._imported = imported
        self._size = size

    def read(self, given: Any, around: tuple[str, ...]) -> SqlType | None:
        """The type of a schema; `around`: the references that led here."""
        self._size.count()
        if not isinstance(given, dict) or len(around) > DEPTH_MAX:
            return None
        if isinstance(given.get("$ref"), str):
            return self._referenced(given["$ref"], around)
        for word in ("oneOf", "anyOf"):
            if isinstance(given.get(word), list):
                return self._alternatives(given[word], (*around, ""))
        if isinstance(given.get("allOf"), list) and len(given["allOf"]) == 1:
            return self.read(given["allOf"][0], (*around, ""))
        kind = given.get("type")
        if isinstance(kind, list):
            kinds = [{**given, "type": each} for each in kind]
            return self._alternatives(kinds, (*around, ""))
        return self._plain(given, kind, (*around, ""))

    def _alternatives(self, given: Sequence[Any], around: tuple[str, ...]) -> SqlType | None:
        """The one type besides null. Of several, a struct with a member for each, by the names of
        Kafka Connect."""
        others = [each for each in given if not _is_null(each)]
        if len(others) == 1:
            return self.read(others[0], around)
        kinds = [self.read(each, around) for each in others]
        found = [
            Field(f"{ALTERNATIVE}{number}", kind)
            for number, kind in enumerate(kinds)
            if kind is not None
        ]
        return Struct(tuple(found)) if found else None

    def _referenced(self, name: str, around: tuple[str, ...]) -> SqlType | None:
        if name in around:
            return None  # It is within itself.
        document, _, path = name.partition("#")
        root = self._imported.get(document) if document else self._root
        if root is None:
            raise SchemaError(f"the schema refers to {document}, which it does not import")
        found = root
        for part in path.split("/")[1:]:
            step = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or step not in found:
                raise SchemaError(f"the schema refers to {name}, which it does not have")
            found = found[step]
        reader = self if root is self._root else _Reader(root, self._imported, self._size)
        return reader.read(found, (*around, name))

    def _plain(self, given: dict[str, Any], kind: Any, around: tuple[str, ...]) -> SqlType | None:
        connect, title = given.get("connect.type"), given.get("title")
        if title == f"{_CONNECT}Decimal":
            return _decimal(given)
        if title in _TITLED:
            return _TITLED[title]
        if kind == "array":
            return self._array(given, connect, around)
        if kind == "object" or (kind is None and "properties" in given):
            return self._object(given, connect, around)
        if isinstance(kind, str) and isinstance(connect, str) and (kind, connect) in _BY_CONNECT:
            return _BY_CONNECT[kind, connect]
        if kind is None and isinstance(given.get("enum"), list):
            return STRING
        return _PLAIN.get(kind) if isinstance(kind, str) else None

    def _array(
        self, given: dict[str, Any], connect: Any, around: tuple[str, ...]
    ) -> SqlType | None:
        item = self.read(given.get("items"), around)
        if connect == "map" and isinstance(item, Struct):
            member = item.field("value")
            return None if member is None else Map(STRING, member.type)
        return None if item is None else Array(item)

    def _object(
        self, given: dict[str, Any], connect: Any, around: tuple[str, ...]
    ) -> SqlType | None:
        properties = given.get("properties")
        if connect == "map" or not isinstance(properties, dict):
            member = self.read(given.get("additionalProperties"), around)
            return None if member is None else Map(STRING, member)
        found = [(name, self.read(each, around)) for name, each in _in_order(properties)]
        fields = tuple(Field(name, kind) for name, kind in found if kind is not None)
        return Struct(fields) if fields else None


def _is_null(given: Any) -> bool:
    return isinstance(given, dict) and given.get("type") == "null"


def _in_order(properties: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The properties by the places that Connect has noted, then the others as they are written."""

    def place(item: tuple[int, tuple[str, Any]]) -> tuple[int, int]:
        number, (_, given) = item
        index = given.get("connect.index") if isinstance(given, dict) else None
        return (index if isinstance(index, int) else len(properties), number)

    yield from (item for _, item in sorted(enumerate(properties.items()), key=place))


def _decimal(given: Mapping[str, Any]) -> SqlType:
    parameters = given.get("connect.parameters")
    noted = parameters if isinstance(parameters, dict) else {}
    try:
        precision = int(noted.get("connect.decimal.precision", 64))
        return Decimal(precision, int(noted.get("scale", 0)))
    except (TypeError, ValueError):
        raise SchemaError("the parameters of a decimal are no numbers") from None


def _object(columns: Columns) -> dict[str, Any]:
    properties = {
        name: {"connect.index": place, **_nullable(_of_type(kind))}
        for place, (name, kind) in enumerate(columns)
    }
    return {"type": "object", "properties": properties}


def _nullable(given: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, given]}


def _of_type(kind: SqlType) -> dict[str, Any]:
    match kind:
        case Decimal(precision, scale):
            return {
                "type": "number",
                "title": f"{_CONNECT}Decimal",
                "connect.version": 1,
                "connect.type": "bytes",
                "connect.parameters": {
                    "scale": str(scale),
                    "connect.decimal.precision": str(precision),
                },
            }
        case Array(element):
            return {"type": "array", "items": _nullable(_of_type(element))}
        case Map(_, member):
            values = _nullable(_of_type(member))
            return {"type": "object", "connect.type": "map", "additionalProperties": values}
        case Struct(fields):
            return _object(tuple((field.name, field.type) for field in fields))
        case _ if kind in _WRITTEN:
            return _WRITTEN[kind]
    raise SchemaError(f"JSON Schema has no type for {kind}")
