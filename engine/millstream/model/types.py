"""The SQL types of the dialect as immutable values (reference: types and formats, section 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Primitive(Enum):
    """A type without parameters. `value` is its name in schemas and messages."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BYTES = "BYTES"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    NULL = "NULL"
    """The type of the untyped literal NULL; it is compatible with every type."""
    INTERVAL_UNIT = "INTERVALUNIT"
    """The type of a bare DAYS, HOURS, … argument; it exists only in function signatures."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number of `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class Array:
    """A list of elements of one type; elements may be NULL."""

    element: SqlType

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """Keys to values, each of one type."""

    key: SqlType
    value: SqlType

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    """One named member of a STRUCT. The name has the case it was declared with."""

    name: str
    type: SqlType

    def __str__(self) -> str:
        return f"`{self.name.replace('`', '``')}` {self.type}"


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields in a significant order; it may be empty."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(map(str, self.fields))}>"

    def field(self, name: str) -> Field | None:
        """The field of exactly this name, if there is one."""
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, slots=True)
class Lambda:
    """The type of a lambda argument: from the types of its parameters to that of its body."""

    parameters: tuple[SqlType, ...]
    result: SqlType

    def __str__(self) -> str:
        return f"LAMBDA ({', '.join(map(str, self.parameters))}) => {self.result}"


SqlType = Primitive | Decimal | Array | Map | Struct | Lambda

BOOLEAN = Primitive.BOOLEAN
INTEGER = Primitive.INTEGER
BIGINT = Primitive.BIGINT
DOUBLE = Primitive.DOUBLE
STRING = Primitive.STRING
BYTES = Primitive.BYTES
DATE = Primitive.DATE
TIME = Primitive.TIME
TIMESTAMP = Primitive.TIMESTAMP
NULL = Primitive.NULL
INTERVAL_UNIT = Primitive.INTERVAL_UNIT

HEADERS = Array(Struct((Field("KEY", STRING), Field("VALUE", BYTES))))
"""The only type a HEADERS column may have."""


def is_numeric(sql_type: SqlType) -> bool:
    """Whether arithmetic applies to the type."""
    return isinstance(sql_type, Decimal) or sql_type in (INTEGER, BIGINT, DOUBLE)


def contains_map(sql_type: SqlType) -> bool:
    """Whether a MAP occurs anywhere inside the type (no format supports one in a key)."""
    return any(isinstance(part, Map) for part in _parts(sql_type))


def contains_null(sql_type: SqlType) -> bool:
    """Whether the type is, or is made of, that of a NULL without CAST, which no column can have."""
    return any(part is NULL for part in _parts(sql_type))


def _parts(sql_type: SqlType) -> Iterator[SqlType]:
    """The type and all types inside it."""
    yield sql_type
    match sql_type:
        case Array(element):
            yield from _parts(element)
        case Map(key, value):
            yield from _parts(key)
            yield from _parts(value)
        case Struct(fields):
            for field in fields:
                yield from _parts(field.type)
