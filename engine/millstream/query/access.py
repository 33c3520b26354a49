"""The rows that a pull query on a table reads: those of given keys, of a range of keys, or all.

Full scans may be disabled, and so may ranges: then the WHERE clause must determine the keys, in
each of its alternatives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from sqlglot import exp

from millstream.catalog.rules import WINDOW_BOUNDS
from millstream.model.errors import StatementError
from millstream.model.schema import Column
from millstream.model.types import BIGINT, BOOLEAN, BYTES, DOUBLE, INTEGER, STRING
from millstream.query import wordings
from millstream_parser import print_expression

DISJUNCTS_MAX = 1_000
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_RANGES = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_NO_TEXT = (BOOLEAN, INTEGER, BIGINT, DOUBLE)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The access that the session allows a pull query."""

    scans: bool = True
    ranges: bool = True


def check_access(
    where: exp.Expr | None, key: Sequence[Column], *, windowed: bool, allowed: Allowed
) -> None:
    """Raise StatementError if the clause makes the query read more than is allowed, compares a key
    with an impossible value, or looks up windows by contradictory bounds. The clause must be typed
    already."""
    disjuncts = list(_disjuncts(where)) if where is not None else []
    for conjunction in disjuncts:
        for condition in conjunction:
            _refuse_impossible(condition, key)
    try:
        _refuse_scan(disjuncts, key, ranges=allowed.ranges and not windowed)
    except StatementError:
        if allowed.scans:
            return
        raise
    if windowed:
        for conjunction in disjuncts:
            for bound in WINDOW_BOUNDS:
                _check_bounds(bound, conjunction)


def _refuse_scan(
    disjuncts: Sequence[Sequence[exp.Expr]], key: Sequence[Column], *, ranges: bool
) -> None:
    """Refuse clauses that are neither a key lookup nor a key range."""
    if not disjuncts:
        raise wordings.WHERE_MISSING(hint="A table scan needs ksql.query.pull.table.scan.enabled.")
    if len(disjuncts) > DISJUNCTS_MAX:
        raise wordings.SCAN_DISABLED()
    ranged = [_is_range(conjunction, key) for conjunction in disjuncts]
    if not any(ranged):
        return
    one = len(disjuncts) == len(key) == 1
    if not (one and ranges and key[0].type in (STRING, BYTES)):
        raise wordings.SCAN_DISABLED()


def _check_bounds(bound: str, conjunction: Sequence[exp.Expr]) -> None:
    """Refuse everything except one lower and one upper bound, or a single equality."""
    found: dict[str, list[exp.Expr]] = {}
    for condition in conjunction:
        direction = _direction(bound, condition)
        if direction == "NOT_EQUAL":
            raise wordings.BOUND_UNSUPPORTED(
                bound=bound, direction=direction, hint=f"Compare {bound} with =, <, <=, > or >=."
            )
        if direction is not None:
            found.setdefault(direction, []).append(condition)
    for direction, conditions in found.items():
        if len(conditions) > 1:
            listed = ", ".join(map(_text, conditions))
            raise wordings.BOUNDS_TWICE(
                bound=bound,
                direction=direction,
                listed=listed,
                hint="Leave out all of them but the narrowest.",
            )
    if "EQUAL" in found and len(found) > 1:
        raise wordings.BOUNDS_COMBINED(
            expression=_text(found["EQUAL"][0]),
            bound=bound,
            hint=f"Leave out the other conditions on {bound}.",
        )


def _direction(bound: str, condition: exp.Expr) -> str | None:
    """How a condition limits a window bound; None for any other condition."""
    if not isinstance(condition, _COMPARED):
        return None
    left, right = condition.left, condition.right
    if isinstance(left, exp.Column) and left.name == bound:
        mirrored, other = False, right
    elif isinstance(right, exp.Column) and right.name == bound:
        mirrored, other = True, left
    else:
        return None
    if other.find(exp.Column) is not None:
        return None
    match condition:
        case exp.EQ():
            return "EQUAL"
        case exp.NEQ():
            return "NOT_EQUAL"
        case exp.LT() | exp.LTE():
            return "GREATER_THAN" if mirrored else "LESS_THAN"
        case _:
            return "LESS_THAN" if mirrored else "GREATER_THAN"


def _disjuncts(tree: exp.Expr) -> Iterator[tuple[exp.Expr, ...]]:
    """The alternatives of a clause, each as conditions that must all hold; NOT moves inwards to
    single conditions."""
    match tree:
        case exp.Paren():
            yield from _disjuncts(tree.this)
        case exp.Not(this=exp.Or() | exp.And() | exp.Not() | exp.In() | exp.Paren() as inner):
            yield from _negated(inner)
        case exp.Or():
            yield from _disjuncts(tree.left)
            yield from _disjuncts(tree.right)
        case exp.And():
            for number, (one, other) in enumerate(
                product(_disjuncts(tree.left), list(_disjuncts(tree.right)))
            ):
                if number > DISJUNCTS_MAX:
                    return
                yield (*one, *other)
        case exp.In():
            for option in tree.expressions:
                yield (exp.EQ(this=tree.this.copy(), expression=option.copy()),)
        case exp.Between():
            low = exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
            yield low, exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())
        case _:
            yield (tree,)


def _negated(tree: exp.Expr) -> Iterator[tuple[exp.Expr, ...]]:
    """The alternatives of NOT over a tree."""
    match tree:
        case exp.Paren():
            yield from _disjuncts(exp.Not(this=tree.this.copy()))
        case exp.Not():
            yield from _disjuncts(tree.this)
        case exp.In():
            yield tuple(
                exp.Not(this=exp.EQ(this=tree.this.copy(), expression=option.copy()))
                for option in tree.expressions
            )
        case exp.Or() | exp.And():
            sides = [exp.Not(this=side.copy()) for side in (tree.left, tree.right)]
            joined = exp.And if isinstance(tree, exp.Or) else exp.Or
            yield from _disjuncts(joined(this=sides[0], expression=sides[1]))


def _sides(tree: exp.Expr, key: Sequence[Column]) -> tuple[Column, exp.Expr] | None:
    """The key column that a condition compares, and the other operand."""
    if not isinstance(tree, _COMPARED):
        return None
    for side, other in ((tree.left, tree.right), (tree.right, tree.left)):
        column = _key_column(side, key)
        if column is not None:
            return column, other
    return None


def _key_column(tree: exp.Expr, key: Sequence[Column]) -> Column | None:
    if not isinstance(tree, exp.Column):
        return None
    return next((column for column in key if column.name == tree.name), None)


def _refuse_impossible(tree: exp.Expr, key: Sequence[Column]) -> None:
    found = _sides(tree, key) if isinstance(tree, exp.EQ) else None
    if found is None:
        return
    column, other = found
    if isinstance(other, exp.Literal) and other.is_string and column.type in _NO_TEXT:
        raise wordings.KEY_TYPE(expression=_text(other), column=column.name, type=column.type)
    if isinstance(other, exp.Null):
        raise wordings.KEY_IS_NULL(expression=_text(tree))


def _is_range(conjunction: Sequence[exp.Expr], key: Sequence[Column]) -> bool:
    """Whether an alternative selects a range of keys; False for single keys."""
    found: dict[str, list[exp.Expr]] = {}
    for condition in conjunction:
        compared = _sides(condition, key)
        if compared is None:
            if isinstance(condition, _COMPARED) and _mentions(condition, key):
                raise wordings.KEY_WITHIN_EXPRESSION()
            continue
        column, other = compared
        if next(other.find_all(exp.Column), None) is not None:
            raise wordings.KEY_COMPARED_WITH_COLUMN()
        found.setdefault(column.name, []).append(condition)
    conditions = [condition for listed in found.values() for condition in listed]
    if any(isinstance(condition, exp.NEQ) for condition in conditions):
        shown = ", ".join(_shown(column) for column in key)
        raise wordings.KEY_BOUND(listed=shown)
    if any(len(listed) > 1 for listed in found.values()):
        raise wordings.KEY_CONDITIONS_COMBINED()
    _refuse_missing(conjunction, found, key)
    return any(isinstance(condition, _RANGES) for condition in conditions)


def _refuse_missing(
    conjunction: Sequence[exp.Expr],
    found: dict[str, list[exp.Expr]],
    key: Sequence[Column],
) -> None:
    if not found:
        shown, *others = map(_text, conjunction)
        for other in others:
            shown = f"({shown} AND {other})"
        raise wordings.KEY_NOT_IN_WHERE(shown=shown)
    if len(found) < len(key):
        specified = ", ".join(_shown(column) for column in key if column.name in found)
        expected = ", ".join(map(_shown, key))
        raise wordings.KEYS_NOT_IN_WHERE(specified=specified, expected=expected)


def _mentions(tree: exp.Expr, key: Sequence[Column]) -> bool:
    return any(_key_column(column, key) is not None for column in tree.find_all(exp.Column))


def _shown(column: Column) -> str:
    return f"`{column.name}` {column.type} KEY"


def _text(tree: exp.Expr) -> str:
    assert isinstance(tree, exp.Expression)
    return print_expression(tree)
