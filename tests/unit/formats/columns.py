"""A column of each type."""

from __future__ import annotations

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
    Struct,
)

COLUMNS = (
    ("B", BOOLEAN),
    ("I", INTEGER),
    ("L", BIGINT),
    ("D", DOUBLE),
    ("N", Decimal(6, 2)),
    ("S", STRING),
    ("Y", BYTES),
    ("DAY", DATE),
    ("T", TIME),
    ("AT_", TIMESTAMP),
    ("A", Array(STRING)),
    ("M", Map(STRING, INTEGER)),
    ("R", Struct((Field("X", INTEGER), Field("IN", Struct((Field("Z", Array(DOUBLE)),)))))),
)
