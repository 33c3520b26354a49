"""What a differential case is: sources, records, queries. Nothing of the engine is known here.

Types are named as in SQL. Values are held as they are written in JSON: DATE in days, TIME and
TIMESTAMP in milliseconds, DECIMAL as `Decimal`, structs as dicts by field, maps as dicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_CAST = re.compile(r"CAST\(\{0\} AS .*\)")
_ITEMS = re.compile(r"ARRAY\[|MAP\(|STRUCT\(")
_CALL = re.compile(r"(?!CAST\b|MAP\b|STRUCT\b|CASE\b)[A-Z_0-9]+\(.*\)")
_CALLED = re.compile(r"[A-Z_0-9]+\([A-Z_]+\([^()]*\)[,)]")
"""Spellings by what of them is NULL where it fails, as `ksql.nested.error.set.null` says."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source or of a result."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Expr:
    """A typed expression and its two spellings, `{0}`, `{1}` … being the arguments.

    `column`: a reference; the spellings are not used then. `fails`: it may have no value for a
    row, which the oracle's spelling shows by raising.
    """

    type: str
    sql: str = ""
    oracle: str = ""
    arguments: tuple[Expr, ...] = ()
    column: str | None = None

    def columns(self) -> Iterator[str]:
        """The columns that are referred to."""
        if self.column is not None:
            yield self.column
        for argument in self.arguments:
            yield from argument.columns()

    def text(self, names: Mapping[str, str] | None = None) -> str:
        """In the dialect. `names` spells columns (by default as they are called)."""
        if self.column is not None:
            return (names or {}).get(self.column, self.column)
        return self.sql.format(*(argument.text(names) for argument in self.arguments))

    def plain(self, names: Mapping[str, str] | None = None) -> str:
        """In DuckDB's SQL."""
        if self.column is not None:
            return (names or {}).get(self.column, f'"{self.column}"')
        made = self.oracle.format(*(self._given(argument, names) for argument in self.arguments))
        return f"TRY({made})" if _CAST.fullmatch(self.sql) else made

    @property
    def is_call(self) -> bool:
        """Whether it is a call of a function, or a field."""
        return self.sql.endswith("->A") or bool(_CALL.fullmatch(self.sql))

    def _given(self, argument: Expr, names: Mapping[str, str] | None) -> str:
        """An argument, NULL where it fails by itself: an item, and a call within a call."""
        text = argument.plain(names)
        within = _CALL.fullmatch(self.sql) and (argument.is_call or _CALLED.match(self.sql))
        return f"TRY({text})" if within or _ITEMS.match(self.sql) else text


@dataclass(frozen=True, slots=True)
class Item:
    """A result column."""

    name: str
    expression: Expr

    @property
    def column(self) -> Column:
        """Its name and type."""
        return Column(self.name, self.expression.type)


@dataclass(frozen=True, slots=True)
class Source:
    """A declared stream or table, or the sink of a query."""

    name: str
    kind: str
    keys: tuple[Column, ...]
    values: tuple[Column, ...]
    partitions: int = 1
    key_format: str = "JSON"
    value_format: str = "JSON"

    @property
    def columns(self) -> tuple[Column, ...]:
        """Keys first."""
        return (*self.keys, *self.values)

    @property
    def topic(self) -> str:
        """Where its records lie."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Record:
    """One input record. `key` is None without a key, `value` for a deletion."""

    source: int
    key: tuple[Any, ...] | None
    value: tuple[Any, ...] | None
    time: int
    chunk: int
    """Records of a chunk are appended together; the queries become idle before the next."""


@dataclass(frozen=True, slots=True)
class Window:
    """Sizes in milliseconds; `grace` None where the statement gives none."""

    kind: str
    size: int
    advance: int
    grace: int | None


@dataclass(frozen=True, slots=True)
class Project:
    """SELECT … FROM a stream or table; `rekeyed`: PARTITION BY the key items."""

    source: str
    keys: tuple[Item, ...]
    values: tuple[Item, ...]
    where: Expr | None = None
    rekeyed: bool = False
    exploded: tuple[Item, ...] = ()
    """Columns made by EXPLODE from arrays."""


@dataclass(frozen=True, slots=True)
class Aggregated:
    """One aggregate of a grouping: `sql` with `{0}` for the argument; `oracle` takes the list of
    the arguments of the group in order of arrival."""

    name: str
    type: str
    argument: Expr
    sql: str
    oracle: str

    def text(self, names: Mapping[str, str] | None = None) -> str:
        """In the dialect."""
        return self.sql.format(self.argument.text(names))


@dataclass(frozen=True, slots=True)
class Group:
    """GROUP BY over a stream or a table. `values` are expressions over aggregates and keys."""

    source: str
    keys: tuple[Item, ...]
    aggregates: tuple[Aggregated, ...]
    values: tuple[Item, ...]
    where: Expr | None = None
    having: Expr | None = None
    window: Window | None = None
    final: bool = False
    limited: bool = False
    """Under the limits on collected elements."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join: a source under an alias, and what it is joined by."""

    source: str
    alias: str
    on: Expr


@dataclass(frozen=True, slots=True)
class Join:
    """`kind`: stream_table, stream_stream, table_table or foreign_key. `how`: INNER, LEFT, RIGHT
    or FULL. Columns of items are called `ALIAS.NAME`; `key` is the result's key column."""

    kind: str
    how: str
    sides: tuple[Side, ...]
    key: Column
    key_text: str
    values: tuple[Item, ...]
    where: Expr | None = None
    before: int = 0
    after: int = 0
    grace: int | None = None


Query = Project | Group | Join


@dataclass(frozen=True, slots=True)
class Statement:
    """A persistent query with its sink."""

    sink: Source
    query: Query


@dataclass(frozen=True, slots=True)
class Running:
    """How the engine is driven."""

    max_batch: int
    commit_interval: int
    cached: bool = False
    restarts: tuple[tuple[int, str], ...] = ()
    """After how many steps of which kind of ending: close, kill or wipe."""


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that a seed decides."""

    seed: int
    kind: str
    sources: tuple[Source, ...]
    statements: tuple[Statement, ...]
    records: tuple[Record, ...]
    running: Running = field(default_factory=lambda: Running(200_000, 0))

    def source(self, name: str) -> Source:
        """A declared source or a sink by name."""
        known = (*self.sources, *(statement.sink for statement in self.statements))
        return next(source for source in known if source.name == name)


def moved(keys: Sequence[Item], given: Source) -> bool:
    """Whether rows of a source go to other partitions when it is keyed anew."""
    own = [column.name for column in given.keys]
    return [item.expression.column for item in keys] != own
