"""Typed expressions: the result of binding the parser's trees, and the input of every later phase.

Invariants, which later phases need not check again:
* a `ColumnRef` names a column of the relation the expression is evaluated over;
* the operands of `Compare`, `Between`, `In`, `Like` and the items of constructors have one type
  each: implicit conversions are `Cast` nodes with `implicit=True`;
* `Arithmetic` holds its result type; its operands are numbers (or two strings for `+`).
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from millstream.model.types import BOOLEAN, SqlType

Value = (
    bool
    | int
    | float
    | decimal.Decimal
    | str
    | bytes
    | datetime.date
    | datetime.time
    | datetime.datetime
    | None
)


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of the input relation, by its exact name (ROWTIME etc. included)."""

    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class LambdaRef:
    """A parameter of an enclosing lambda."""

    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. DECIMAL values are `decimal.Decimal`, interval units are `str`."""

    value: Value
    type: SqlType


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function of the catalogue; `variant` is the index of the chosen signature."""

    function: str
    variant: int
    arguments: tuple[Expression, ...]
    type: SqlType


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate function over rows. `constants` are its literal initial arguments."""

    function: str
    variant: int
    arguments: tuple[Expression, ...]
    constants: tuple[Value, ...]
    type: SqlType


@dataclass(frozen=True, slots=True)
class TableCall:
    """A table function: one row in, any number of rows out. `type` is that of one output row."""

    function: str
    variant: int
    arguments: tuple[Expression, ...]
    type: SqlType


@dataclass(frozen=True, slots=True)
class LambdaExpression:
    """`(a, b) => body`, an argument of TRANSFORM, FILTER and REDUCE."""

    parameters: tuple[LambdaRef, ...]
    body: Expression

    @property
    def type(self) -> SqlType:
        """The type of the body."""
        return self.body.type


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion, written by the user or (`implicit`) inserted by `bind`."""

    operand: Expression
    type: SqlType
    implicit: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`+ - * / %` on two numbers; `+` on two strings concatenates."""

    operator: str
    left: Expression
    right: Expression
    type: SqlType


@dataclass(frozen=True, slots=True)
class Negate:
    """Unary minus."""

    operand: Expression
    type: SqlType


@dataclass(frozen=True, slots=True)
class Compare:
    """`= <> < <= > >=` (FALSE on NULL), `IS DISTINCT FROM`, `IS NOT DISTINCT FROM`."""

    operator: str
    left: Expression
    right: Expression
    type: SqlType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Between:
    """Inclusive range test; FALSE when any operand is NULL."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    type: SqlType = BOOLEAN


@dataclass(frozen=True, slots=True)
class In:
    """Membership; NULL never matches."""

    operand: Expression
    options: tuple[Expression, ...]
    negated: bool = False
    type: SqlType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Like:
    """`%` any run, `_` one character, `escape` a single character or None."""

    operand: Expression
    pattern: Expression
    escape: str | None = None
    negated: bool = False
    type: SqlType = BOOLEAN


@dataclass(frozen=True, slots=True)
class IsNull:
    """`IS NULL`, or `IS NOT NULL` when negated."""

    operand: Expression
    negated: bool = False
    type: SqlType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Logical:
    """AND / OR of two operands."""

    operator: str
    left: Expression
    right: Expression
    type: SqlType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Not:
    """Boolean negation."""

    operand: Expression
    type: SqlType = BOOLEAN


@dataclass(frozen=True, slots=True)
class Case:
    """Searched CASE; evaluated lazily; NULL without ELSE."""

    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression | None
    type: SqlType


@dataclass(frozen=True, slots=True)
class MakeArray:
    """`ARRAY[…]`."""

    items: tuple[Expression, ...]
    type: SqlType


@dataclass(frozen=True, slots=True)
class MakeMap:
    """`MAP(k := v, …)`."""

    entries: tuple[tuple[Expression, Expression], ...]
    type: SqlType


@dataclass(frozen=True, slots=True)
class MakeStruct:
    """`STRUCT(f := v, …)`."""

    fields: tuple[tuple[str, Expression], ...]
    type: SqlType


@dataclass(frozen=True, slots=True)
class Subscript:
    """Array element (1-based, negative from the end) or map value; NULL when there is none."""

    base: Expression
    index: Expression
    type: SqlType


@dataclass(frozen=True, slots=True)
class FieldOf:
    """`struct->field`; NULL for a NULL struct."""

    base: Expression
    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call that a program has computed before, by the name it gave it: the call's value, or its
    failure."""

    name: str
    type: SqlType


Expression = (
    ColumnRef
    | LambdaRef
    | Literal
    | Call
    | AggregateCall
    | TableCall
    | LambdaExpression
    | Cast
    | Arithmetic
    | Negate
    | Compare
    | Between
    | In
    | Like
    | IsNull
    | Logical
    | Not
    | Case
    | MakeArray
    | MakeMap
    | MakeStruct
    | Subscript
    | FieldOf
    | Attempt
)


def children(expression: Expression) -> Iterator[Expression]:
    """The direct operands of an expression, in written order."""
    for name in expression.__slots__:
        yield from _expressions_in(getattr(expression, name))


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, parents first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def column_names(expression: Expression) -> tuple[str, ...]:
    """The columns an expression reads, each once, in order of appearance."""
    return tuple(dict.fromkeys(e.name for e in walk(expression) if isinstance(e, ColumnRef)))


def _expressions_in(item: Any) -> Iterator[Expression]:
    if isinstance(item, Expression):
        yield item
    elif isinstance(item, tuple):
        for member in item:
            yield from _expressions_in(member)
