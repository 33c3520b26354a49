"""The SELECT list: stars, names, and which of its items form the key of the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.catalog.rules import PSEUDO_COLUMNS, RESERVED, WINDOW_BOUNDS
from millstream.model import refusals
from millstream.model.expressions import ColumnRef, Expression
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import BIGINT, contains_null
from millstream.plan import wordings
from millstream.plan.keys import Key, KeyColumn, missing_key, repeated_key
from millstream.plan.nodes import Named, Node, Project
from millstream.plan.places import placed, span_of
from millstream.plan.select_list import (
    Item,
    output_names,
    refuse_duplicates,
    refuse_reserved_aliases,
    struct_fields,
)
from millstream.plan.sources import BindContext, NamedSource, column_tree
from millstream_parser import statements


@dataclass(frozen=True, slots=True)
class Selected:
    """An item of the SELECT list: the column's name, its value, and its source text."""

    name: str
    expression: Expression
    tree: exp.Expression


def expand(
    query: statements.Query,
    context: BindContext,
    partitioning: tuple[exp.Expression, ...],
    *,
    persistent: bool,
) -> tuple[Selected, ...]:
    """The items of the SELECT list, stars expanded, named and typed."""
    items: list[Item] = []
    for item in query.items:
        with placed(item.span, context.script):
            items.extend(_expanded(item, context, partitioning, persistent))
    refuse_reserved_aliases(items, context.script)
    named = _named(items, context, refuse_reserved=persistent)
    selected = tuple(
        Selected(name, context.typed(item.tree, "SELECT", window_bounds=True), item.tree)
        for name, item in zip(named, items, strict=True)
    )
    for column in selected:
        if contains_null(column.expression.type):
            raise refusals.UNTYPED_NULL(
                hint=f"The column is `{column.name}`.",
                span=span_of(column.tree, context.script),
            )
    return selected


def _expanded(
    item: statements.SelectItem,
    context: BindContext,
    partitioning: tuple[exp.Expression, ...],
    persistent: bool,
) -> Iterable[Item]:
    match item.expression:
        case exp.Star():
            if context.synthetic is not None and not partitioning:
                yield _synthetic_key(context.synthetic.name)
            yield from _star(context.sources, context, partitioning, persistent)
        case exp.Column(this=exp.Star()):
            alias = item.expression.table
            source = next((s for s in context.sources if s.alias == alias), None)
            if source is None:
                raise refusals.UNKNOWN_ALIAS(place="", alias=alias)
            yield from _star((source,), context, partitioning, persistent)
        case exp.Dot(this=base, expression=exp.Star()):
            struct = context.typed(base, "SELECT", window_bounds=True).type
            yield from struct_fields(base, struct, context.text(base, qualified=False))
        case tree:
            yield Item(item.alias, tree)


def _synthetic_key(name: str) -> Item:
    return Item(name, exp.Column(this=exp.to_identifier(name, quoted=True)), False)


def _star(
    sources: tuple[NamedSource, ...],
    context: BindContext,
    partitioning: tuple[exp.Expression, ...],
    persistent: bool,
) -> Iterable[Item]:
    if partitioning:
        yield from _star_after_partitioning(sources, context, partitioning)
        return
    joined = len(context.sources) > 1
    for source in sources:
        for column in source.columns:
            hidden = RESERVED if persistent and not joined else PSEUDO_COLUMNS
            if column.name not in hidden:
                tree = column_tree(source, column.name)
                yield Item(source.prefix + column.name, tree, False)


def _star_after_partitioning(
    sources: tuple[NamedSource, ...],
    context: BindContext,
    partitioning: tuple[exp.Expression, ...],
) -> Iterable[Item]:
    """New keys first, then values, then the columns that were the key before; both in the order in
    which a record goes through ksqlDB: values, headers, pseudo columns, keys. A join key that no
    source has comes after the values of the join."""
    columns = [tree for tree in partitioning if isinstance(tree, exp.Column)]
    expressions = [t for t in partitioning if not isinstance(t, exp.Column | exp.Null)]
    taken = {
        (context.resolve(tree, "PARTITION BY").alias, tree.name)
        for tree in columns
        if not context.is_synthetic(tree.name)
    }
    hidden = WINDOW_BOUNDS if len(context.sources) > 1 else RESERVED
    keys: list[Item] = []
    others: list[Item] = []
    for source in sources:
        for column in sorted(source.columns, key=lambda column: column.role is Role.KEY):
            item = Item(source.prefix + column.name, column_tree(source, column.name), False)
            if (source.alias, column.name) in taken:
                keys.append(item)
            elif column.name not in hidden:
                others.append(item)
    synthetic = context.synthetic
    if synthetic is not None and sources == context.sources:
        is_key = any(tree.name == synthetic.name for tree in columns)
        (keys if is_key else others).append(_synthetic_key(synthetic.name))
    yield from (*keys, *(Item(None, tree, False) for tree in expressions), *others)


def _named(items: list[Item], context: BindContext, *, refuse_reserved: bool) -> tuple[str, ...]:
    source_names = {column.name for item in context.sources for column in item.columns}
    names = output_names(items, source_names, lambda column: _column_name(column, context))
    for item, name in zip(items, names, strict=True):
        if refuse_reserved and name in RESERVED and (item.written or item.name is None):
            span = span_of(item.tree, context.script)
            raise wordings.RESERVED_IN_SELECT(name=name, span=span)
    return names


def _column_name(column: exp.Column, context: BindContext) -> str:
    if context.is_ambiguous(column.name):
        return context.resolve(column, "SELECT").prefix + column.name
    return column.name


def project(
    node: Node,
    selected: tuple[Selected, ...],
    key: Key,
    settings: Mapping[str, str],
    sink: str,
) -> Project:
    """The projection of a persistent query: keys first, each exactly once, then the values."""
    reordering = settings.get("ksql.new.query.planner.enabled", "false").lower() == "true"
    chosen = [_chosen(column, selected, key) for column in key.columns]
    missing = [column for column, items in zip(key.columns, chosen, strict=True) if not items]
    if missing and not reordering:
        raise missing_key(key, missing, sink)
    keys = [(items[0], column) for column, items in zip(key.columns, chosen, strict=True) if items]
    if reordering:
        keys.sort(key=lambda pair: selected.index(pair[0]))
    key_items = [item for item, _ in keys]
    values = [item for item in selected if not any(item is other for other in key_items)]
    if not values:
        raise wordings.NO_VALUE_COLUMNS()
    named = [Named(item.name, column.value) for item, column in keys]
    return _projected(node, named, [Named(item.name, item.expression) for item in values])


def _chosen(column: KeyColumn, selected: tuple[Selected, ...], key: Key) -> list[Selected]:
    for expression, _ in column.matches:
        items = [item for item in selected if item.expression == expression]
        if len(items) > 1:
            raise repeated_key(column, [item.name for item in items], key)
        if items:
            return items
    return []


def _projected(node: Node, keys: list[Named], values: list[Named]) -> Project:
    columns = [Column(item.name, item.expression.type, Role.KEY) for item in keys]
    expressions = [item.expression for item in keys]
    for column in window_columns(node.schema):
        columns.append(column)
        expressions.append(ColumnRef(column.name, BIGINT))
    others = [Column(item.name, item.expression.type) for item in values]
    refuse_duplicates(columns, others)
    expressions += [item.expression for item in values]
    return Project(node, tuple(expressions), Schema(tuple(columns + others)))


def window_columns(schema: Schema) -> tuple[Column, ...]:
    """The window bounds in a windowed relation's key."""
    return tuple(column for column in schema.key if column.name in WINDOW_BOUNDS)


def project_all(node: Node, selected: tuple[Selected, ...], key: Key) -> Project:
    """The projection of a push query: the selected columns in their order.

    The schema keeps that order; an item that is a key has that role, so that deletions can be
    shown with their keys.
    """
    matches = [expression for column in key.columns for expression, _ in column.matches]
    refuse_duplicates([], [Column(item.name, item.expression.type) for item in selected])
    columns = tuple(
        Column(
            item.name,
            item.expression.type,
            Role.KEY if item.expression in matches else Role.VALUE,
        )
        for item in selected
    )
    return Project(node, tuple(item.expression for item in selected), Schema(columns))


def with_expression(item: Selected, expression: Expression) -> Selected:
    """The item with another value."""
    return replace(item, expression=expression)
