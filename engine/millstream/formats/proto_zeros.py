"""Values that Protobuf cannot tell from NULL, as SQL: what is read back of a table in this format.

ksqlDB keeps the rows of a table in the format of its topic, so its pull queries show zeros where
the query computed NULL, as every reader of the topic sees them.
"""

from __future__ import annotations

from collections.abc import Mapping

from millstream.catalog.formats import CAPABILITIES, NULLS
from millstream.catalog.source import Format
from millstream.model.physical import duckdb_type, physical_names
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INTEGER,
    STRING,
    Array,
    Map,
    SqlType,
    Struct,
)

_ZEROS: Mapping[SqlType, str] = {
    BOOLEAN: "false",
    INTEGER: "0",
    BIGINT: "0",
    DOUBLE: "0",
    STRING: "''",
    BYTES: "''::BLOB",
}


def has_zeros(form: Format) -> bool:
    """Whether NULL cannot be told from a zero in a format."""
    return CAPABILITIES[form.name].zeros and not form.properties.get(NULLS)


def with_zeros(value: str, kind: SqlType) -> str:
    """The SQL of a value, a zero in the place of each NULL that Protobuf cannot write."""
    match kind:
        case _ if kind in _ZEROS:
            return f"coalesce({value}, {_ZEROS[kind]})"
        case Array():
            return f"coalesce({value}, []::{duckdb_type(kind)})"
        case Map():
            return f"coalesce({value}, map()::{duckdb_type(kind)})"
        case Struct(fields) if fields:
            names = physical_names(field.name for field in fields)
            members = ", ".join(
                f"{_quoted(name)} := {with_zeros(f'({value}).{_quoted(name)}', field.type)}"
                for name, field in zip(names, fields, strict=True)
            )
            return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({members}) END"
        case _:
            return value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
