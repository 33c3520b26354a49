"""Types in column lists and CAST: text -> sqlglot DataType."""

from __future__ import annotations

from sqlglot import exp

from .cursor import MAX_DEPTH, Cursor
from .names import identifier
from .tokens import Kind

_T = exp.DType

PRIMITIVES: dict[str, exp.DType] = {
    "BOOLEAN": _T.BOOLEAN,
    "INT": _T.INT,
    "INTEGER": _T.INT,
    "BIGINT": _T.BIGINT,
    "DOUBLE": _T.DOUBLE,
    "STRING": _T.VARCHAR,
    "VARCHAR": _T.VARCHAR,
    "BYTES": _T.VARBINARY,
    "DATE": _T.DATE,
    "TIME": _T.TIME,
    "TIMESTAMP": _T.TIMESTAMP,
}
"""Spelling -> sqlglot type."""


def data_type(cursor: Cursor) -> exp.DataType:
    """`type`: a primitive, DECIMAL(p, s), ARRAY<…>, MAP<…, …>, STRUCT<…> or a custom type, each
    with ARRAY behind it for an array of it."""
    start = cursor.at
    with cursor.nested():
        if cursor.looking_at("ARRAY", "<"):
            node = _array(cursor)
        elif cursor.looking_at("MAP", "<"):
            node = _map(cursor)
        elif cursor.looking_at("STRUCT", "<") or cursor.looking_at("STRUCT", "<>"):
            node = _struct(cursor)
        else:
            node = _base(cursor)
        return _arrays_of(cursor, cursor.marked(node, start), start)


def _arrays_of(cursor: Cursor, element: exp.DataType, start: int) -> exp.DataType:
    """`type ARRAY ARRAY …`. Each may have as many levels as all of `cursor.nested()`, and be nested
    in another one, so the depth of the result must be bounded."""
    while cursor.accept("ARRAY"):
        node = exp.DataType(this=_T.ARRAY, expressions=[element], nested=True)
        element = cursor.marked(node, start)
        if cursor.depth - 1 + _levels(element) > MAX_DEPTH:
            raise cursor.too_deep()
    return element


def _levels(tree: exp.DataType) -> int:
    """The nesting depth of a type."""
    deepest, left = 0, [(tree, 1)]
    while left:
        node, level = left.pop()
        deepest = max(deepest, level)
        parts = (
            part.args["kind"] if isinstance(part, exp.ColumnDef) else part
            for part in node.expressions
        )
        left += [(part, level + 1) for part in parts if isinstance(part, exp.DataType)]
    return deepest


def _array(cursor: Cursor) -> exp.DataType:
    cursor.expect("ARRAY", "<")
    element = data_type(cursor)
    cursor.expect(">")
    return exp.DataType(this=_T.ARRAY, expressions=[element], nested=True)


def _map(cursor: Cursor) -> exp.DataType:
    cursor.expect("MAP", "<")
    key = data_type(cursor)
    cursor.expect(",")
    value = data_type(cursor)
    cursor.expect(">")
    return exp.DataType(this=_T.MAP, expressions=[key, value], nested=True)


def _struct(cursor: Cursor) -> exp.DataType:
    cursor.expect("STRUCT")
    if cursor.accept("<>"):  # One token: it is an operator everywhere else.
        return exp.DataType(this=_T.STRUCT, expressions=[], nested=True)
    cursor.expect("<")
    fields = () if cursor.accept(">") else cursor.comma_list(_field, ">")
    return exp.DataType(this=_T.STRUCT, expressions=list(fields), nested=True)


def _field(cursor: Cursor) -> exp.ColumnDef:
    start = cursor.at
    name = identifier(cursor.name())
    return cursor.marked(exp.ColumnDef(this=name, kind=data_type(cursor)), start)


def _base(cursor: Cursor) -> exp.DataType:
    token = cursor.token
    if token.upper == "DECIMAL":
        cursor.advance()
        parameters = _parameters(cursor)
        return exp.DataType(
            this=_T.DECIMAL,
            expressions=[exp.DataTypeParam(this=exp.Literal.number(p)) for p in parameters],
            nested=False,
        )
    if cursor.is_name() and token.kind is Kind.WORD and token.upper in PRIMITIVES:
        cursor.advance()
        _parameters(cursor)  # VARCHAR(n) and the like are accepted and ignored.
        return exp.DataType(this=PRIMITIVES[token.upper], nested=False)
    return exp.DataType(this=_T.USERDEFINED, kind=cursor.name("type"), nested=False)


def _parameters(cursor: Cursor) -> tuple[str, ...]:
    return cursor.comma_list(_parameter, ")") if cursor.accept("(") else ()


def _parameter(cursor: Cursor) -> str:
    if cursor.token.kind is not Kind.INTEGER and not cursor.looking_at("STRING"):
        raise cursor.unexpected("'STRING'", "INTEGER_VALUE")
    return cursor.advance().text
