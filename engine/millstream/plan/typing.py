"""Expressions of the parser -> typed expressions; every name is resolved, every type checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from millstream.model import refusals
from millstream.model.errors import StatementError, prefixed
from millstream.model.expressions import (
    Between,
    Case,
    Cast,
    ColumnRef,
    Expression,
    In,
    IsNull,
    LambdaRef,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
)
from millstream.model.types import (
    BOOLEAN,
    INTERVAL_UNIT,
    NULL,
    STRING,
    SqlType,
    is_numeric,
)
from millstream.plan import wordings
from millstream.plan.calls import type_call
from millstream.plan.casting import check_cast
from millstream.plan.coercion import Item, unify
from millstream.plan.literals import coerce, is_null, negated, number_literal
from millstream.plan.nested import field_of, make_array, make_map, make_struct, subscript
from millstream.plan.operators import arithmetic, boolean, compare, timestamp_text
from millstream.plan.quoting import quoted
from millstream.plan.scope import Scope, location, resolve_column
from millstream.plan.types import sql_type

_COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
}
_ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}


def type_expression(tree: exp.Expression, scope: Scope) -> Expression:
    """The typed form of an expression.

    Raises StatementError for unknown names, types that do not fit and calls that are not allowed
    here, with the position of the smallest invalid expression. An untyped NULL keeps the type NULL.
    """
    try:
        return _typed(tree, scope)
    except StatementError as error:
        error.span = error.span or location(tree, scope.text)[0]
        raise


def _typed(tree: exp.Expression, scope: Scope) -> Expression:
    kind = type(tree)
    if kind in _COMPARISONS:
        left, right = _item(tree.this, scope), _item(tree.expression, scope)
        left = timestamp_text(_column_name(tree.expression), left)
        right = timestamp_text(_column_name(tree.this), right)
        return compare(_COMPARISONS[kind], left, right)
    if kind in _ARITHMETIC:
        left, right = _item(tree.this, scope), _item(tree.expression, scope)
        return arithmetic(_ARITHMETIC[kind], left, right, quoted(tree, scope))
    match tree:
        case exp.Column():
            return resolve_column(tree, scope)
        case exp.Literal() if tree.is_string:
            return Literal(str(tree.this), STRING)
        case exp.Literal():
            return number_literal(str(tree.this))
        case exp.Boolean():
            return Literal(bool(tree.this), BOOLEAN)
        case exp.Null():
            return Literal(None, NULL)
        case exp.Var():
            return Literal(str(tree.this), INTERVAL_UNIT)
        case exp.Anonymous():
            return type_call(str(tree.this), tree.expressions, scope, type_expression)
        case exp.DPipe():
            return type_call("CONCAT", [tree.this, tree.expression], scope, type_expression)
        case exp.Paren():
            return type_expression(tree.this, scope)
        case exp.Cast():
            return _cast(tree, scope)
        case exp.Neg():
            return _negate(tree, scope)
        case exp.And() | exp.Or() | exp.Not() | exp.Is() | exp.Between() | exp.In():
            return _predicate(tree, scope)
        case exp.Like() | exp.Escape():
            return _like(tree, scope)
        case exp.Case():
            return _case(tree, scope)
        case exp.Array() | exp.Map() | exp.Struct():
            return _constructor(tree, scope)
        case exp.Bracket():
            base, index = _item(tree.this, scope), _item(tree.expressions[0], scope)
            return subscript(base, index, quoted(tree, scope))
        case exp.Dot():
            return field_of(_item(tree.this, scope), tree.expression.name)
        case exp.AtTimeZone():
            raise wordings.AT_TIME_ZONE(
                expression=quoted(tree, scope),
                hint="Use CONVERT_TZ(timestamp, from_zone, to_zone), or FORMAT_TIMESTAMP with a"
                " time zone.",
            )
        case _:
            raise TypeError(f"the parser makes no {type(tree).__name__} here")


def _item(tree: exp.Expression, scope: Scope) -> Item:
    return Item(type_expression(tree, scope), quoted(tree, scope))


def _column_name(tree: exp.Expression) -> str | None:
    return tree.name if isinstance(tree, exp.Column) else None


def _invalid(scope: Scope, error: StatementError) -> StatementError:
    part = "Select" if scope.clause == "SELECT" else "Predicate"
    return prefixed(f"Invalid {part}: ", error)


def _cast(tree: exp.Cast, scope: Scope) -> Expression:
    assert isinstance(tree.args["to"], exp.DataType)
    target = sql_type(tree.args["to"], scope.types)
    operand = type_expression(tree.this, scope)
    try:
        check_cast(operand.type, target)
    except StatementError as error:
        raise _invalid(scope, error) from error
    if is_null(operand):
        return Literal(None, target)
    if operand.type == target and isinstance(operand, ColumnRef | LambdaRef | Literal):
        return operand
    # Also of the same type: a cast is NULL where its operand fails.
    return Cast(operand, target)


def _negate(tree: exp.Neg, scope: Scope) -> Expression:
    if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
        return number_literal(f"-{tree.this.this}")
    operand = type_expression(tree.this, scope)
    if isinstance(operand, Literal) and operand.value is not None:
        return negated(operand)
    if not is_numeric(operand.type):
        raise wordings.NEGATED_TYPE(expression=quoted(tree, scope), type=operand.type)
    return Negate(operand, operand.type)


def _predicate(tree: exp.Expression, scope: Scope) -> Expression:
    match tree:
        case exp.And() | exp.Or():
            word = "AND" if isinstance(tree, exp.And) else "OR"
            sides = [
                boolean(_item(side, scope), f"Operand of {word}")
                for side in (tree.this, tree.expression)
            ]
            return Logical(word, sides[0], sides[1])
        case exp.Not():
            inner = boolean(_item(tree.this, scope), "Operand of NOT")
            if isinstance(inner, IsNull | In | Between | Like):
                return replace(inner, negated=not inner.negated)
            return Not(inner)
        case exp.Is():
            return IsNull(type_expression(tree.this, scope))
        case exp.Between():
            return _between(tree, scope)
        case _:
            items = [_item(option, scope) for option in (tree.this, *tree.expressions)]
            try:
                _, (operand, *options) = unify(items)
            except StatementError as error:
                raise _invalid(scope, error) from error
            return In(operand, tuple(options))


def _between(tree: exp.Between, scope: Scope) -> Expression:
    column = _column_name(tree.this)
    operand = _item(tree.this, scope)
    low, high = (timestamp_text(column, _item(tree.args[end], scope)) for end in ("low", "high"))
    try:
        lower, upper = compare(">=", operand, low), compare("<=", operand, high)
    except StatementError as error:
        raise prefixed("Invalid expression: ", error) from error
    common = compare(">=", Item(lower.right, low.source), Item(upper.right, high.source)).left.type
    first, second, third = (coerce(item.expression, common) for item in (operand, low, high))
    return Between(first, second, third)


def _like(tree: exp.Expression, scope: Scope) -> Expression:
    escape = None
    if isinstance(tree, exp.Escape):
        escape = str(tree.expression.this)
        tree = tree.this
    sides = [_item(side, scope) for side in (tree.this, tree.expression)]
    pattern = sides[1].expression
    text = pattern.value if isinstance(pattern, Literal) else None
    # An escape character escapes itself: only an odd number of them at the end is wrong.
    if escape and isinstance(text, str) and (len(text) - len(text.rstrip(escape))) % 2:
        raise wordings.ESCAPE_AT_END(source=sides[1].source)
    for side in sides:
        if side.expression.type != STRING:
            raise wordings.LIKE_TYPE(type=side.expression.type, expression=quoted(tree, scope))
    return Like(sides[0].expression, sides[1].expression, escape)


def _case(tree: exp.Case, outside: Scope) -> Expression:
    known = outside.catalogue.table
    for call in tree.find_all(exp.Anonymous) if outside.tables else ():
        if call.name.upper() in known:
            raise refusals.TABLE_FUNCTION_IN_CASE(function=call.name.upper())
    scope = replace(outside, tables=False)
    if tree.this is not None:
        raise wordings.CASE_WITH_OPERAND()
    conditions = [_condition(branch.this, scope) for branch in tree.args["ifs"]]
    results = [type_expression(branch.args["true"], scope) for branch in tree.args["ifs"]]
    default = tree.args.get("default")
    otherwise = None if default is None else type_expression(default, scope)
    kinds = {kind} if (kind := _kind_of_results(tree, results, scope)) is not None else set()
    if otherwise is not None and not is_null(otherwise):
        if kinds and otherwise.type not in kinds:
            raise wordings.CASE_DEFAULT_TYPE(then=next(iter(kinds)), default=otherwise.type)
        kinds.add(otherwise.type)
    if not kinds:
        raise wordings.CASE_OF_NULL()
    kind = kinds.pop()
    branches = zip(conditions, (coerce(result, kind) for result in results), strict=True)
    return Case(tuple(branches), None if otherwise is None else coerce(otherwise, kind), kind)


def _condition(tree: exp.Expression, scope: Scope) -> Expression:
    item = _item(tree, scope)
    if not is_null(item.expression) and item.expression.type != BOOLEAN:
        raise wordings.WHEN_TYPE(source=item.source, type=item.expression.type)
    return boolean(item, "WHEN operand")


def _kind_of_results(tree: exp.Case, results: Sequence[Expression], scope: Scope) -> SqlType | None:
    """The common type of the THEN results; None where all of them are NULL."""
    found: SqlType | None = None
    for branch, result in zip(tree.args["ifs"], results, strict=True):
        if found is not None and not is_null(result) and result.type != found:
            when, then = quoted(branch.this, scope), quoted(branch.args["true"], scope)
            raise wordings.CASE_TYPES(
                branch=f"WHEN {when} THEN {then}", type=result.type, then=found
            )
        if not is_null(result):
            found = result.type
    return found


def _constructor(tree: exp.Expression, scope: Scope) -> Expression:
    match tree:
        case exp.Array():
            return make_array([_item(item, scope) for item in tree.expressions])
        case exp.Map():
            keys, values = (
                [_item(item, scope) for item in tree.args[side].expressions]
                for side in ("keys", "values")
            )
            return make_map(keys, values)
        case _:
            fields = [
                (pair.this.name, type_expression(pair.expression, scope))
                for pair in tree.expressions
            ]
            return make_struct(fields)
