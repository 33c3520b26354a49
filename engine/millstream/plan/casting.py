"""The supported CASTs (reference: types and formats, section 3)."""

from __future__ import annotations

from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Map,
    SqlType,
    Struct,
    is_numeric,
)
from millstream.plan import wordings

_FROM_TEXT = (BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING, BYTES, DATE, TIME, TIMESTAMP)


def check_cast(source: SqlType, target: SqlType) -> None:
    """Raises StatementError where values of `source` cannot be cast to `target` at all."""
    if not castable(source, target):
        raise wordings.CAST_IMPOSSIBLE(source=source, target=target)


def castable(source: SqlType, target: SqlType) -> bool:
    """Whether a CAST from one type to the other exists, at any depth."""
    if source == target or source is NULL:
        return True
    if target == STRING:
        return source != BYTES
    match source, target:
        case Array(a), Array(b):
            return castable(a, b)
        case Map(k, v), Map(k2, v2):
            return castable(k, k2) and castable(v, v2)
        case Struct(fields), Struct():
            return all(
                (there := target.field(field.name)) is None or castable(field.type, there.type)
                for field in fields
            )
    if is_numeric(source):
        return is_numeric(target)
    if source == STRING:
        return target in _FROM_TEXT or is_numeric(target)
    pairs = ((DATE, TIMESTAMP), (TIMESTAMP, DATE), (TIMESTAMP, TIME))
    return (source, target) in pairs
