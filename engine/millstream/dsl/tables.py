"""Tables as chains, and aggregations: GROUP BY, HAVING and EMIT FINAL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import pyarrow as pa
from sqlglot import exp

from millstream.dsl import fn
from millstream.dsl.declaring import declared
from millstream.dsl.expressions import Expr, Value, col, column, condition
from millstream.dsl.inlining import ALL
from millstream.dsl.joins import joined, name_of
from millstream.dsl.pulls import PullQuery
from millstream.dsl.python_functions import (
    ColumnOrFunction,
    Condition,
    ValueOrFunction,
    condition_of,
)
from millstream.dsl.queries import (
    ContinuousQuery,
    columns_of,
    conjunction,
    done,
    filtered,
    items_of,
    negated,
    selected,
    with_keys,
)
from millstream.dsl.statements import Connection, SinkOptions, source_of
from millstream.functions.user import reducer
from millstream.model.names import STAR, folded, split_name
from millstream.model.schema import SourceKind
from millstream.query.results import Done
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KTable(ContinuousQuery):
    """A table and what a chain makes of it: the latest row of each key. Each method returns a new
    chain; nothing runs before `to`, `subscribe` or a method that fetches rows."""

    keys: tuple[str, ...] | None = ()
    """The key columns of the result; None if their names are unknown."""
    kind = "TABLE"

    def alias(self, name: str) -> KTable:
        """The same with another name for its columns, as `FROM table alias`."""
        return replace(self, query=aliased(self.query, name))

    def __getitem__(self, name: str) -> Expr:
        """A column of this source, for a join: `customers["id"]`."""
        return column_of(self.query, name)

    def filter(self, condition_: Condition) -> KTable:
        """Only rows for which a condition is true; others are deleted from the result."""
        tree = condition_of(self.connection, condition_, "filter")
        return replace(self, query=filtered(self.connection, self.query, tree))

    def filter_not(self, condition_: Condition) -> KTable:
        """Only rows for which NOT of a condition is true: none for which it is NULL."""
        tree = negated(self.connection, condition_, "filter_not")
        return replace(self, query=filtered(self.connection, self.query, tree))

    def select(self, *columns: ColumnOrFunction, **named: ValueOrFunction) -> KTable:
        """These columns: names, expressions, or values that are given a name. The key must be among
        them."""
        return self._select(items_of(self.connection, columns, named, "select"))

    def map_values(self, *columns: ColumnOrFunction, **named: ValueOrFunction) -> KTable:
        """The key, and these columns."""
        items = items_of(self.connection, columns, named, "map_values")
        return self._select(with_keys(self.keys, items))

    def _select(self, items: tuple[s.SelectItem, ...]) -> KTable:
        inlined = selected(self.connection, self.query).items_of(items)
        query = replace(self.query, items=inlined)
        return replace(self, query=query, keys=columns_of(self.keys, items))

    def group_by(self, *columns: ColumnOrFunction, **named: ValueOrFunction) -> KGroupedTable:
        """Its rows by groups: by columns, or by values that are given a name."""
        query, by = grouped(self.connection, self.query, columns, named)
        return KGroupedTable(self.connection, query, by)

    def join(self, other: KTable, *, on: Expr) -> KTable:
        """The pairs of rows that match: by their keys, or by a column of this table and the key of
        the other one (a foreign key)."""
        return self._join("INNER", other, on)

    def left_join(self, other: KTable, *, on: Expr) -> KTable:
        """As `join`, and the rows of this table that match none."""
        return self._join("LEFT", other, on)

    def outer_join(self, other: KTable, *, on: Expr) -> KTable:
        """As `join`, and the rows of both tables that match none."""
        return self._join("FULL", other, on)

    def _join(self, kind: str, other: KTable, on: Expr) -> KTable:
        if not isinstance(other, KTable):
            raise TypeError(
                f"A table is joined with a table, not with {_shown(other)}; a stream is joined with"
                " a table by stream.join(table, …)"
            )
        return replace(self, query=joined(kind, self.query, other.query, on), keys=None)

    def through(self, name: str, **options: Unpack[SinkOptions]) -> KTable:
        """As `to`, and return the new table."""
        self.to(name, **options)
        return table(self.connection, name)

    def to_stream(self, name: str) -> Done:
        """CREATE STREAM name over the topic of this table, whose records are its changes, without
        columns of headers; read it as `db.stream(name)`. Raises StatementError behind other
        steps."""
        source = self.connection.catalog.source(self.query.source.name)
        statement = declared(source, self.query, SourceKind.STREAM, name)
        return done(self.connection.execute(statement))

    def pull(self) -> PullQuery:
        """A pull query of this chain: the rows that there are now."""
        return PullQuery(self.connection, self.query)

    def where(self, condition_: Condition) -> PullQuery:
        """A pull query of the rows for which a condition is true."""
        return self.pull().where(condition_)

    def arrow(self) -> pa.Table:
        """The current rows as an Arrow table."""
        return self.pull().arrow()

    def df(self) -> Any:
        """The current rows as a pandas DataFrame (needs pandas)."""
        return self.pull().df()

    def pl(self) -> Any:
        """The current rows as a polars DataFrame (needs polars)."""
        return self.pull().pl()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The current rows as tuples."""
        return self.pull().fetchall()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KGroupedTable:
    """The rows of a table by groups; its aggregations follow each change of a row."""

    connection: Connection
    query: s.Query
    """With GROUP BY, and still with the items that aggregates refer to."""
    by: tuple[s.SelectItem, ...]
    """The columns of the group in the result."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.query.source.name}>"

    def count(self, column: Expr | str | None = None, *, name: str = "count") -> AggregatedKTable:
        """COUNT(*), or of the values of a column that are not NULL."""
        counted = fn.count() if column is None else fn.count(_column(column))
        return self.aggregate(counted.alias(name))

    def sum(self, column: Expr | str, *, name: str = "sum") -> AggregatedKTable:
        """The sum of a column."""
        return self.aggregate(fn.sum(_column(column)).alias(name))

    def min(self, column: Expr | str, *, name: str = "min") -> AggregatedKTable:
        """The least value of a column."""
        return self.aggregate(fn.min(_column(column)).alias(name))

    def max(self, column: Expr | str, *, name: str = "max") -> AggregatedKTable:
        """The greatest value of a column."""
        return self.aggregate(fn.max(_column(column)).alias(name))

    def avg(self, column: Expr | str, *, name: str = "avg") -> AggregatedKTable:
        """The mean of a column."""
        return self.aggregate(fn.avg(_column(column)).alias(name))

    def reduce(
        self, function: Callable[..., Any], column: Expr | str, *, name: str = "reduced"
    ) -> AggregatedKTable:
        """The values of a column combined by a function in Python, two at a time: `def
        longer(left: str, right: str) -> str`. It is registered under its name; a file is opened
        again with `functions=[millstream.reducer(longer)]`. NULLs are left out. For streams, as no
        change of a table could be taken back."""
        made = reducer(function)
        self.connection.register(made)
        return self.aggregate(fn.call(made.name, _column(column)).alias(name))

    def aggregate(
        self, *columns: Expr | str | Mapping[str, Value], **named: Value
    ) -> AggregatedKTable:
        """Columns with aggregates, behind those of the group: expressions, or names with
        expressions, as a dict or as arguments."""
        listed = [column for column in columns if not isinstance(column, Mapping)]
        names: dict[str, Value] = {}
        for mapping in (*(c for c in columns if isinstance(c, Mapping)), named):
            names |= mapping
        items = items_of(self.connection, listed, names, "aggregate")
        before = selected(self.connection, self.query)
        query = replace(self.query, items=(*self.by, *before.items_of(items)))
        return AggregatedKTable(self.connection, query)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AggregatedKTable(ContinuousQuery):
    """An aggregation: a table with a row for each group, or for each group of a window."""

    kind = "TABLE"

    def filter(self, condition_: Condition) -> AggregatedKTable:
        """Only groups for which a condition on the columns of the result is true (HAVING)."""
        return self._having(condition_of(self.connection, condition_, "filter"))

    def filter_not(self, condition_: Condition) -> AggregatedKTable:
        """Only groups for which NOT of a condition is true."""
        return self._having(negated(self.connection, condition_, "filter_not"))

    def having(self, condition_: Expr | bool) -> AggregatedKTable:
        """HAVING as SQL has it: a condition on the columns of the source and on aggregates."""
        having = conjunction(self.query.having, condition(condition_, "having"))
        return replace(self, query=replace(self.query, having=having))

    def suppress(self) -> AggregatedKTable:
        """EMIT FINAL: only the last result of each window, once it is closed."""
        return replace(self, query=replace(self.query, emit="FINAL"))

    def through(self, name: str, **options: Unpack[SinkOptions]) -> KTable:
        """As `to`, and return the new table."""
        self.to(name, **options)
        return table(self.connection, name)

    def _having(self, tree: exp.Expression) -> AggregatedKTable:
        tree = selected(self.connection, self.query).inlined(tree)
        having = conjunction(self.query.having, tree)
        return replace(self, query=replace(self.query, having=having))


def table(connection: Connection, name: str) -> KTable:
    """The chain of a table, or of a store of a processor ("stream.store"). Raises StatementError if
    there is none with the name."""
    parts = split_name(name, "The name of a table")
    if len(parts) == 2 and STAR not in parts:
        source = connection.store(".".join(parts))
        known = s.AliasedSource(source.name, parts[1])
    else:
        source = source_of(connection, name, SourceKind.TABLE)
        known = s.AliasedSource(source.name)
    keys = tuple(key.name for key in source.schema.key)
    return KTable(connection, s.Query(ALL, known), keys)


def aliased(query: s.Query, name: str) -> s.Query:
    """The query with an alias for its source."""
    if query != s.Query(query.items, query.source) or query.items != ALL:
        raise TypeError("An alias is given to a source, before anything else")
    return replace(query, source=replace(query.source, alias=folded(name, "An alias")))


def column_of(query: s.Query, name: str) -> Expr:
    """A column with the name of its source."""
    return Expr(column(folded(name, "The name of a column"), name_of(query.source)))


def _shown(other: object) -> str:
    return "a stream" if isinstance(other, ContinuousQuery) else type(other).__name__


def grouped(
    connection: Connection,
    query: s.Query,
    columns: Sequence[ColumnOrFunction],
    named: Mapping[str, ValueOrFunction],
) -> tuple[s.Query, tuple[s.SelectItem, ...]]:
    """The query with GROUP BY, and the columns of the group in the result. It needs no PARTITION BY
    any more: the groups decide where a record goes."""
    by = selected(connection, query).items_of(items_of(connection, columns, named, "group_by"))
    keys = tuple(item.expression for item in by)
    return replace(query, group_by=keys, partition_by=()), by


def _column(column: Expr | str) -> Expr:
    return col(column) if isinstance(column, str) else column
