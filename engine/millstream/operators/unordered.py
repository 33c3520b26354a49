"""Values that contain maps, for comparing."""

from __future__ import annotations

from millstream.model.physical import physical_names
from millstream.model.types import Array, Map, SqlType, Struct, contains_map
from millstream.operators.sql import call, literal, struct


def unordered(text: str, kind: SqlType, depth: int) -> str:
    """A value in a form that DuckDB compares as the dialect does: maps have no order."""
    if not contains_map(kind):
        return text
    item = f"_m{depth}"
    match kind:
        case Array(element):
            inner = unordered(item, element, depth + 1)
            return call("list_transform", text, f"lambda {item}: {inner}")
        case Map(_, value):
            entries = call("map_entries", text)
            if contains_map(value):
                entry = struct(
                    [
                        ("key", f"{item}.key"),
                        ("value", unordered(f"{item}.value", value, depth + 1)),
                    ]
                )
                entries = call("list_transform", entries, f"lambda {item}: {entry}")
            return call("list_sort", entries)
        case Struct(fields):
            names = physical_names(member.name for member in fields)
            members = [
                (name, unordered(call("struct_extract", text, literal(name)), f.type, depth))
                for name, f in zip(names, fields, strict=True)
            ]
            return f"CASE WHEN {text} IS NOT NULL THEN {struct(members)} END"
    return text
