"""Plans queries without EMIT as push queries that produce the rows of the result."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.catalog.rules import WINDOW_BOUNDS
from millstream.model.schema import SourceKind
from millstream_parser.history import Range
from millstream_parser.statements import AliasedSource, Query, SelectItem

_KEY = "$KEY_"


@dataclass(frozen=True, slots=True)
class Sorting:
    """Columns of the result to sort by and whether descending; `items` are selected for that."""

    columns: tuple[tuple[str, bool], ...]
    items: tuple[SelectItem, ...]


def whole(name: str, ranged: Range | None, columns: tuple[str, ...]) -> Query:
    """A query for some columns of a source."""
    items = tuple(SelectItem(_column(column), column) for column in columns)
    return Query(items, AliasedSource(name, range=ranged))


def running(query: Query) -> Query:
    """The push query; the caller applies ORDER BY, LIMIT and the ranges."""
    joins = tuple(replace(j, source=replace(j.source, range=None)) for j in query.joins)
    source = replace(query.source, range=None)
    return replace(query, source=source, joins=joins, emit="CHANGES", order_by=(), limit=None)


def key_items(query: Query, kind: SourceKind) -> tuple[SelectItem, ...]:
    """Extra selected columns, which distinguish the rows of an aggregation (`is_key`)."""
    if kind is SourceKind.STREAM:
        return ()
    trees = list(query.group_by)
    if query.window is not None:
        trees += [_column(name) for name in WINDOW_BOUNDS]
    return tuple(SelectItem(tree, f"{_KEY}{number}") for number, tree in enumerate(trees))


def is_key(column: str) -> bool:
    """Whether a column distinguishes the rows of an aggregation."""
    return column.startswith(_KEY) or column in WINDOW_BOUNDS


def sorting(query: Query, visible: tuple[str, ...]) -> Sorting:
    """The sort columns of a result with the columns `visible`."""
    columns, items = [], []
    for number, (tree, descending) in enumerate(query.order_by):
        name = f"$ORDER_{number}"
        if isinstance(tree, exp.Column) and not tree.table and tree.name in visible:
            name = tree.name
        else:
            items.append(SelectItem(tree, name))
        columns.append((name, descending))
    return Sorting(tuple(columns), tuple(items))


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))
