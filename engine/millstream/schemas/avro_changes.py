"""Whether records of one Avro schema are read by another one, by the check of Avro's library."""

from __future__ import annotations

import json
import warnings
from typing import Any

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.errors import AvroException, IgnoredLogicalType
from avro.name import Names
from avro.schema import Schema, make_avsc_object

from millstream.formats.registered_rows import ResolvedSchema
from millstream.formats.schema_error import SchemaError

# Logical types that nobody knows are the types below them, as Avro's specification says.
warnings.filterwarnings("ignore", category=IgnoredLogicalType)


def avro_changes(reader: ResolvedSchema, writer: ResolvedSchema) -> list[str]:
    """Why a reader cannot use what a writer writes; empty if it can. Raises SchemaError."""
    try:
        found = ReaderWriterCompatibilityChecker().get_compatibility(_of(reader), _of(writer))
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    except AvroException as error:
        raise SchemaError(f"Avro's library cannot compare the schemas: {error}") from error
    if found.compatibility is not SchemaCompatibilityType.incompatible:
        return []
    kinds = dict.fromkeys(each.value.replace("_", " ") for each in found.incompatibilities)
    given = _json(reader.text)
    where = dict.fromkeys(_place(each, given) for each in sorted(found.locations - {"/"}))
    at = f" at {', '.join(where)}" if where else ""
    return [f"{', '.join(kinds)}{at}: {', '.join(sorted(found.messages))}"]


def check_avro(schema: ResolvedSchema) -> None:
    """Raise SchemaError for a schema that Avro's library does not take: no later one could be
    compared with it."""
    _of(schema)


def _place(location: str, given: Any) -> str:
    """A location, which the library gives by numbers, by the names of fields."""
    names = []
    for part in location.strip("/").split("/"):
        if part.isdecimal() and isinstance(given, list) and int(part) < len(given):
            given = given[int(part)]
            if isinstance(given, dict) and "name" in given and "type" in given:
                names.append(str(given["name"]))
        else:
            given = given.get(part) if isinstance(given, dict) else None
    return ".".join(names) or location


def _of(schema: ResolvedSchema) -> Schema:
    names = Names()
    for _, text in schema.imported:
        _made(text, names)
    return _made(schema.text, names)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # A bare name, such as int, is what some registries return for "int".
        return text.strip()


def _made(text: str, names: Names) -> Schema:
    try:
        return make_avsc_object(_json(text), names)
    except (AvroException, RecursionError, TypeError, ValueError, AttributeError) as error:
        raise SchemaError(f"the schema is none of Avro: {error}") from error
