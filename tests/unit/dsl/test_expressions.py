"""Expressions: what they print, and what they refuse where they are made."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import Expr, col, fn, hopping, lit, session, struct, tumbling, when
from millstream.dsl.windows import duration
from millstream.functions.catalogue import builtin_catalogue
from millstream_parser import parse_expression, print_expression
from tests.draws import draws

NAMES = st.sampled_from(["a", "`b c`", "s.c", "size", "`it``s`", "`.`", "array", "`ü`", "`*`"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
    | st.text(alphabet="a'\"`\n \t\r\\$?:/*-;{}%", max_size=8)
    | st.dates(date(1900, 1, 1))
    | st.times().map(lambda t: t.replace(microsecond=0))
    | st.datetimes(datetime(1900, 1, 1)).map(lambda d: d.replace(microsecond=0))
)
LEAVES = NAMES.map(col) | SCALARS.map(lit)
BINARY: list[Callable[[Any, Any], Expr]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: a % b,
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a >= b,
    lambda a, b: a & b,
    lambda a, b: a | b,
    lambda a, b: a[b],
    lambda a, b: a.concat(b),
    lambda a, b: a.is_distinct_from(b),
    lambda a, b: a.between(b, a),
    lambda a, b: ~a.isin([b, 1, None]),
    lambda a, b: a.like(b, escape="'"),
    lambda a, b: when(a, b).when(b, 1).otherwise(a),
    lambda a, b: when(a, b),
    lambda a, b: lit([a, b, 1]),
    lambda a, b: lit({"it's": a, "": b}),
    lambda a, b: struct(x=a, size=b),
    lambda a, b: fn.coalesce(a, b),
    lambda a, b: fn.transform(a, lambda x: x + b),
    lambda a, b: fn.call("mine", a, lambda x, size: x[size]),
    lambda a, b: fn.dateadd("days", a, b),
]
UNARY: list[Callable[[Any], Expr]] = [
    lambda a: -a,
    lambda a: ~a,
    lambda a: a.is_null(),
    lambda a: a.is_not_null(),
    lambda a: a.field("`f g`"),
    lambda a: a.cast("MAP<STRING, DECIMAL(4, 2)>"),
    lambda a: fn.count(),
]
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(lambda f, a, b: f(a, b), st.sampled_from(BINARY), inner, inner)
        | st.builds(lambda f, a: f(a), st.sampled_from(UNARY), inner)
    ),
    max_leaves=20,
)


@settings(max_examples=draws(300), derandomize=True, database=None, deadline=None)
@given(EXPRESSIONS)
def test_what_is_printed_is_read_back_as_the_same_tree(expression: Expr) -> None:
    printed = print_expression(expression.tree)
    assert parse_expression(printed) == expression.tree


@pytest.mark.parametrize("word", ["&", "|"])
@pytest.mark.parametrize("count", [2, 3, 32, 33, 34, 65, 300])
def test_chains_are_balanced_as_the_parser_does(word: str, count: int) -> None:
    conditions = [col("a") == number for number in range(count)]
    built = reduce(lambda a, b: a & b if word == "&" else a | b, conditions)
    text = f" {'AND' if word == '&' else 'OR'} ".join(f"a = {n}" for n in range(count))
    assert built.tree == parse_expression(text)
    if count <= 32:
        assert parse_expression(print_expression(built.tree)) == built.tree


def test_too_deep_is_refused_where_it_is_made() -> None:
    deep = col("a")
    with pytest.raises(ValueError, match="at most 128 levels"):
        for _ in range(200):
            deep = deep + 1


def refuses(kind: type[Exception], message: str, make: Callable[[], object]) -> None:
    with pytest.raises(kind) as failure:
        make()
    assert message in str(failure.value)


def anything(value: object) -> Any:
    """A value that type checkers do not look at."""
    return value


A = col("a")
WRONG: list[tuple[type[Exception], str, Callable[[], object]]] = [
    (TypeError, "has no truth value", lambda: A > 1 and A < 2),
    (TypeError, "has no truth value", lambda: 1 < A < 2),
    (TypeError, "has no truth value", lambda: not A),
    (TypeError, "has no truth value", lambda: 1 if A else 2),
    (TypeError, "has no truth value", lambda: A in [col("b")]),
    (TypeError, "cannot be iterated", lambda: list(A)),
    (TypeError, "use .isin", lambda: 1 in A),
    (TypeError, "unhashable", lambda: {A: 1}),
    (TypeError, "is_null()", lambda: A == None),  # noqa: E711
    (TypeError, "is_not_null()", lambda: A != None),  # noqa: E711
    (TypeError, "a Python function", lambda: A & anything(lambda: 1)),
    (TypeError, "not int", lambda: A | anything(1)),
    (TypeError, "('x')", lambda: A & anything("x")),
    (TypeError, "type object", lambda: A + anything(object())),
    (TypeError, "type set", lambda: lit(anything({1}))),
    (TypeError, "fn.to_bytes", lambda: lit(anything(b"x"))),
    (TypeError, "type timedelta", lambda: A + anything(timedelta(1))),
    (TypeError, "keys of a map", lambda: lit(anything({1: 2}))),
    (TypeError, "fn.slice", lambda: A[anything(slice(1, 2))]),
    (TypeError, "An index is", lambda: A[True]),
    (ValueError, "64 bits", lambda: lit(2**63)),
    (ValueError, "nan", lambda: lit(float("nan"))),
    (ValueError, "Infinity", lambda: lit(Decimal("inf"))),
    (ValueError, "surrogate", lambda: lit("\ud800")),
    (ValueError, "backticks", lambda: col("a b")),
    (ValueError, "backticks", lambda: col("")),
    (ValueError, "backticks", lambda: col("a.b.c")),
    (ValueError, "backticks", lambda: col("a`")),
    (ValueError, "NUL", lambda: col("`a\0`")),
    (ValueError, "half characters", lambda: col("`\ud800`")),
    (ValueError, "backticks", lambda: col("amount * 2")),
    (TypeError, "not int", lambda: col(anything(1))),
    (ValueError, "has one part", lambda: A.field("b.c")),
    (ValueError, "no type", lambda: A.cast("ARRAY<")),
    (TypeError, "text of a type", lambda: A.cast(anything(int))),
    (TypeError, "list of values", lambda: A.isin("abc")),
    (ValueError, "at least one", lambda: A.isin([])),
    (ValueError, "one character", lambda: A.like("x", escape="ab")),
    (ValueError, "alias", lambda: A.alias("x") + 1),
    (ValueError, "alias", lambda: A.alias("x") & A),
    (ValueError, "alias", lambda: (A & A).alias("x") & A),
    (ValueError, "alias", lambda: ~A.alias("x")),
    (ValueError, "alias", lambda: A.alias("x").is_null()),
    (TypeError, "when takes", lambda: when(anything(1), 2)),
    (TypeError, "fn.ucase takes (STRING), not 2", lambda: anything(fn.ucase)(A, A)),
    (TypeError, "fn.sum takes", lambda: anything(fn.sum)()),
    (TypeError, "unit of time", lambda: fn.dateadd(anything("months"), 1, A)),
    (TypeError, "unit of time", lambda: fn.dateadd(anything(A), 1, A)),
    (TypeError, "takes a lambda", lambda: fn.filter(A, anything(A))),
    (TypeError, "has 1 or 2 parameters", lambda: fn.filter(lit([1]), anything(lambda: True))),
    (TypeError, "plain parameters", lambda: fn.transform(A, anything(lambda *x: x))),
    (TypeError, "millstream.udf", lambda: fn.ucase(anything(str.upper))),
    (ValueError, "no name of a function", lambda: fn.call("a b")),
    (AttributeError, "Did you mean ucase?", lambda: anything(fn).ucas),
    (AttributeError, "no function UCASE", lambda: anything(fn).UCASE),
    (TypeError, "length of time", lambda: tumbling(anything(5))),
    (ValueError, "longer than zero", lambda: tumbling(timedelta(0))),
    (ValueError, "no length of time", lambda: session("5 parsecs")),
    (ValueError, "no length of time", lambda: session("0 seconds")),
    (ValueError, "milliseconds", lambda: hopping("1 day", timedelta(microseconds=1))),
    (ValueError, "zero or longer", lambda: tumbling("1 day", grace=timedelta(-1))),
]


@pytest.mark.parametrize(("kind", "message", "make"), WRONG)
def test_wrong_use_is_refused(
    kind: type[Exception], message: str, make: Callable[[], object]
) -> None:
    refuses(kind, message, make)


@pytest.mark.parametrize(
    ("length", "amount", "unit"),
    [
        (timedelta(days=2), 2, "DAYS"),
        (timedelta(hours=36), 36, "HOURS"),
        (timedelta(minutes=90), 90, "MINUTES"),
        (timedelta(seconds=1.5), 1500, "MILLISECONDS"),
        ("60 minutes", 60, "MINUTES"),
        ("1 DAY", 1, "DAYS"),
    ],
)
def test_lengths_of_time(length: timedelta | str, amount: int, unit: str) -> None:
    found = duration(length)
    assert (found.amount, found.unit) == (amount, unit)


def test_every_function_can_be_called() -> None:
    names = builtin_catalogue().named()
    assert dir(fn) == sorted(name.lower() for name in names) and len(names) > 100
    for name, function in names.items():
        made = getattr(fn, name.lower())
        assert made.__name__ == name.lower() and made.__doc__ == function.description
        for example in function.examples:
            tree = parse_expression(example.expression.partition(" over ")[0])
            if tree.key == "anonymous" and tree.this == name:
                arguments = [_argument(item) for item in tree.expressions]
                assert made(*arguments).tree == tree, example


def _argument(tree: Any) -> Any:
    """The argument of a call in Python that becomes a tree."""
    if tree.key == "var":
        return tree.name
    if tree.key == "lambda":
        return _lambda(tree, [str(parameter.this) for parameter in tree.expressions])
    return Expr(tree)


def _lambda(tree: Any, parameters: list[str]) -> Callable[..., Expr]:
    listed = ", ".join(parameters)
    return cast(Callable[..., Expr], eval(f"lambda {listed}: body", {"body": Expr(tree.this)}))


def test_values_and_repr() -> None:
    assert repr(col("a") + 1) == "<Expr (A + 1)>"
    assert repr(col("a").alias("`x y`")) == "<Expr A AS x y>"
    assert print_expression(lit([time(1), None, True]).tree) == (
        "ARRAY[CAST('01:00:00.000' AS TIME), null, true]"
    )
