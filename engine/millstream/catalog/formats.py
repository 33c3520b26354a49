"""The formats by name and their capabilities, in one table.

Checks of statements, completion and documentation read this table. The code that reads and writes
bytes also selects by name (`formats/codec.py`); tests keep the two consistent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.catalog.source import Format
from millstream.model.types import BIGINT, BYTES, DOUBLE, INTEGER, STRING, SqlType

NESTED_TYPES = frozenset(("ARRAY", "MAP", "STRUCT"))
ALL_TYPES = NESTED_TYPES.union(
    ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "BYTES"),
    ("DATE", "TIME", "TIMESTAMP"),
)
_BOTH = frozenset((True, False))
_DELIMITER = "delimiter"
SCHEMA_NAME, SCHEMA_ID, NULLS = "fullSchemaName", "schemaId", "nullableRepresentation"
"""Settings of formats with schemas: the name of the record or message, the id in the registry, and
how Protobuf represents NULL."""


@dataclass(frozen=True, slots=True)
class Capability:
    """The capabilities of a format.

    `registry`: its schemas are in a registry, and columns may be left out. `types` are names
    without parameters. `wraps` are the values that WRAP_SINGLE_VALUE may have. `clauses`: JOIN and
    GROUP BY work on its values. `maps`: keys of maps must be text. `zeros`: a NULL is read as zero,
    unless a setting says otherwise.
    """

    registry: bool = False
    types: frozenset[str] = ALL_TYPES
    wraps: frozenset[bool] = _BOTH
    settings: frozenset[str] = frozenset()
    keys: bool = True
    many_columns: bool = True
    clauses: bool = True
    zeros: bool = False
    maps: str = "{format} only supports MAP types with STRING keys"

    @property
    def nests(self) -> bool:
        """Whether a column may be an ARRAY, a MAP or a STRUCT."""
        return self.types >= NESTED_TYPES


CAPABILITIES: Mapping[str, Capability] = {
    "AVRO": Capability(
        registry=True,
        settings=frozenset((SCHEMA_NAME, SCHEMA_ID)),
        maps="Avro only supports MAPs with STRING keys",
    ),
    "DELIMITED": Capability(
        types=ALL_TYPES - NESTED_TYPES,
        wraps=frozenset((False,)),
        settings=frozenset((_DELIMITER,)),
    ),
    "JSON": Capability(),
    "JSON_SR": Capability(
        registry=True,
        settings=frozenset((SCHEMA_NAME, SCHEMA_ID)),
        maps="JSON only supports MAP types with STRING keys",
    ),
    "KAFKA": Capability(
        types=frozenset(str(kind) for kind in (INTEGER, BIGINT, DOUBLE, STRING, BYTES)),
        wraps=frozenset((False,)),
        many_columns=False,
        clauses=False,
    ),
    "MSGPACK": Capability(),
    "NONE": Capability(types=frozenset(), wraps=frozenset(), keys=False),
    "PROTOBUF": Capability(
        registry=True,
        wraps=frozenset((True,)),
        settings=frozenset((SCHEMA_NAME, SCHEMA_ID, NULLS)),
        zeros=True,
        maps="{format} format only supports MAP types with STRING keys",
    ),
    "PROTOBUF_NOSR": Capability(
        wraps=frozenset((True,)),
        settings=frozenset((NULLS,)),
        zeros=True,
        maps="{format} format only supports MAP types with STRING keys",
    ),
}
"""In display order."""
USABLE = tuple(CAPABILITIES)
INFERRING = frozenset(name for name, able in CAPABILITIES.items() if able.registry)
"""Formats whose schemas are in a registry: columns may be left out."""
DEFAULT_KEY = "KAFKA"
"""The format of keys where neither the statement nor a setting gives one."""
NO_COLUMNS = Format("NONE")
ONE_COLUMN, ANY_COLUMNS = Format("KAFKA"), Format("JSON")
ANY_VALUES = Format("MSGPACK")
"""Every value is exactly what it was, with any number of columns."""


def internal_format(types: tuple[SqlType, ...]) -> Format:
    """The format of keys that only the engine reads: any format that supports the columns."""
    able = CAPABILITIES[ONE_COLUMN.name]
    if len(types) == 1 and str(types[0]) in able.types:
        return ONE_COLUMN
    return ANY_COLUMNS
