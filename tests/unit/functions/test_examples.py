"""Every example of every scalar function, compiled and run both ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millstream.functions.function import Example, TableFunction
from millstream.functions.signatures import parse_signature
from millstream.model.expressions import (
    Call,
    ColumnRef,
    Expression,
    LambdaExpression,
    Literal,
    walk,
)
from millstream.model.physical import duckdb_type
from millstream.model.types import INTERVAL_UNIT
from millstream.operators.expressions import compile_expression
from millstream.operators.scalar import is_volatile
from millstream.operators.sql import guarded
from millstream.plan.typing import type_expression
from millstream_parser import parse_expression
from tests.registered import register
from tests.unit.functions.evaluating import CATALOGUE, CON, SCOPE, check, value

CASES = [
    pytest.param(example, id=example.expression)
    for function in CATALOGUE.scalar.values()
    for example in function.examples
]


@pytest.mark.parametrize("example", CASES)
def test_example(example: Example) -> None:
    check(example.expression, example.result)


def _calls() -> list[Any]:
    """One call of each signature that the examples use."""
    found: dict[tuple[str, int], Call] = {}
    for function in CATALOGUE.scalar.values():
        for example in function.examples:
            for part in walk(type_expression(parse_expression(example.expression), SCOPE)):
                if isinstance(part, Call) and part.function == function.name:
                    found.setdefault((part.function, part.variant), part)
    return [pytest.param(call, id=f"{key[0]}-{key[1]}") for key, call in found.items()]


def _without(call: Call, place: int, *, column: bool) -> Call:
    """The call with one argument NULL, as a constant or as a column."""
    kind = call.arguments[place].type
    missing: Expression = ColumnRef("missing", kind) if column else Literal(None, kind)
    return replace(call, arguments=(*call.arguments[:place], missing, *call.arguments[place + 1 :]))


@pytest.mark.parametrize("call", _calls())
def test_null_arguments(call: Call) -> None:
    """Constant or column, a NULL argument never raises; NULL comes out where it should."""
    function = CATALOGUE.scalar[call.function]
    for place, argument in enumerate(call.arguments):
        if argument.type is INTERVAL_UNIT or isinstance(argument, LambdaExpression):
            continue
        for column in (False, True):
            made = _without(call, place, column=column)
            register(CON, [made], CATALOGUE)
            sql = compile_expression(made, CATALOGUE, exact=True, columns=lambda name: name)
            guard = sql if is_volatile(made, CATALOGUE) else guarded(sql)
            source = f"(SELECT CAST(NULL AS {duckdb_type(argument.type)}) AS missing FROM range(2))"
            found = CON.execute(f"SELECT {guard} FROM {source}").fetchall()[0][0]
            assert found is None or not function.null_propagates


@pytest.mark.parametrize("function", CATALOGUE.table.values(), ids=lambda f: f.name)
def test_table_function_example(function: TableFunction) -> None:
    for example in function.examples:
        argument = example.expression[len(function.name) + 1 : -1]
        inner = compile_expression(
            type_expression(parse_expression(argument), SCOPE),
            CATALOGUE,
            exact=False,
            columns=lambda name: name,
        )
        rows = CON.execute(f"SELECT {function.sql.format(inner)}").fetchall()[0][0]
        assert rows == value(example.result, exact=False)


@pytest.mark.parametrize("function", CATALOGUE.scalar.values(), ids=lambda f: f.name)
def test_each_function_is_complete(function: Any) -> None:
    assert function.name == function.name.upper()
    assert len(function.examples) >= 2
    assert function.description.endswith(".")
    for variant in function.variants:
        parse_signature(variant.signature)
        assert variant.sql is not None or variant.python is not None
