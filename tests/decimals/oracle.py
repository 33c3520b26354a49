"""Random trees of decimal arithmetic, their types and their values by whole numbers alone.

Types (reference: types and formats, section 4): INTEGER counts as DECIMAL(10, 0), BIGINT as
DECIMAL(19, 0) beside a decimal; precision and scale of a result follow from those of its operands,
without an upper bound. Each step is exact and then rounded half up to its scale. A result has 38
digits at most: of a longer type the digits before the point are given up first, then those behind
it (`physical_digits`). NULL is what there is no value for: a divisor of 0, too many digits, NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from random import Random

DIGITS = 38
INTEGERS = {"INTEGER": 32, "BIGINT": 64}
Kind = tuple[int, int] | str
"""(precision, scale), INTEGER or BIGINT."""
Value = Fraction | None


@dataclass(frozen=True)
class Column:
    """A leaf that differs by row."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Literal:
    """A leaf as it is written."""

    text: str


@dataclass(frozen=True)
class Operation:
    """Two trees and an operator between them."""

    operator: str
    left: Tree
    right: Tree


Tree = Column | Literal | Operation


def text_of(tree: Tree) -> str:
    """The tree in SQL."""
    match tree:
        case Column(name):
            return name
        case Literal(text):
            return text
        case Operation(operator, left, right):
            return f"({text_of(left)} {operator} {text_of(right)})"


def kind_of(tree: Tree) -> Kind:
    """The type of a tree."""
    match tree:
        case Column(_, kind):
            return kind
        case Literal(text) if "." in text:
            digits = Decimal(text).as_tuple().digits
            scale = len(text.partition(".")[2])
            # A number below 1 has a digit before its point (reference: statements, literals).
            return (scale + 1 if abs(Decimal(text)) < 1 else len(digits), scale)
        case Literal(text):
            return "INTEGER" if int(text) < 2**31 else "BIGINT"
        case Operation(operator, left, right):
            return _result(operator, kind_of(left), kind_of(right))


def _result(operator: str, left: Kind, right: Kind) -> Kind:
    if isinstance(left, str) and isinstance(right, str):
        return "BIGINT" if "BIGINT" in (left, right) else "INTEGER"
    (p1, s1), (p2, s2) = _as_decimal(left), _as_decimal(right)
    match operator:
        case "+" | "-":
            return (max(s1, s2) + max(p1 - s1, p2 - s2) + 1, max(s1, s2))
        case "*":
            return (p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(6, s1 + p2 + 1)
            return (p1 - s1 + s2 + scale, scale)
        case _:
            return (max(s1, s2) + min(p1 - s1, p2 - s2), max(s1, s2))


def _as_decimal(kind: Kind) -> tuple[int, int]:
    if isinstance(kind, str):
        return {"INTEGER": (10, 0), "BIGINT": (19, 0)}[kind]
    return kind


def value_of(tree: Tree, row: Mapping[str, Value]) -> Value:
    """The value of a tree in a row."""
    match tree:
        case Column(name):
            return row[name]
        case Literal(text):
            return Fraction(Decimal(text))
        case Operation(operator, left, right):
            a, b = value_of(left, row), value_of(right, row)
            if a is None or b is None or (operator in "/%" and b == 0):
                return None
            kind = kind_of(tree)
            if isinstance(kind, str):
                return _wrapped(_whole(operator, int(a), int(b)), INTEGERS[kind])
            return _kept(_exact(operator, a, b), kind)


def _exact(operator: str, a: Fraction, b: Fraction) -> Fraction:
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return a / b
        case _:
            return a - b * int(a / b)


def _whole(operator: str, a: int, b: int) -> int:
    """Java's integers cut a quotient off towards 0."""
    exact = _exact(operator, Fraction(a), Fraction(b))
    return int(exact)


def _wrapped(value: int, bits: int) -> Fraction:
    half = 2 ** (bits - 1)
    return Fraction((value + half) % (2 * half) - half)


def physical(kind: tuple[int, int]) -> tuple[int, int]:
    """Precision and scale of what is kept of a type."""
    precision, scale = kind
    if scale > DIGITS:
        scale = max(0, DIGITS - (precision - scale))
    return min(precision, DIGITS), scale


def _kept(exact: Fraction, kind: tuple[int, int]) -> Value:
    precision, scale = physical(kind)
    units = abs(exact) * 10**scale
    rounded = int(units) + (2 * (units - int(units)) >= 1)
    if rounded >= 10**precision:
        return None
    return Fraction(rounded if exact >= 0 else -rounded, 10**scale)


# ---- drawing ------------------------------------------------------------------------------------

LITERALS = ("0.5", "1.0", "10", "3", "100.0", "0.007", "12345678901", "99.99", "2", "0.0")


def a_tree(random: Random, columns: Sequence[Column], operators: int) -> Tree:
    """A tree with so many operators."""
    if operators == 0:
        if random.random() < 0.25:
            return Literal(random.choice(LITERALS))
        return random.choice(columns)
    left = random.randint(0, operators - 1)
    return Operation(
        random.choice("+-*//%"),
        a_tree(random, columns, left),
        a_tree(random, columns, operators - 1 - left),
    )


def some_columns(random: Random, count: int) -> list[Column]:
    """Columns of all precisions and scales, small ones more often, and of both integers."""
    kinds: list[Kind] = ["INTEGER", "BIGINT"]
    for _ in range(count):
        precision = random.choice((random.randint(1, 12), random.randint(1, 38)))
        kinds.append((precision, random.randint(0, precision)))
    return [Column(f"C{number}", kind) for number, kind in enumerate(kinds)]


def a_value(random: Random, kind: Kind) -> Value:
    """A value of a type: NULL, 0, its bounds, or anything."""
    chance = random.random()
    if chance < 0.1:
        return None
    if chance < 0.2:
        return Fraction(0)
    sign = random.choice((1, -1))
    if isinstance(kind, str):
        bits = INTEGERS[kind]
        top = 2 ** (bits - 1) - 1
        return Fraction(sign * random.choice((top, random.randint(0, top), random.randint(1, 9))))
    precision, scale = kind
    top = 10**precision - 1
    digits = random.choice((top, random.randint(0, top), random.randint(1, 99) % (top + 1)))
    return Fraction(sign * digits, 10**scale)
