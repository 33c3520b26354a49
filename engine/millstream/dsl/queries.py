"""Queries that keep running, and the clauses that chains add to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar, Unpack

from sqlglot import exp

from millstream.dsl.expressions import Expr, col, column, tree_of
from millstream.dsl.inlining import Selected
from millstream.dsl.python_functions import (
    ColumnOrFunction,
    Condition,
    ValueOrFunction,
    condition_of,
    values_with_calls,
    with_calls,
)
from millstream.dsl.statements import Connection, SinkOptions, Stage, create_as
from millstream.model.errors import StatementError
from millstream.model.names import folded
from millstream.query.changes import Row
from millstream.query.results import Done, Result, Rows, Stream
from millstream_parser import print_statement
from millstream_parser import statements as s

T = TypeVar("T")
_STAGES = ("STATEMENT", "PLAN", "TOPOLOGY", "PROGRAM")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ContinuousQuery:
    """A query that keeps running: `to` makes it persistent, `subscribe` reads its rows."""

    connection: Connection
    query: s.Query
    """Its SELECT."""
    kind: ClassVar[str] = "STREAM"

    @property
    def sql(self) -> str:
        """The statement of `subscribe`."""
        return print_statement(s.SelectStatement(emitting(self.query)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}\n{self.sql}>"

    def to(self, name: str, **options: Unpack[SinkOptions]) -> Done:
        """CREATE STREAM (or TABLE) name AS this query, which runs from now on."""
        statement = create_as(self.kind, name, emitting(self.query), options)
        return done(self.connection.execute(statement))

    def subscribe(self, *, limit: int | None = None) -> Stream:
        """A push query: its rows while they arrive, at most `limit` of them."""
        query = replace(emitting(self.query), limit=checked_limit(limit))
        return _expected(Stream, self.connection.execute(s.SelectStatement(query)))

    def __iter__(self) -> Iterator[Row]:
        """The rows of `subscribe`; the end of the iteration ends the query."""
        with self.subscribe() as rows:
            yield from rows

    def explain(
        self, into: str | None = None, *, stage: Stage | None = None, **options: Unpack[SinkOptions]
    ) -> Rows:
        """EXPLAIN of `subscribe`, or with `into` of `to(into, …)`; with `stage` one of its
        stages."""
        query = emitting(self.query)
        if into is None and options:
            raise TypeError("Options are for a new stream or table: give its name, too")
        explained: s.Statement = (
            s.SelectStatement(query) if into is None else create_as(self.kind, into, query, options)
        )
        return explain(self.connection, explained, stage)


def emitting(query: s.Query) -> s.Query:
    """The query as one that keeps running: EMIT CHANGES, unless it says EMIT FINAL."""
    emit = query.emit or "CHANGES"
    union = tuple(replace(branch, emit=emit) for branch in query.union)
    return replace(query, emit=emit, union=union)


def explain(connection: Connection, explained: s.Statement, stage: Stage | None) -> Rows:
    """EXPLAIN of a statement."""
    if stage is not None and stage not in _STAGES:
        raise ValueError(f"A stage is one of {', '.join(_STAGES)}, not {stage!r}")
    return _expected(Rows, connection.execute(s.Explain(explained, stage=stage)))


def checked_limit(limit: int | None) -> int | None:
    """The number of rows of LIMIT; raises TypeError and ValueError."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
        raise TypeError(f"A limit is an int, not {limit!r}")
    if limit is not None and limit < 0:
        raise ValueError(f"A limit cannot be negative, and {limit} is")
    return limit


def selected(connection: Connection, query: s.Query) -> Selected:
    """The result of a query so far, for what follows."""
    return Selected(query.items, connection.functions, joined=bool(query.joins))


def item_of(value: Expr | str) -> s.SelectItem:
    """A column of a result: an expression, or a str that is the name of a column."""
    match value:
        case str():
            return s.SelectItem(col(value).tree)
        case Expr(name=alias):
            return s.SelectItem(tree_of(replace(value, name=None)), alias)
    raise TypeError(
        f"A column is a name or an expression, not {type(value).__name__}: lit(…) is a constant"
    )


def items_of(
    connection: Connection,
    columns: Sequence[ColumnOrFunction],
    named: Mapping[str, ValueOrFunction],
    what: str,
) -> tuple[s.SelectItem, ...]:
    """The columns of a result: `named` gives each value a name."""
    items = [item_of(column) for column in with_calls(connection, columns)]
    for name, value in values_with_calls(connection, named).items():
        items.append(s.SelectItem(tree_of(value), folded(name, "The name of a column")))
    if not items:
        raise TypeError(f"{what} needs at least one column")
    return tuple(items)


def filtered(connection: Connection, query: s.Query, tree: exp.Expression) -> s.Query:
    """The query with a further condition on what it has selected."""
    tree = selected(connection, query).inlined(tree)
    return replace(query, where=conjunction(query.where, tree))


def conjunction(before: exp.Expression | None, tree: exp.Expression) -> exp.Expression:
    """Both conditions."""
    return tree if before is None else exp.And(this=before, expression=tree)


def negated(connection: Connection, value: Condition, what: str) -> exp.Expression:
    """NOT of a condition."""
    return exp.Not(this=condition_of(connection, value, what))


def columns_of(
    keys: tuple[str, ...] | None, items: Sequence[s.SelectItem]
) -> tuple[str, ...] | None:
    """The names of the key columns in a result; None if one of them is not in it, or unknown."""
    if keys is None or any(isinstance(item.expression, exp.Star) for item in items):
        return keys
    found = []
    for key in keys:
        for item in items:
            if isinstance(item.expression, exp.Column) and item.expression.name == key:
                found.append(item.alias or key)
                break
        else:
            return None
    return tuple(found)


def with_keys(
    keys: tuple[str, ...] | None, items: tuple[s.SelectItem, ...]
) -> tuple[s.SelectItem, ...]:
    """The items, with the key columns before them. Raises StatementError if those are unknown."""
    if keys == () or any(isinstance(item.expression, exp.Star) for item in items):
        return items
    return (*(item_of(Expr(key)) for key in key_trees(keys, "map_values")), *items)


def key_trees(keys: tuple[str, ...] | None, what: str) -> list[exp.Expression]:
    """The columns of a key; raises StatementError if there are none, or they are unknown."""
    if not keys:
        why = "its columns have no known names" if keys is None else "there is none"
        instead = "group_by" if what == "group_by_key" else "select"
        raise StatementError(
            f"{what} keeps the key, but {why}", hint=f"Name the columns in .{instead}(…)."
        )
    return [column(key) for key in keys]


def done(result: Result) -> Done:
    """The result of a statement without rows."""
    return _expected(Done, result)


def _expected(kind: type[T], result: Result) -> T:
    if not isinstance(result, kind):
        raise TypeError(f"a statement of a chain returned {type(result).__name__}")
    return result
