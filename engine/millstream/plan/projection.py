"""The SELECT list: stars, names, and which of its items are the key of the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.catalog.rules import PSEUDO_COLUMNS, RESERVED, WINDOW_BOUNDS
from millstream.model import refusals
from millstream.model.errors import StatementError
from millstream.model.expressions import ColumnRef, Expression
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import BIGINT, NULL, Struct
from millstream.plan.keys import Key, KeyColumn, missing_key, repeated_key
from millstream.plan.nodes import Named, Node, Project
from millstream.plan.sources import NamedSource, Surroundings, column_tree, unique
from millstream_parser import statements


@dataclass(frozen=True, slots=True)
class Selected:
    """An item of the SELECT list: the column's name, its value, and what was written."""

    name: str
    expression: Expression
    tree: exp.Expression


@dataclass(frozen=True, slots=True)
class _Item:
    name: str | None
    tree: exp.Expression
    written: bool = True
    """Not made by a star."""


def expand(
    query: statements.Query,
    surroundings: Surroundings,
    partitioning: tuple[exp.Expression, ...],
    *,
    persistent: bool,
) -> tuple[Selected, ...]:
    """The items of the SELECT list, stars expanded, named and typed."""
    items: list[_Item] = []
    for item in query.items:
        items.extend(_expanded(item, surroundings, partitioning, persistent))
    for given in items:
        if given.written and given.name in RESERVED and given.tree.name != given.name:
            raise StatementError(
                f"`{given.name}` is a reserved column name. "
                "You cannot use it as an alias for a column."
            )
    named = _named(items, surroundings, refuse_reserved=persistent)
    selected = tuple(
        Selected(name, surroundings.typed(item.tree, "SELECT", window_bounds=True), item.tree)
        for name, item in zip(named, items, strict=True)
    )
    for column in selected:
        if column.expression.type == NULL:
            raise refusals.UNTYPED_NULL(hint=f"The column is `{column.name}`.")
    return selected


def _expanded(
    item: statements.SelectItem,
    surroundings: Surroundings,
    partitioning: tuple[exp.Expression, ...],
    persistent: bool,
) -> Iterable[_Item]:
    match item.expression:
        case exp.Star():
            if surroundings.synthetic is not None and not partitioning:
                yield _synthetic_key(surroundings.synthetic.name)
            yield from _star(surroundings.sources, surroundings, partitioning, persistent)
        case exp.Column(this=exp.Star()):
            alias = item.expression.table
            source = next((s for s in surroundings.sources if s.alias == alias), None)
            if source is None:
                raise refusals.UNKNOWN_ALIAS(place="", alias=alias)
            yield from _star((source,), surroundings, partitioning, persistent)
        case exp.Dot(this=base, expression=exp.Star()):
            struct = surroundings.typed(base, "SELECT", window_bounds=True).type
            if not isinstance(struct, Struct):
                raise StatementError(
                    f"Cannot expand {surroundings.text(base, qualified=False)}->*: "
                    f"it is {struct}, not a STRUCT."
                )
            for field in struct.fields:
                name = exp.to_identifier(field.name, quoted=True)
                yield _Item(field.name, exp.Dot(this=base.copy(), expression=name), False)
        case tree:
            yield _Item(item.alias, tree)


def _synthetic_key(name: str) -> _Item:
    return _Item(name, exp.Column(this=exp.to_identifier(name, quoted=True)), False)


def _star(
    sources: tuple[NamedSource, ...],
    surroundings: Surroundings,
    partitioning: tuple[exp.Expression, ...],
    persistent: bool,
) -> Iterable[_Item]:
    if partitioning:
        yield from _star_after_partitioning(sources, surroundings, partitioning)
        return
    joined = len(surroundings.sources) > 1
    for source in sources:
        for column in source.columns:
            hidden = RESERVED if persistent and not joined else PSEUDO_COLUMNS
            if column.name not in hidden:
                tree = column_tree(source, column.name)
                yield _Item(source.prefix + column.name, tree, False)


def _star_after_partitioning(
    sources: tuple[NamedSource, ...],
    surroundings: Surroundings,
    partitioning: tuple[exp.Expression, ...],
) -> Iterable[_Item]:
    """New keys first, then values, then the columns that were the key before."""
    keys = [tree for tree in partitioning if not isinstance(tree, exp.Null)]
    taken: set[tuple[str, str]] = set()
    for tree in keys:
        if isinstance(tree, exp.Column):
            if surroundings.is_synthetic(tree.name):
                yield _synthetic_key(tree.name)
                continue
            owner = surroundings.resolve(tree, "PARTITION BY")
            taken.add((owner.alias, tree.name))
            if owner in sources:
                yield _Item(owner.prefix + tree.name, column_tree(owner, tree.name), False)
        else:
            yield _Item(None, tree, False)
    joined = len(surroundings.sources) > 1
    for source in sources:
        hidden = WINDOW_BOUNDS if joined else RESERVED
        columns = [column for column in source.columns if column.name not in hidden]
        for column in sorted(columns, key=lambda column: column.role is Role.KEY):
            if (source.alias, column.name) not in taken:
                tree = column_tree(source, column.name)
                yield _Item(source.prefix + column.name, tree, False)


def _named(
    items: list[_Item], surroundings: Surroundings, *, refuse_reserved: bool
) -> tuple[str, ...]:
    source_names = {column.name for item in surroundings.sources for column in item.columns}
    taken = set(source_names)
    numbers = iter(range(len(items) + len(source_names) + 1))
    result: list[str] = []
    for item in items:
        match item.tree:
            case _ if item.name is not None:
                name = item.name
            case exp.Column() as column:
                name = _column_name(column, surroundings)
            case exp.Dot(expression=field):
                name = unique(field.name, taken)
                taken.add(name)
            case _:
                free = (f"KSQL_COL_{number}" for number in numbers)
                name = next(name for name in free if name not in source_names)
        if refuse_reserved and name in RESERVED and (item.written or item.name is None):
            raise StatementError(
                f"Reserved column name in select: `{name}`. Please remove or alias the column."
            )
        result.append(name)
    return tuple(result)


def _column_name(column: exp.Column, surroundings: Surroundings) -> str:
    if surroundings.is_ambiguous(column.name):
        return surroundings.resolve(column, "SELECT").prefix + column.name
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
        raise StatementError("The projection contains no value columns.")
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
    _refuse_duplicates(columns, others)
    expressions += [item.expression for item in values]
    return Project(node, tuple(expressions), Schema(tuple(columns + others)))


def _refuse_duplicates(keys: list[Column], values: list[Column]) -> None:
    key_names = [column.name for column in keys]
    twice = [column for column in keys if key_names.count(column.name) > 1]
    if twice:
        raise StatementError(f"Duplicate key columns found in schema: {Schema((twice[0],))}")
    names = [column.name for column in values]
    clashing = [c for c in values if c.name in key_names or names.count(c.name) > 1]
    if clashing:
        distinct = tuple(dict.fromkeys(clashing))
        raise StatementError(f"Duplicate value columns found in schema: {Schema(distinct)}")


def window_columns(schema: Schema) -> tuple[Column, ...]:
    """The window bounds in a windowed relation's key."""
    return tuple(column for column in schema.key if column.name in WINDOW_BOUNDS)


def project_all(node: Node, selected: tuple[Selected, ...], key: Key) -> Project:
    """The projection of a push query: what was asked for in the order it was asked for.

    The schema keeps that order; an item that is a key has that role, so that deletions can be
    shown with their keys.
    """
    matches = [expression for column in key.columns for expression, _ in column.matches]
    names = [item.name for item in selected]
    for item in selected:
        if names.count(item.name) > 1:
            column = Column(item.name, item.expression.type)
            raise StatementError(f"Duplicate value columns found in schema: {Schema((column,))}")
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
