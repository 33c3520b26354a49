"""The operands of expressions: literals, columns, calls, constructors, CASE, CAST and lambdas."""

from __future__ import annotations

import math
from collections.abc import Callable

from sqlglot import exp

from millstream_grammar.keywords import HARD, TIME_UNITS

from . import expressions
from .cursor import Cursor, check_integer
from .names import identifier
from .tokens import Kind
from .types import data_type

_LAMBDA_PARAMETERS = 3


def primary(cursor: Cursor, *, negative: bool = False) -> exp.Expression:
    """An operand with its `[index]` and `->field` suffixes. `negative`: a minus sign precedes it,
    which allows the lowest 64-bit integer."""
    start = cursor.at
    tree = _literal(cursor, negative=negative)
    if tree is None and cursor.accept("("):
        tree = expressions.expression(cursor)
        cursor.expect(")")
    elif tree is None:
        read = _reader(cursor)
        if read is None:
            raise cursor.unexpected()
        if read is _column:
            tree = _column(cursor)
        else:  # Calls and constructors use more of Python's stack than parentheses do.
            with cursor.nested():
                tree = read(cursor)
        tree = cursor.marked(tree, start)
    while True:
        if cursor.accept("["):
            index = expressions.value_expression(cursor)
            cursor.expect("]")
            tree = exp.Bracket(this=tree, expressions=[index])
        elif cursor.looking_at("->") and cursor.ahead(1).upper != "*":
            cursor.advance()
            field = cursor.marked(identifier(cursor.name()), cursor.at - 1)
            tree = exp.Dot(this=tree, expression=field)
        else:
            return tree
        tree = cursor.marked(tree, start)


def _reader(cursor: Cursor) -> Callable[[Cursor], exp.Expression] | None:
    """The production that reads the operand at the cursor, if one can start here."""
    following = cursor.ahead(1)
    match cursor.token.upper, following.upper:
        case "CASE", _:
            return _case
        case "CAST", _:
            return _cast
        case "DECIMAL", _ if following.kind is Kind.STRING:
            return _typed_decimal
        case "ARRAY", "[":
            return _array
        case "MAP", "(":
            return _map
        case "STRUCT", "(":
            return _struct
    if not cursor.is_name():
        return None
    return _call if following.upper == "(" else _column


def _literal(cursor: Cursor, *, negative: bool) -> exp.Expression | None:
    token = cursor.token
    tree: exp.Expression
    match token.kind:
        case Kind.STRING:
            tree = exp.Literal.string(token.text)
        case Kind.INTEGER:
            check_integer(cursor, token, negative=negative)
            tree = exp.Literal.number(token.text)
        case Kind.DECIMAL:
            tree = exp.Literal.number(token.text)
        case Kind.FLOAT:
            if math.isinf(float(token.text)):
                sign = "-" if negative else ""
                raise cursor.fail(f"Number overflows DOUBLE: {sign}{cursor.shown(token)}", token)
            tree = exp.Literal.number(token.text)
        case _:
            match token.upper:
                case "TRUE" | "FALSE":
                    tree = exp.Boolean(this=token.upper == "TRUE")
                case "NULL":
                    tree = exp.Null()
                case _:
                    return None
    cursor.advance()
    return cursor.marked(tree, cursor.at - 1)


def _column(cursor: Cursor) -> exp.Expression:
    start = cursor.at
    first = cursor.marked(identifier(cursor.name()), start)
    if not (cursor.looking_at(".") and cursor.ahead(1).upper != "*"):
        return exp.Column(this=first)
    cursor.advance()
    name = cursor.marked(identifier(cursor.name()), cursor.at - 1)
    return exp.Column(this=name, table=first)


def _call(cursor: Cursor) -> exp.Expression:
    """`name(arguments)`; after a lambda, only lambdas follow."""
    name = cursor.advance().text.upper()
    cursor.expect("(")
    arguments: list[exp.Expression] = []
    if cursor.looking_at("*"):
        arguments.append(cursor.marked(exp.Star(), cursor.at))
        cursor.advance()
        cursor.expect(")")
        return exp.Anonymous(this=name, expressions=arguments)
    closed = cursor.accept(")")
    lambdas = False
    while not closed:
        if arguments and _starts_lambda(cursor):
            lambdas = True
        elif lambdas:
            raise cursor.fail("A lambda must come after every other argument of a function")
        unit = None if lambdas else _unit(cursor)
        arguments.append(unit or (_lambda(cursor) if lambdas else expressions.expression(cursor)))
        closed = cursor.accept(")")
        if not closed and not cursor.accept(","):
            raise cursor.unexpected("','", "')'")
    return exp.Anonymous(this=name, expressions=arguments)


def _unit(cursor: Cursor) -> exp.Expression | None:
    """A time unit as an argument. DAY, HOUR, MINUTE and SECOND are names: they may be columns."""
    word = cursor.token.upper
    if word not in TIME_UNITS or word not in HARD:
        return None
    cursor.advance()
    return cursor.marked(exp.Var(this=TIME_UNITS[word]), cursor.at - 1)


def _starts_lambda(cursor: Cursor) -> bool:
    if cursor.is_name():
        return cursor.ahead(1).upper == "=>"
    if not cursor.looking_at("("):
        return False
    n = 1
    while cursor.is_name(n) and cursor.ahead(n + 1).upper == ",":
        n += 2
    return (
        cursor.is_name(n) and cursor.ahead(n + 1).upper == ")" and cursor.ahead(n + 2).upper == "=>"
    )


def _lambda(cursor: Cursor) -> exp.Expression:
    start = cursor.at
    listed = cursor.accept("(")
    parameters = cursor.comma_list(_parameter, ")") if listed else (_parameter(cursor),)
    if len(parameters) > _LAMBDA_PARAMETERS:
        raise cursor.fail(
            f"A lambda takes at most {_LAMBDA_PARAMETERS} parameters, not {len(parameters)}",
            cursor.tokens[start],
        )
    cursor.expect("=>")
    body = expressions.expression(cursor)
    return cursor.marked(exp.Lambda(this=body, expressions=list(parameters)), start)


def _parameter(cursor: Cursor) -> exp.Identifier:
    return cursor.marked(identifier(cursor.name()), cursor.at - 1)


def _case(cursor: Cursor) -> exp.Expression:
    cursor.expect("CASE")
    operand = None if cursor.looking_at("WHEN") else expressions.value_expression(cursor)
    branches = [_when(cursor)]
    while cursor.looking_at("WHEN"):
        branches.append(_when(cursor))
    default = expressions.expression(cursor) if cursor.accept("ELSE") else None
    cursor.expect("END")
    return exp.Case(this=operand, ifs=branches, default=default)


def _when(cursor: Cursor) -> exp.If:
    start = cursor.at
    cursor.expect("WHEN")
    condition = expressions.expression(cursor)
    cursor.expect("THEN")
    result = expressions.expression(cursor)
    return cursor.marked(exp.If(this=condition, true=result), start)


def _cast(cursor: Cursor) -> exp.Expression:
    cursor.expect("CAST", "(")
    operand = expressions.expression(cursor)
    cursor.expect("AS")
    target = data_type(cursor)
    cursor.expect(")")
    return exp.Cast(this=operand, to=target)


def _typed_decimal(cursor: Cursor) -> exp.Expression:
    """`DECIMAL '1.20'`: a cast of the text to its own precision and scale."""
    cursor.expect("DECIMAL")
    token = cursor.token
    text = cursor.string()
    whole, _, fraction = text.lstrip("+-").partition(".")
    if not (whole + fraction).isascii() or not (whole + fraction).isdigit():
        raise cursor.fail(f"Invalid decimal literal: {text!r}", token)
    scale = len(fraction)
    precision = max(len(whole.lstrip("0")), 1) + scale
    target = exp.DataType(
        this=exp.DataType.Type.DECIMAL,
        expressions=[
            exp.DataTypeParam(this=exp.Literal.number(str(n))) for n in (precision, scale)
        ],
        nested=False,
    )
    literal = cursor.marked(exp.Literal.string(text), cursor.at - 1)
    return exp.Cast(this=literal, to=target)


def _array(cursor: Cursor) -> exp.Expression:
    cursor.expect("ARRAY", "[")
    if cursor.accept("]"):
        return exp.Array(expressions=[])
    return exp.Array(expressions=list(cursor.comma_list(expressions.expression, "]")))


def _map(cursor: Cursor) -> exp.Expression:
    cursor.expect("MAP", "(")
    entries = () if cursor.accept(")") else cursor.comma_list(_entry, ")")
    return exp.Map(
        keys=exp.Array(expressions=[key for key, _ in entries]),
        values=exp.Array(expressions=[value for _, value in entries]),
    )


def _entry(cursor: Cursor) -> tuple[exp.Expression, exp.Expression]:
    key = expressions.expression(cursor)
    cursor.expect(":=")
    return key, expressions.expression(cursor)


def _struct(cursor: Cursor) -> exp.Expression:
    cursor.expect("STRUCT", "(")
    fields = () if cursor.accept(")") else cursor.comma_list(_struct_field, ")")
    return exp.Struct(expressions=list(fields))


def _struct_field(cursor: Cursor) -> exp.Expression:
    start = cursor.at
    name = cursor.marked(identifier(cursor.name()), start)
    cursor.expect(":=")
    value = expressions.expression(cursor)
    return cursor.marked(exp.PropertyEQ(this=name, expression=value), start)
