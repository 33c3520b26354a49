"""Types and evaluates the constant expressions of INSERT VALUES and ASSERT VALUES."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from millstream.model.errors import StatementError
from millstream.model.expressions import Cast, Expression, Literal, MakeArray, MakeMap, MakeStruct
from millstream.model.physical import arrow_type
from millstream.model.schema import Column
from millstream.model.types import BIGINT, BOOLEAN, BYTES, STRING, TIMESTAMP, SqlType
from millstream.operators.expressions import compile_expression
from millstream.operators.udfs import register_expressions
from millstream.plan.assignable import assignable, constant_assignable
from millstream.plan.literals import coerce, text_as_boolean
from millstream.plan.places import placed
from millstream.plan.scope import Scope
from millstream.plan.typing import type_expression
from millstream.queries.registry import QueryRegistry
from millstream.query.failures import reason
from millstream.statements import wordings
from millstream_parser.statements import Tree

_CONSTRUCTORS = (Literal, MakeArray, MakeMap, MakeStruct)


def constant_row(
    columns: Sequence[Column],
    trees: Sequence[Tree],
    script: str,
    types: Mapping[str, SqlType],
    registry: QueryRegistry,
) -> pa.Table:
    """A table of one row: the value of each expression, in the type of its column. The spans of the
    trees refer to `script`. `types`: the custom types."""
    scope = Scope((), registry.functions, types, clause="VALUES")
    expressions = []
    for tree, column in zip(trees, columns, strict=True):
        with placed(tree, script):
            expressions.append(_converted(type_expression(tree, scope), column, registry))
    names = [f"c{index}" for index in range(len(columns))]
    literals = [_literal(e, column) for e, column in zip(expressions, columns, strict=True)]
    if all(literal is not None for literal in literals):
        return pa.table(literals, names=names)
    arrays = []
    for tree, expression, column in zip(trees, expressions, columns, strict=True):
        with placed(tree, script):
            arrays.append(_evaluated_for(expression, column, registry))
    return pa.table(arrays, names=names)


def constant(literal: Literal, column: Column, registry: QueryRegistry) -> pa.Array:
    """One value of a client in the type of its column: an array of one element. Raises
    StatementError if it does not fit, as INSERT VALUES does."""
    converted = _converted(literal, column, registry)
    found = _literal(converted, column)
    if found is not None:
        return found
    return _evaluated_for(converted, column, registry).combine_chunks()


def _evaluated_for(
    expression: Expression, column: Column, registry: QueryRegistry
) -> pa.ChunkedArray:
    """Evaluate one value; if this fails, StatementError names its column."""
    try:
        return _cast(_evaluated(expression, registry), column)
    except (duckdb.Error, pa.ArrowInvalid) as error:
        detail = reason(error) if isinstance(error, duckdb.Error) else "It does not fit the type."
        if isinstance(expression, Cast) and expression.implicit:
            shown = _value_text(expression.operand, registry)
            if shown is not None:
                raise _type_error(expression.operand, column, shown, detail) from error
        raise wordings.VALUE_FAILED(column=column.name, type=column.type, detail=detail) from error


def _evaluated(expression: Expression, registry: QueryRegistry) -> pa.ChunkedArray:
    cursor = registry.store.cursor()
    try:
        register_expressions(cursor, [expression], registry.functions, registry.store.functions)
        text = compile_expression(expression, registry.functions, exact=False, columns=_no_columns)
        return cursor.sql(f"SELECT {text} AS v").to_arrow_table().column(0)
    finally:
        cursor.close()


def _value_text(expression: Expression, registry: QueryRegistry) -> str | None:
    """The value of an expression as text; None if it cannot be evaluated."""
    as_text = expression if expression.type == BYTES else Cast(expression, STRING)
    try:
        value = _evaluated(as_text, registry)[0].as_py()
    except duckdb.Error:
        return None
    if value is None:
        return "null"
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _literal(expression: Expression, column: Column) -> pa.Array | None:
    """The value of a literal of the column's type; None for any other expression."""
    if isinstance(expression, Literal) and expression.type == column.type:
        return pa.array([expression.value], arrow_type(column.type))
    return None


def _cast(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Cast values to the column's Arrow type; timestamps to ms if the column is BIGINT
    (ROWTIME)."""
    if column.type == BIGINT and pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("ms"))
    return values.cast(arrow_type(column.type))


def _converted(expression: Expression, column: Column, registry: QueryRegistry) -> Expression:
    """Convert the expression to the column's type. Literals and constructors convert more freely
    than other expressions."""
    target = column.type
    if assignable(expression.type, target):
        return coerce(expression, target)
    if column.name == "ROWTIME" and expression.type in (STRING, TIMESTAMP):
        return expression if expression.type == TIMESTAMP else Cast(expression, TIMESTAMP)
    if isinstance(expression, Literal) and expression.type == STRING and target == BOOLEAN:
        with contextlib.suppress(StatementError):
            # A CAST would convert any other text to false.
            return text_as_boolean(str(expression.value))
    elif isinstance(expression, _CONSTRUCTORS) and constant_assignable(expression.type, target):
        return Cast(expression, target, implicit=True)
    shown = _value_text(expression, registry)
    if shown is None:
        raise wordings.VALUE_FAILED(column=column.name, type=expression.type)
    raise _type_error(expression, column, shown)


def _type_error(
    expression: Expression, column: Column, shown: str, detail: str = ""
) -> StatementError:
    """The error for a value that does not fit the type of its column."""
    return wordings.VALUE_TYPE(
        target=column.type,
        column=column.name,
        type=re.split("[(<]", str(expression.type))[0],
        value=shown,
        detail=detail,
        hint="Use CAST to convert the value.",
    )


def _no_columns(name: str) -> str:
    raise TypeError(f"{name} is no column: constant expressions have none")
