"""Typed expressions: `col`, `lit`, operators, CASE and STRUCT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from decimal import Decimal
from typing import NoReturn, TypeAlias

from sqlglot import exp

from millstream.dsl.chains import CHAIN, chained, depth_of
from millstream.model.names import STAR, folded, split_name
from millstream_parser import (
    Parameters,
    SyntaxFailure,
    parse_expression,
    parse_type,
    print_expression,
)
from millstream_parser.names import identifier

Value: TypeAlias = (
    "Expr | bool | int | float | Decimal | str | date | time"
    " | Sequence[Value] | Mapping[str, Value] | None"
)
"""What an expression may be made of; a datetime is a date, too. Lists are arrays, dicts maps."""
Scalar = bool | int | float | Decimal | str | date | time | None

_MAX_DEPTH = 128
"""The parser accepts no deeper nesting, and printing is recursive."""
_KINDS = (
    "Use an expression, None, a bool, int, float, Decimal, str, date, time or datetime,"
    " a list of them (an array) or a dict from str (a map)."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr:
    """An expression over the columns of a stream or table. It is not computed in Python: it becomes
    a part of a statement. `name`: that of its column in a result, if it was given one."""

    node: exp.Expression
    """The tree, or for a chain of ANDs or ORs an empty node of its kind."""
    name: str | None = None
    operands: tuple[exp.Expression, ...] = ()
    """Those of a chain. Its tree is made when it is needed: it is balanced, so that each further
    condition changes all of it."""

    def __post_init__(self) -> None:
        if len(self.operands) <= CHAIN and depth_of(self.tree, _MAX_DEPTH) > _MAX_DEPTH:
            raise ValueError(f"An expression is nested at most {_MAX_DEPTH} levels deep")

    @property
    def tree(self) -> exp.Expression:
        """The parser's tree of it."""
        return chained(type(self.node), self.operands) if self.operands else self.node

    def __repr__(self) -> str:
        alias = "" if self.name is None else f" AS {self.name}"
        return f"<Expr {print_expression(self.tree)}{alias}>"

    # --- what Python would do silently and wrongly ----------------------------------------------

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} has no truth value in Python. Use & for and, | for or, ~ for not (with"
            " parentheses around comparisons), .isin(…) for in, .between(…) for a < b < c, and"
            " when(…) for if."
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be iterated over in Python; fn.explode makes rows of it")

    def __contains__(self, _: object) -> NoReturn:
        raise TypeError(f"`in` cannot be used with {self!r}: use .isin(…) or fn.array_contains")

    __hash__ = None  # type: ignore[assignment]  # == makes an expression.

    # --- operators ------------------------------------------------------------------------------

    def __add__(self, other: Value) -> Expr:
        return _binary(exp.Add, self, other)

    def __radd__(self, other: Value) -> Expr:
        return _binary(exp.Add, other, self)

    def __sub__(self, other: Value) -> Expr:
        return _binary(exp.Sub, self, other)

    def __rsub__(self, other: Value) -> Expr:
        return _binary(exp.Sub, other, self)

    def __mul__(self, other: Value) -> Expr:
        return _binary(exp.Mul, self, other)

    def __rmul__(self, other: Value) -> Expr:
        return _binary(exp.Mul, other, self)

    def __truediv__(self, other: Value) -> Expr:
        return _binary(exp.Div, self, other)

    def __rtruediv__(self, other: Value) -> Expr:
        return _binary(exp.Div, other, self)

    def __mod__(self, other: Value) -> Expr:
        return _binary(exp.Mod, self, other)

    def __rmod__(self, other: Value) -> Expr:
        return _binary(exp.Mod, other, self)

    def __neg__(self) -> Expr:
        return Expr(exp.Neg(this=tree_of(self)))

    def __pos__(self) -> Expr:
        return Expr(tree_of(self))

    def __eq__(self, other: Value) -> Expr:  # type: ignore[override]
        return _binary(exp.EQ, self, _comparable(other, "is_null"))

    def __ne__(self, other: Value) -> Expr:  # type: ignore[override]
        return _binary(exp.NEQ, self, _comparable(other, "is_not_null"))

    def __lt__(self, other: Value) -> Expr:
        return _binary(exp.LT, self, other)

    def __le__(self, other: Value) -> Expr:
        return _binary(exp.LTE, self, other)

    def __gt__(self, other: Value) -> Expr:
        return _binary(exp.GT, self, other)

    def __ge__(self, other: Value) -> Expr:
        return _binary(exp.GTE, self, other)

    def __and__(self, other: Expr | bool) -> Expr:
        return _connected(exp.And, self, other)

    def __rand__(self, other: bool) -> Expr:
        return _connected(exp.And, other, self)

    def __or__(self, other: Expr | bool) -> Expr:
        return _connected(exp.Or, self, other)

    def __ror__(self, other: bool) -> Expr:
        return _connected(exp.Or, other, self)

    def __invert__(self) -> Expr:
        return Expr(exp.Not(this=tree_of(self)))

    def __getitem__(self, index: Expr | int | str) -> Expr:
        """`column[i]`: the element of an array (the first is 1, the last -1), or the value of a key
        of a map."""
        if isinstance(index, bool) or not isinstance(index, Expr | int | str):
            raise TypeError(
                f"An index is an int, a str or an expression, not {type(index).__name__};"
                " fn.slice(array, from, to) is a part of an array"
            )
        return Expr(exp.Bracket(this=tree_of(self), expressions=[tree_of(index)]))

    # --- methods --------------------------------------------------------------------------------

    def field(self, name: str) -> Expr:
        """`struct->name`."""
        field = identifier(folded(name, "The name of a field"))
        return Expr(exp.Dot(this=tree_of(self), expression=field))

    def all_fields(self) -> Expr:
        """`struct->*`: a column for each field of a struct, in `select`."""
        return Expr(exp.Dot(this=tree_of(self), expression=exp.Star()))

    def concat(self, other: Value) -> Expr:
        """`a || b`: both texts together."""
        return _binary(exp.DPipe, self, other)

    def is_null(self) -> Expr:
        """`IS NULL`."""
        return Expr(exp.Is(this=tree_of(self), expression=exp.Null()))

    def is_not_null(self) -> Expr:
        """`IS NOT NULL`."""
        return ~self.is_null()

    def is_distinct_from(self, other: Value) -> Expr:
        """`<>` that takes two NULLs for equal, and NULL and a value for different."""
        return _binary(exp.NullSafeNEQ, self, other)

    def is_not_distinct_from(self, other: Value) -> Expr:
        """`=` that takes two NULLs for equal, and NULL and a value for different."""
        return _binary(exp.NullSafeEQ, self, other)

    def between(self, low: Value, high: Value) -> Expr:
        """`BETWEEN low AND high`; both bounds belong to it."""
        return Expr(exp.Between(this=tree_of(self), low=tree_of(low), high=tree_of(high)))

    def isin(self, values: Sequence[Value]) -> Expr:
        """`IN (…)`: whether it is equal to one of the values."""
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise TypeError(f"isin takes a list of values, not {type(values).__name__}")
        if not values:
            raise ValueError("isin needs at least one value")
        return Expr(exp.In(this=tree_of(self), expressions=[tree_of(value) for value in values]))

    def like(self, pattern: Value, *, escape: str | None = None) -> Expr:
        """`LIKE`: `%` stands for any text, `_` for one character, unless `escape` is before it."""
        like = exp.Like(this=tree_of(self), expression=tree_of(pattern))
        if escape is None:
            return Expr(like)
        if not isinstance(escape, str) or len(escape) != 1:
            raise ValueError(f"escape is one character, not {escape!r}")
        return Expr(exp.Escape(this=like, expression=exp.Literal.string(escape)))

    def cast(self, type_: str) -> Expr:
        """`CAST(… AS type)`; the type as in SQL: "BIGINT", "DECIMAL(10, 2)", "ARRAY<STRING>"."""
        if not isinstance(type_, str):
            raise TypeError(f"cast takes the text of a type of SQL, not {type_!r}")
        try:
            return Expr(exp.Cast(this=tree_of(self), to=parse_type(type_)))
        except SyntaxFailure as failure:
            raise ValueError(f"{type_!r} is no type: {failure.message}") from None

    def alias(self, name: str) -> Expr:
        """`… AS name`: the name of its column in a result."""
        return replace(self, name=folded(name, "An alias"))


def col(name: str) -> Expr:
    """A column: `col("amount")`, `col("orders.amount")` of a source or its alias, or `col("*")`.
    Names are upper case, as in SQL, unless they are between backticks: col("`camelCase`")."""
    parts = split_name(name, "The name of a column")
    table = identifier(parts[0]) if len(parts) == 2 else None
    if parts[-1] != STAR:
        return Expr(column(parts[-1], parts[0] if table else None))
    return Expr(exp.Column(this=exp.Star(), table=table) if table else exp.Star())


def column(name: str, table: str | None = None) -> exp.Column:
    """The tree of a column with a stored name."""
    if table is None:
        return exp.Column(this=identifier(name))
    return exp.Column(this=identifier(name), table=identifier(table))


def lit(value: Value) -> Expr:
    """A constant. A float is a DOUBLE and a Decimal a DECIMAL; a list is an ARRAY and a dict with
    str keys a MAP, of constants or expressions."""
    return value if isinstance(value, Expr) else Expr(tree_of(value))


def struct(**fields: Value) -> Expr:
    """`STRUCT(name := value, …)`."""
    members = [
        exp.PropertyEQ(this=identifier(folded(name, "A field")), expression=tree_of(value))
        for name, value in fields.items()
    ]
    return Expr(exp.Struct(expressions=members))


def tree_of(value: Value) -> exp.Expression:
    """The tree of a value or an expression. Raises TypeError and ValueError."""
    match value:
        case Expr():
            if value.name is not None:
                raise ValueError(f"An alias is for a column of a result, not within {value!r}")
            return value.tree
        case list() | tuple():
            return exp.Array(expressions=[tree_of(item) for item in value])
        case Mapping():
            return _map(value)
        case None | str() | bool() | int() | float():
            return literal(value)
    return literal(value)  # type: ignore[arg-type]  # It raises for what it is not.


def literal(value: Scalar) -> exp.Expression:
    """The literal for a value that is neither a list nor a dict. Raises TypeError for a type that
    the dialect has no literals for, and ValueError for a value that does not fit."""
    if isinstance(value, bytes | bytearray):
        raise TypeError("The dialect has no literals of BYTES: use fn.to_bytes('…', 'hex')")
    if not isinstance(value, bool | int | float | Decimal | str | date | time | None):
        raise TypeError(f"A value of type {type(value).__name__} is no expression. {_KINDS}")
    try:
        return parse_expression("?", Parameters((value,)))
    except SyntaxFailure as failure:
        reason = failure.message.partition("cannot be used: ")[2] or failure.message
        raise ValueError(f"{value!r} cannot be a literal: {reason}") from None


def condition(value: Expr | bool, what: str) -> exp.Expression:
    """The tree of a condition; raises TypeError for anything that is not an expression."""
    if isinstance(value, bool):
        return literal(value)
    if isinstance(value, Expr):
        return tree_of(value)
    wrong = "a Python function" if callable(value) else f"{type(value).__name__}"
    raise TypeError(
        f'{what} takes an expression such as col("amount") > 10, not {wrong}'
        + (f" ({value!r})" if isinstance(value, str) else "")
    )


def _map(value: Mapping[str, Value]) -> exp.Expression:
    wrong = next((key for key in value if not isinstance(key, str)), None)
    if wrong is not None:
        raise TypeError(f"The keys of a map are texts, not {type(wrong).__name__}")
    return exp.Map(
        keys=exp.Array(expressions=[literal(key) for key in value]),
        values=exp.Array(expressions=[tree_of(item) for item in value.values()]),
    )


def _binary(node: type[exp.Expression], left: Value, right: Value) -> Expr:
    return Expr(node(this=tree_of(left), expression=tree_of(right)))


def _comparable(other: Value, instead: str) -> Value:
    """NULL is never equal to anything, which is not what == None means in Python."""
    if other is None:
        raise TypeError(f"A comparison with None is never true: use .{instead}()")
    return other


def _connected(node: type[exp.And] | type[exp.Or], left: Expr | bool, right: Expr | bool) -> Expr:
    word = "&" if node is exp.And else "|"
    chain = left.operands if isinstance(left, Expr) and type(left.node) is node else ()
    before = chain or (condition(left, word),)
    if isinstance(left, Expr) and left.name is not None:
        tree_of(left)
    return Expr(node(), operands=(*before, condition(right, word)))
