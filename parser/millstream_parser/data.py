"""INSERT and COPY."""

from __future__ import annotations

from sqlglot import exp

from .cursor import Cursor
from .expressions import expression
from .properties import optional_properties
from .queries import query
from .statements import CopyFrom, InsertInto, InsertValues, Statement, Tree


def insert(cursor: Cursor) -> Statement:
    """INSERT INTO … VALUES, or INSERT INTO … SELECT."""
    start = cursor.at
    cursor.expect("INSERT", "INTO")
    target = cursor.name()
    if cursor.looking_at("(") or cursor.looking_at("VALUES"):
        columns = column_names(cursor)
        cursor.expect("VALUES")
        rows = [_row(cursor)]
        while cursor.accept(","):
            rows.append(_row(cursor))
        return InsertValues(target, columns, tuple(rows), cursor.span_from(start))
    found = optional_properties(cursor)
    if not cursor.looking_at("SELECT"):
        more = () if found else ("'('", "'VALUES'", "'WITH'")
        raise cursor.unexpected(*more, "'SELECT'")
    body = query(cursor, persistent=True)
    return InsertInto(target, body, found, cursor.span_from(start))


def has_nulls_alone(statement: InsertValues) -> bool:
    """Whether it inserts one row, each of whose values is written as NULL."""
    return len(statement.rows) == 1 and all(
        isinstance(tree, exp.Null) for tree in statement.rows[0]
    )


def _row(cursor: Cursor) -> tuple[Tree, ...]:
    """`'(' value, … ')'`."""
    cursor.expect("(")
    return cursor.comma_list(expression, ")")


def column_names(cursor: Cursor) -> tuple[str, ...]:
    """`['(' column, … ')']`."""
    return cursor.comma_list(Cursor.name, ")") if cursor.accept("(") else ()


def copy(cursor: Cursor) -> CopyFrom:
    """COPY … FROM 'file' [WITH props]."""
    start = cursor.at
    cursor.expect("COPY")
    target = cursor.name()
    cursor.expect("FROM")
    path = cursor.string()
    found = optional_properties(cursor)
    return CopyFrom(target, path, found, cursor.span_from(start))
