"""Columns of a stream, a table or any relation between two operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from millstream.model.types import SqlType


class Role(Enum):
    """The part of the record that holds a column."""

    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"


@dataclass(frozen=True, slots=True)
class Column:
    """A named, typed column. `header` is the key of a HEADER('k') column."""

    name: str
    type: SqlType
    role: Role = Role.VALUE
    header: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns in order: key columns first, then value and header columns as declared."""

    columns: tuple[Column, ...]

    @staticmethod
    def of(columns: Iterable[Column]) -> Schema:
        """A schema with the key columns moved to the front, the order kept otherwise."""
        listed = tuple(columns)
        keys = tuple(column for column in listed if column.role is Role.KEY)
        return Schema(keys + tuple(column for column in listed if column.role is not Role.KEY))

    @property
    def key(self) -> tuple[Column, ...]:
        """The key columns."""
        return tuple(column for column in self.columns if column.role is Role.KEY)

    @property
    def value(self) -> tuple[Column, ...]:
        """The value columns, without header columns."""
        return tuple(column for column in self.columns if column.role is Role.VALUE)

    @property
    def headers(self) -> tuple[Column, ...]:
        """The header columns."""
        return tuple(column for column in self.columns if column.role is Role.HEADERS)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """The column of exactly this name, if there is one."""
        return next((column for column in self.columns if column.name == name), None)

    def __str__(self) -> str:
        marks = {Role.KEY: " KEY", Role.VALUE: "", Role.HEADERS: " HEADERS"}

        def show(column: Column) -> str:
            mark = f" HEADER('{column.header}')" if column.header else marks[column.role]
            return f"`{column.name.replace('`', '``')}` {column.type}{mark}"

        return ", ".join(map(show, self.columns))


class WindowKind(Enum):
    """How rows are cut into windows of event time."""

    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"
    SLIDING = "SLIDING"
    """Millstream's own: ksqlDB has none. In keys they are like HOPPING."""


@dataclass(frozen=True, slots=True)
class WindowedKey:
    """The window in a source's key bytes: kind, and size in ms (None for sessions)."""

    kind: WindowKind
    size_ms: int | None = None


class SourceKind(Enum):
    """Whether rows are independent facts (STREAM) or the latest value per key (TABLE)."""

    STREAM = "STREAM"
    TABLE = "TABLE"
