"""Pull queries: the rows that there are now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from millstream.dsl.expressions import Expr
from millstream.dsl.python_functions import (
    ColumnOrFunction,
    Condition,
    ValueOrFunction,
    condition_of,
)
from millstream.dsl.queries import (
    checked_limit,
    explain,
    filtered,
    item_of,
    items_of,
    selected,
)
from millstream.dsl.statements import Connection, Stage
from millstream.query.results import History, Rows
from millstream_parser import print_statement
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PullQuery:
    """The current rows of a table, or the records of a stream so far. It is executed each time rows
    are fetched from it."""

    connection: Connection
    query: s.Query

    @property
    def sql(self) -> str:
        """The statement."""
        return print_statement(s.SelectStatement(self.query))

    def __repr__(self) -> str:
        return f"<PullQuery\n{self.sql}>"

    def where(self, condition_: Condition) -> PullQuery:
        """Only rows for which a condition is true."""
        tree = condition_of(self.connection, condition_, "where")
        return replace(self, query=filtered(self.connection, self.query, tree))

    def select(self, *columns: ColumnOrFunction, **named: ValueOrFunction) -> PullQuery:
        """These columns: names, expressions, or values that are given a name."""
        before = selected(self.connection, self.query)
        items = before.items_of(items_of(self.connection, columns, named, "select"))
        return replace(self, query=replace(self.query, items=items))

    def order_by(self, *by: Expr | str, descending: bool = False) -> PullQuery:
        """Sorted by these, and by those of further calls among equal ones."""
        before = selected(self.connection, self.query)
        order = [(before.inlined(item_of(value).expression), descending) for value in by]
        if not order:
            raise TypeError("order_by needs at least one column")
        return replace(self, query=replace(self.query, order_by=(*self.query.order_by, *order)))

    def limit(self, rows: int) -> PullQuery:
        """At most so many rows."""
        return replace(self, query=replace(self.query, limit=checked_limit(rows)))

    def execute(self) -> Rows | History:
        """Execute it, as `Database.execute` does."""
        result = self.connection.execute(s.SelectStatement(self.query))
        if not isinstance(result, Rows | History):
            raise TypeError(f"a pull query returned {type(result).__name__}")
        return result

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.execute().arrow()

    def df(self) -> Any:
        """The rows as a pandas DataFrame (needs pandas)."""
        return self.execute().df()

    def pl(self) -> Any:
        """The rows as a polars DataFrame (needs polars)."""
        return self.execute().pl()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples."""
        return self.execute().fetchall()

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row, or None if there is none."""
        return self.execute().fetchone()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.execute())

    def explain(self, *, stage: Stage | None = None) -> Rows:
        """EXPLAIN of it."""
        return explain(self.connection, s.SelectStatement(self.query), stage)
