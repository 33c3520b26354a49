"""The text of an expression as messages show it."""

from __future__ import annotations

from sqlglot import exp

from millstream.model.errors import StatementError
from millstream.model.expressions import ColumnRef
from millstream.model.types import NULL, Decimal, SqlType
from millstream.plan.scope import Scope, resolve_column
from millstream_parser import print_expression


def quoted(tree: exp.Expression, scope: Scope) -> str:
    """The expression with each column under its name in the relation, as in `L_ID` for `l.id`."""

    def rename(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        try:
            column = resolve_column(node, scope)
        except StatementError:
            return node
        if not isinstance(column, ColumnRef) or column.name == node.name:
            return node
        return exp.Column(this=exp.to_identifier(column.name))

    return print_expression(tree.transform(rename))


def type_name(sql_type: SqlType) -> str:
    """A type without its parameters, as in messages about arithmetic."""
    if sql_type is NULL:
        return "null"
    return "DECIMAL" if isinstance(sql_type, Decimal) else str(sql_type)
