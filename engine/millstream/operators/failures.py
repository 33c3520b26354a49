"""Which parts of typed expressions may fail, and of what that is a failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from millstream.model.expressions import (
    AggregateCall,
    Arithmetic,
    Attempt,
    Between,
    Call,
    Case,
    Cast,
    ColumnRef,
    Compare,
    Expression,
    FieldOf,
    In,
    IsNull,
    LambdaExpression,
    LambdaRef,
    Like,
    Literal,
    Logical,
    MakeArray,
    MakeMap,
    MakeStruct,
    Negate,
    Not,
    TableCall,
    children,
)
from millstream.model.types import BIGINT, DOUBLE, INTEGER

NULL_SAFE = ("IS DISTINCT FROM", "IS NOT DISTINCT FROM")


def cannot_raise(expression: Expression) -> bool:
    """Whether the text of an expression has a value for every row."""
    match expression:
        case ColumnRef() | LambdaRef() | Literal():
            return True
        case Arithmetic(_, _, _, kind) if kind != DOUBLE:
            return False
        case Negate(Literal(int() as value), _):
            return value >= 0
        case Logical(_, left, right) if not (never_null(left) and never_null(right)):
            return False
        case Not(operand) if not never_null(operand):
            return False
        case Negate(_, kind) if kind != DOUBLE:
            return False
        case Cast(operand, kind):
            widens = (kind == BIGINT and operand.type == INTEGER) or (
                kind == DOUBLE and operand.type in (INTEGER, BIGINT)
            )
            return widens and cannot_raise(operand)
        case (
            Like(escape=str())
            | Call()
            | Attempt()
            | MakeMap()
            | LambdaExpression()
            | AggregateCall()
            | TableCall()
        ):
            return False
        case _:
            return all(map(cannot_raise, children(expression)))


def contained_parts(expression: Expression) -> Iterable[Expression]:
    """The parts of an expression that are NULL in it by themselves where they fail. As in
    ksqlDB (`ksql.nested.error.set.null`) these are casts, the items of ARRAY, MAP and STRUCT, and
    some arguments. A cast is NULL where its operand fails."""
    match expression:
        case Cast(_, _, False) | MakeArray() | MakeMap() | MakeStruct():
            return children(expression)
        case Call(arguments=arguments):
            return filter(contained_as_argument, arguments)
        case _:
            return ()


def contained_as_argument(argument: Expression) -> bool:
    """Whether an argument of a function is NULL by itself where it fails: a call, a field, and what
    has another type than the function takes."""
    return isinstance(argument, Call | FieldOf | Cast)


def looked_at(expression: Expression, *, contained: bool) -> Iterator[Expression]:
    """The parts whose failure is one of the whole, whatever the other parts are."""
    yield expression
    match expression:
        case Case(branches):
            parts: Iterable[Expression] = [branches[0][0]]
        case Logical(_, left, _) | Between(left, _, _):
            parts = [left]
        case Compare(operator, left, _) if operator not in NULL_SAFE:
            parts = [left]
        case LambdaExpression():
            parts = []
        case _:
            parts = children(expression)
    apart = {id(part) for part in contained_parts(expression)} if contained else set[int]()
    for part in parts:
        if id(part) not in apart:
            yield from looked_at(part, contained=contained)


def failing(expressions: Sequence[Expression]) -> list[int]:
    """The places of those that may raise by themselves."""
    return [
        place
        for place, item in enumerate(expressions)
        if not (isinstance(item, LambdaExpression) or cannot_raise(item))
    ]


def never_null(expression: Expression) -> bool:
    """Whether an expression has a value other than NULL for every row in which it does not fail."""
    match expression:
        case Compare() | Between() | In() | Like() | IsNull():
            return True
        case Logical(_, left, right):
            return never_null(left) and never_null(right)
        case Not(operand):
            return never_null(operand)
        case Literal(value):
            return value is not None
        case _:
            return False
