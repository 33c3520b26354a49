"""The parts of a WHERE clause that are simple enough for predicate push-down to the instance with
the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from millstream.model.expressions import ColumnRef, Compare, Expression, In, Literal, Logical
from millstream.model.types import BIGINT, INTEGER, STRING
from millstream.operators.sql import identifier, literal

OPERATORS = frozenset({"=", "<", "<=", ">", ">="})
KEYS_MAX = 1_000
Value = int | str
_TYPES = (INTEGER, BIGINT, STRING)
"""Types whose values compare and serialise alike everywhere."""
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Condition:
    """`column operator value`, for one of the values: several mean IN, with `=`."""

    column: str
    operator: str
    values: tuple[Value, ...]


def conditions(predicate: Expression | None) -> tuple[Condition, ...]:
    """Conditions that every row of the result satisfies. They are not the whole clause, which is
    evaluated again."""
    return tuple(_conditions(predicate))


def _conditions(predicate: Expression | None) -> Iterator[Condition]:
    match predicate:
        case Logical("AND", left, right):
            yield from _conditions(left)
            yield from _conditions(right)
        case Compare(operator, ColumnRef(name, kind), Literal(value)) if (
            kind in _TYPES and operator in OPERATORS and _plain(value)
        ):
            yield Condition(name, operator, (value,))  # type: ignore[arg-type]
        case Compare(operator, Literal(), ColumnRef()) if operator in _FLIPPED:
            yield from _conditions(Compare(_FLIPPED[operator], predicate.right, predicate.left))
        case In(ColumnRef(name, kind), options, False) if kind in _TYPES:
            values = [option.value for option in options if isinstance(option, Literal)]
            if len(values) == len(options) and all(map(_plain, values)):
                yield Condition(name, "=", tuple(values))  # type: ignore[arg-type]


def _plain(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def condition_sql(condition: Condition, physical: Mapping[str, str]) -> str:
    """The DuckDB text of a condition; `physical` gives the names of the columns in the relation."""
    column = identifier(physical[condition.column])
    if condition.operator == "=":
        return f"{column} IN ({', '.join(map(literal, condition.values))})"
    return f"{column} {condition.operator} {literal(condition.values[0])}"


def pinned(
    found: Iterable[Condition], columns: Sequence[str]
) -> tuple[tuple[int | str, ...], ...] | None:
    """All combinations of values that the columns can have under the conditions; None if unbounded
    or too many."""
    choices = {c.column: c.values for c in found if c.operator == "="}
    if not columns or not choices.keys() >= set(columns):
        return None
    combined = product(*(choices[column] for column in columns))
    keys = tuple(islice(combined, KEYS_MAX + 1))
    return keys if len(keys) <= KEYS_MAX else None
