"""Pull queries of the dialect: a SELECT over the current rows, as one DuckDB query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.functions.function import Catalogue
from millstream.model import refusals
from millstream.model.errors import StatementError, prefixed
from millstream.model.expressions import ColumnRef, Expression
from millstream.model.physical import physical_names
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import BIGINT, BOOLEAN, NULL, SqlType
from millstream.operators.guards import guarded_text
from millstream.operators.sql import identifier
from millstream.plan.scope import Scope, location
from millstream.plan.select_list import (
    Item,
    output_names,
    refuse_duplicates,
    refuse_reserved_aliases,
    struct_fields,
)
from millstream.plan.sources import IN_SELECT, columns_in
from millstream.plan.typing import type_expression
from millstream.query import wordings
from millstream.query.conditions import Condition, conditions
from millstream_parser import print_expression
from millstream_parser.statements import Query, SelectItem

REFUSED = ("ROWPARTITION", "ROWOFFSET")


@dataclass(frozen=True, slots=True)
class Pull:
    """A query over `relation` (an SQL name or subquery with the physical columns of the source and
    `"$rowtime"`). `order` and `limit` are separate, for sources that are read in pieces;
    `conditions` is the part of its WHERE clause that can be pushed down."""

    schema: Schema
    expressions: tuple[Expression, ...]
    select: str
    where: str
    order: str
    limit: int | None
    conditions: tuple[Condition, ...] = ()

    def sql(self, relation: str) -> str:
        """The text of the query over a relation."""
        limit = "" if self.limit is None else f" LIMIT {self.limit}"
        return f"SELECT {self.select} FROM {relation}{self.where}{self.order}{limit}"


def plan_pull(
    query: Query,
    schema: Schema,
    alias: str,
    catalogue: Catalogue,
    types: dict[str, SqlType],
    script: str = "",
) -> Pull:
    """Type and compile a pull query over a source with `schema` (window bounds included)."""
    visible = Schema((*schema.columns, Column("ROWTIME", BIGINT)))
    names = dict(zip(schema.names, map(identifier, physical_names(schema.names)), strict=True))
    names.setdefault("ROWTIME", '"$rowtime"')
    scope = Scope(((alias, visible),), catalogue, types, clause="SELECT", text=script)

    def text(expression: Expression) -> str:
        if isinstance(expression, ColumnRef):
            return names[expression.name]
        return guarded_text(expression, catalogue, names.__getitem__)

    items = _expanded(query, schema, alias, scope)
    result = Schema(tuple(Column(name, e.type, role) for name, e, role in items))
    columns = physical_names(result.names)
    select = ", ".join(
        f"{text(e)} AS {identifier(name)}" for (_, e, _), name in zip(items, columns, strict=True)
    )
    expressions = [e for _, e, _ in items]
    where = ""
    found: tuple[Condition, ...] = ()
    if query.where is not None:
        _refuse_pseudo([query.where], "WHERE")
        condition = _clause(scope, "WHERE")
        _check_columns(query.where, condition)
        try:
            predicate = type_expression(query.where, condition)
        except StatementError as error:
            raise _of_where(query.where, error) from error
        if predicate.type != BOOLEAN:
            raise refusals.NOT_BOOLEAN(
                clause="WHERE", expression=print_expression(query.where), type=predicate.type
            )
        expressions.append(predicate)
        found = conditions(predicate)
        where = f" WHERE coalesce({text(predicate)}, FALSE)"
    order = []
    for tree, descending in query.order_by:
        named = _result_column(tree, result, columns)
        if named is None:
            typed = type_expression(tree, _clause(scope, "ORDER BY"))
            expressions.append(typed)
            named = text(typed)
        order.append(f"{named} DESC NULLS LAST" if descending else f"{named} ASC NULLS LAST")
    ordering = f" ORDER BY {', '.join(order)}" if order else ""
    return Pull(result, tuple(expressions), select, where, ordering, query.limit, found)


def steady(plan: Pull, schema: Schema, before: Sequence[str]) -> Pull:
    """With LIMIT and without ORDER BY: the first rows of a table with `schema` by the columns
    `before` and by key, deterministically."""
    if plan.limit is None or plan.order:
        return plan
    names = zip(physical_names(schema.names), schema.columns, strict=True)
    keys = (name for name, column in names if column.role is Role.KEY)
    return replace(plan, order=f" ORDER BY {', '.join(map(identifier, (*before, *keys)))}")


def _of_where(tree: exp.Expression, error: StatementError) -> StatementError:
    """The error of a condition, with the whole condition."""
    # The second line of the reason precedes the condition.
    said = (error.message, error.detail)
    return wordings.WHERE_OF_PULL_QUERY(
        message="\n".join(line for line in said if line),
        expression=print_expression(tree),
        hint=error.hint,
        span=error.span,
    )


def _result_column(tree: exp.Expression, result: Schema, columns: tuple[str, ...]) -> str | None:
    """ORDER BY may name a column of the result."""
    if isinstance(tree, exp.Column) and not tree.table and tree.name in result.names:
        return identifier(columns[result.names.index(tree.name)])
    return None


def _clause(scope: Scope, clause: str) -> Scope:
    return Scope(scope.sources, scope.catalogue, scope.types, clause=clause, text=scope.text)


def _expanded(
    query: Query, schema: Schema, alias: str, scope: Scope
) -> list[tuple[str, Expression, Role]]:
    """The SELECT list as (name, expression, role). As in ksqlDB a column of the result is a key
    where it is named like one of the source."""
    items: list[Item] = []
    _refuse_pseudo((item.expression for item in query.items), "SELECT")
    for selected in query.items:
        items.extend(_items(selected, schema, alias, scope))
    refuse_reserved_aliases(items, scope.text)
    visible = scope.sources[0][1].names
    names = output_names(items, visible, lambda column: column.name)
    key_names = {column.name for column in schema.key}
    found: list[tuple[str, Expression, Role]] = []
    for item, name in zip(items, names, strict=True):
        role = Role.KEY if name in key_names else Role.VALUE
        found.append((name, _selected(item.tree, name, scope), role))
    columns = [Column(name, expression.type, role) for name, expression, role in found]
    keys = [column for column in columns if column.role is Role.KEY]
    refuse_duplicates(keys, [column for column in columns if column.role is Role.VALUE])
    return found


def _selected(tree: exp.Expression, name: str, scope: Scope) -> Expression:
    """One column of the result."""
    _check_columns(tree, scope)
    try:
        expression = type_expression(tree, scope)
    except StatementError as error:
        if error.message.startswith(IN_SELECT):
            raise
        raise prefixed(IN_SELECT, error) from error
    if expression.type == NULL:
        raise refusals.UNTYPED_NULL(hint=f"The column is `{name}`.")
    return expression


def _check_columns(tree: exp.Expression, scope: Scope) -> None:
    """An unknown column is refused by itself, without the enclosing expression."""
    for column in columns_in(tree):
        type_expression(column, scope)


def _items(item: SelectItem, schema: Schema, alias: str, scope: Scope) -> Iterator[Item]:
    match item.expression:
        case exp.Star():
            yield from _star(schema, alias)
        case exp.Column(this=exp.Star()) as column:
            if column.table != alias:
                span, place = location(column, scope.text)
                raise refusals.UNKNOWN_ALIAS(place=place, alias=column.table, span=span)
            yield from _star(schema, alias)
        case exp.Dot(this=base, expression=exp.Star()):
            struct = type_expression(base, scope).type
            yield from struct_fields(base, struct, print_expression(base))
        case tree:
            yield Item(item.alias, tree)


def _star(schema: Schema, alias: str) -> Iterator[Item]:
    """All columns, with headers after the value."""
    for column in sorted(schema.columns, key=lambda column: column.role is Role.HEADERS):
        name = exp.to_identifier(column.name, quoted=True)
        table = exp.to_identifier(alias, quoted=True)
        yield Item(column.name, exp.Column(this=name, table=table), False)


def _refuse_pseudo(trees: Iterable[exp.Expression], clause: str) -> None:
    columns = (column for tree in trees for column in tree.find_all(exp.Column))
    found = dict.fromkeys(column.name for column in columns if column.name in REFUSED)
    if found:
        raise wordings.COLUMN_OF_LOG(
            clause=clause,
            columns=", ".join(f"`{name}`" for name in found),
            hint="Where a record lies on the log can only be asked in a push query.",
        )
