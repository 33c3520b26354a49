"""Queries without EMIT as push queries: those that make the rows of the answer."""

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
    """Columns of the answer to sort by and whether descending; `items` are selected for that."""

    columns: tuple[tuple[str, bool], ...]
    items: tuple[SelectItem, ...]


def whole(name: str, ranged: Range | None, columns: tuple[str, ...]) -> Query:
    """A query for some columns of a source."""
    items = tuple(SelectItem(_column(column), column) for column in columns)
    return Query(items, AliasedSource(name, range=ranged))


def running(query: Query) -> Query:
    """The push query: what comes last, and the ranges, are left to those who run it."""
    joins = tuple(replace(j, source=replace(j.source, range=None)) for j in query.joins)
    source = replace(query.source, range=None)
    return replace(query, source=source, joins=joins, emit="CHANGES", order_by=(), limit=None)


def key_items(query: Query, kind: SourceKind) -> tuple[SelectItem, ...]:
    """What is selected besides, to tell the rows of an aggregation apart (`is_key`)."""
    if kind is SourceKind.STREAM:
        return ()
    trees = list(query.group_by)
    if query.window is not None:
        trees += [_column(name) for name in WINDOW_BOUNDS]
    return tuple(SelectItem(tree, f"{_KEY}{number}") for number, tree in enumerate(trees))


def is_key(column: str) -> bool:
    """Whether a column tells the rows of an aggregation apart."""
    return column.startswith(_KEY) or column in WINDOW_BOUNDS


def sorting(query: Query, visible: tuple[str, ...]) -> Sorting:
    """What to sort an answer with the columns `visible` by."""
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
