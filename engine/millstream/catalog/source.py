"""The catalog entry of one stream or table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.model.schema import Schema, SourceKind, WindowedKey


@dataclass(frozen=True, slots=True)
class Format:
    """A serialization format and its settings.

    `name` is one of `catalog/formats.py`;
    `wrap` is None where WRAP_SINGLE_VALUE was not given; other settings (`delimiter`, …) are in
    `properties`.
    """

    name: str
    wrap: bool | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimestampColumn:
    """Event time comes from this column; `format` is a Java pattern for STRING columns."""

    name: str
    format: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A stream or table: a schema over a topic."""

    name: str
    kind: SourceKind
    schema: Schema
    topic: str
    key_format: Format
    value_format: Format
    window: WindowedKey | None = None
    timestamp: TimestampColumn | None = None
    partition_column: str | None = None
    """The column whose number, modulo the number of partitions, is the partition of a record. None:
    the partition is that of the key."""
    read_only: bool = False
    """Made by CREATE SOURCE …."""
    statement: str = ""
    """The text of its statement, as DESCRIBE EXTENDED shows it."""
    store: str = ""
    """The store of which this is the table, if it is one of a processor of `query_id`."""
    query_id: str | None = None
    """The query that created it and writes into it (CREATE … AS SELECT)."""
    origins: tuple[str, ...] = ()
    """The sources that this query reads; they cannot be dropped before this one, even after the
    query has ended."""
