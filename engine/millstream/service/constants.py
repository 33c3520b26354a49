"""Constant expressions of INSERT VALUES and ASSERT VALUES, typed for their columns and computed."""

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
from millstream.service import wordings
from millstream.service.engine import Engine
from millstream.service.failures import reason
from millstream_parser.statements import Tree

_CONSTRUCTORS = (Literal, MakeArray, MakeMap, MakeStruct)


def constant_row(
    columns: Sequence[Column],
    trees: Sequence[Tree],
    script: str,
    types: Mapping[str, SqlType],
    engine: Engine,
) -> pa.Table:
    """One row with the value of each expression as the type of its column; the spans of the trees
    refer to `script`. `types`: the custom ones."""
    scope = Scope((), engine.functions, types, clause="VALUES")
    expressions = []
    for tree, column in zip(trees, columns, strict=True):
        with placed(tree, script):
            expressions.append(_fitting(type_expression(tree, scope), column, engine))
    names = [f"c{index}" for index in range(len(columns))]
    literals = [_literal(e, column) for e, column in zip(expressions, columns, strict=True)]
    if all(literal is not None for literal in literals):
        return pa.table(literals, names=names)
    arrays = []
    for tree, expression, column in zip(trees, expressions, columns, strict=True):
        with placed(tree, script):
            arrays.append(_computed(expression, column, engine))
    return pa.table(arrays, names=names)


def _computed(expression: Expression, column: Column, engine: Engine) -> pa.ChunkedArray:
    """One value; StatementError names the column whose value cannot be had."""
    try:
        return _as(_evaluated(expression, engine), column)
    except (duckdb.Error, pa.ArrowInvalid) as error:
        why = reason(error) if isinstance(error, duckdb.Error) else "It does not fit the type."
        if isinstance(expression, Cast) and expression.implicit:
            shown = _shown(expression.operand, engine)
            if shown is not None:
                raise _unfit(expression.operand, column, shown, why) from error
        raise wordings.VALUE_FAILED(column=column.name, type=column.type, detail=why) from error


def _evaluated(expression: Expression, engine: Engine) -> pa.ChunkedArray:
    cursor = engine.store.cursor()
    try:
        register_expressions(cursor, [expression], engine.functions, engine.store.functions)
        text = compile_expression(expression, engine.functions, exact=False, columns=_no_columns)
        return cursor.sql(f"SELECT {text} AS v").to_arrow_table().column(0)
    finally:
        cursor.close()


def _shown(expression: Expression, engine: Engine) -> str | None:
    """The value of an expression as text; None where it cannot be computed."""
    texted = expression if expression.type == BYTES else Cast(expression, STRING)
    try:
        value = _evaluated(texted, engine)[0].as_py()
    except duckdb.Error:
        return None
    if value is None:
        return "null"
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _literal(expression: Expression, column: Column) -> pa.Array | None:
    """One value that needs no computing."""
    if isinstance(expression, Literal) and expression.type == column.type:
        return pa.array([expression.value], arrow_type(column.type))
    return None


def _as(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Values in the column's Arrow type; times as ms where the column is a number (ROWTIME)."""
    if column.type == BIGINT and pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("ms"))
    return values.cast(arrow_type(column.type))


def _fitting(expression: Expression, column: Column, engine: Engine) -> Expression:
    """The expression as the column's type; literals are converted more freely than the rest."""
    target = column.type
    if assignable(expression.type, target):
        return coerce(expression, target)
    if column.name == "ROWTIME" and expression.type in (STRING, TIMESTAMP):
        return expression if expression.type == TIMESTAMP else Cast(expression, TIMESTAMP)
    if isinstance(expression, Literal) and expression.type == STRING and target == BOOLEAN:
        with contextlib.suppress(StatementError):
            # A CAST makes false of any other text.
            return text_as_boolean(str(expression.value))
    elif isinstance(expression, _CONSTRUCTORS) and constant_assignable(expression.type, target):
        return Cast(expression, target, implicit=True)
    shown = _shown(expression, engine)
    if shown is None:
        raise wordings.VALUE_FAILED(column=column.name, type=expression.type)
    raise _unfit(expression, column, shown)


def _unfit(expression: Expression, column: Column, shown: str, why: str = "") -> StatementError:
    """The refusal of a value that its column does not take."""
    return wordings.VALUE_TYPE(
        target=column.type,
        column=column.name,
        type=re.split("[(<]", str(expression.type))[0],
        value=shown,
        detail=why,
        hint="Use CAST to convert the value.",
    )


def _no_columns(name: str) -> str:
    raise TypeError(f"no column is in sight where {name} was typed")
