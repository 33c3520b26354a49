"""Avro's schemas as values (specification 1.12)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.formats.schema_error import SchemaError, Size

DEPTH_MAX = 100
"""The deepest nesting of a schema that is read."""
MAP_ENTRY = "MapEntry"
"""What marks records that are the entries of a map, in the property `ENTRY_OF`."""
ENTRY_OF = "connect.internal.type"
_PLAIN = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_LOGICAL = {
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "timestamp-millis"),
    ("bytes", "decimal"),
    ("fixed", "decimal"),
}
"""The logical types that are more than their plain one here, as in Kafka Connect."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A primitive type, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """So many bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Logical:
    """Another meaning of a type: `date`, `time-millis`, `timestamp-millis` or `decimal`, which has
    a precision and a scale."""

    of: Plain | Fixed
    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Enumeration:
    """One of some symbols."""

    name: str
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """An array."""

    item: AvroType


@dataclass(frozen=True, slots=True)
class Values:
    """A map; its keys are strings."""

    value: AvroType


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types."""

    branches: tuple[AvroType, ...]


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record. `default`: the JSON of its default, if `has_default`."""

    name: str
    type: AvroType
    has_default: bool = False
    default: Any = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class Record:
    """Fields in order. `is_entry`: it is the entry of a map, with the fields key and value."""

    name: str
    fields: tuple[AvroField, ...]
    is_entry: bool = False


@dataclass(frozen=True, slots=True)
class Recursion:
    """The record of this name, within itself."""

    name: str


AvroType = Plain | Fixed | Logical | Enumeration | Items | Values | Union | Record | Recursion


def parse_avro(text: str, imported: Mapping[str, str] | None = None) -> AvroType:
    """Read a schema. `imported`: the texts of others that it names. Raises SchemaError."""
    names: dict[str, AvroType | None] = {}
    try:
        for other in (imported or {}).values():
            _Reader(names).read(_json(other), "", 0)
        made = _Reader(names).read(_json(text), "", 0)
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    _measure(made, Size())
    return made


def _measure(schema: AvroType, size: Size) -> None:
    """Refuse a schema that is too large where each name stands for the whole of its type."""
    size.count()
    match schema:
        case Record(fields=fields):
            for each in fields:
                _measure(each.type, size)
        case Items(inner) | Values(inner):
            _measure(inner, size)
        case Union(branches):
            for branch in branches:
                _measure(branch, size)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # A bare name, such as int, is what some registries return for "int".
        if text.strip() in _PLAIN:
            return text.strip()
        raise SchemaError("the schema is not JSON") from None


class _Reader:
    """Reads types. `names`: those that have been defined; None for one that is being defined."""

    def __init__(self, names: dict[str, AvroType | None]) -> None:
        self._names = names

    def read(self, given: Any, space: str, depth: int) -> AvroType:
        """The type of a JSON value, within a namespace."""
        if depth > DEPTH_MAX:
            raise SchemaError(f"the schema is nested more than {DEPTH_MAX} levels deep")
        match given:
            case str():
                return self._named(given, space)
            case list():
                return self._union(given, space, depth)
            case dict():
                return self._object(given, space, depth)
        raise SchemaError(f"{json.dumps(given)[:100]} is no type")

    def _named(self, name: str, space: str) -> AvroType:
        if name in _PLAIN:
            return Plain(name)
        for full in (name,) if "." in name else (_full(name, space), name):
            if full in self._names:
                return self._names[full] or Recursion(full)
        raise SchemaError(f"there is no type {name}")

    def _union(self, given: list[Any], space: str, depth: int) -> AvroType:
        if any(isinstance(branch, list) for branch in given):
            raise SchemaError("a union is directly within a union")
        return Union(tuple(self.read(branch, space, depth + 1) for branch in given))

    def _object(self, given: dict[str, Any], space: str, depth: int) -> AvroType:
        kind = given.get("type")
        match kind:
            case "array":
                return Items(self.read(_part(given, "items"), space, depth + 1))
            case "map":
                return Values(self.read(_part(given, "values"), space, depth + 1))
            case "record" | "error":
                return self._record(given, space, depth)
            case "enum":
                name = self._define(given, space)
                symbols = _part(given, "symbols")
                if not all(isinstance(symbol, str) for symbol in symbols):
                    raise SchemaError(f"the symbols of {name} are no texts")
                return self._defined(name, Enumeration(name, tuple(symbols)))
            case "fixed":
                name, size = self._define(given, space), _part(given, "size")
                if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                    raise SchemaError(f"the size of {name} is no whole number")
                return self._defined(name, _logical(Fixed(name, size), given))
            case str() if kind in _PLAIN:
                return _logical(Plain(kind), given)
        if kind is None:
            raise SchemaError("an object of the schema has no type")
        return self.read(kind, space, depth + 1)

    def _record(self, given: dict[str, Any], space: str, depth: int) -> AvroType:
        name = self._define(given, space)
        own = name.rpartition(".")[0]
        fields = []
        for each in _part(given, "fields"):
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                raise SchemaError(f"a field of {name} has no name")
            kind = self.read(_part(each, "type"), own, depth + 1)
            fields.append(AvroField(each["name"], kind, "default" in each, each.get("default")))
        names = [each.name for each in fields]
        twice = next((each for each in names if names.count(each) > 1), None)
        if twice is not None:
            raise SchemaError(f"{name} has the field {twice} twice")
        marked = given.get(ENTRY_OF) == MAP_ENTRY or name.rpartition(".")[2] == MAP_ENTRY
        is_entry = marked and sorted(names) == ["key", "value"]
        return self._defined(name, Record(name, tuple(fields), is_entry))

    def _define(self, given: dict[str, Any], space: str) -> str:
        name = given.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"a type of the kind {given['type']} has no name")
        own = given.get("namespace", space)
        full = _full(name, own if isinstance(own, str) else space)
        if full in self._names:
            raise SchemaError(f"{full} is defined twice")
        self._names[full] = None
        return full

    def _defined(self, name: str, made: AvroType) -> AvroType:
        self._names[name] = made
        return made


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _part(given: dict[str, Any], name: str) -> Any:
    if name not in given:
        raise SchemaError(f"a type of the kind {given.get('type')} has no {name}")
    return given[name]


def _logical(of: Plain | Fixed, given: dict[str, Any]) -> AvroType:
    """The type with its logical one; one that is unknown or wrong is ignored, as Avro says."""
    name = given.get("logicalType")
    base = of.name if isinstance(of, Plain) else "fixed"
    if not isinstance(name, str) or (base, name) not in _LOGICAL:
        return of
    if name != "decimal":
        return Logical(of, name)
    precision, scale = given.get("precision"), given.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return of
    if not 0 <= scale <= precision or precision < 1:
        return of
    return Logical(of, name, precision, scale)
