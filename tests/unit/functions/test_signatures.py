"""Which signature a call means, and the errors when none or several do."""

from __future__ import annotations

import pytest

from millstream.functions.conversions import converts, wider
from millstream.functions.resolution import Argument, LambdaArity, resolve
from millstream.functions.signatures import parse_signature
from millstream.model.errors import StatementError
from millstream.model.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL_UNIT,
    NULL,
    STRING,
    Array,
    Decimal,
    Field,
    Map,
    SqlType,
    Struct,
)

EXTREMES = [
    f"{kind}, {kind}... -> {kind}" for kind in ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE", "STRING")
]
OVERLOADS = [
    "INTEGER, STRING -> STRING",
    "BIGINT, STRING -> STRING",
    "BIGINT, BIGINT, STRING -> STRING",
    "BIGINT... -> STRING",
    "-> STRING",
]


@pytest.mark.parametrize(
    ("signatures", "arguments", "variant", "parameters", "result"),
    [
        (OVERLOADS, [INTEGER, STRING], 0, [INTEGER, STRING], STRING),
        (OVERLOADS, [BIGINT, NULL], 1, [BIGINT, STRING], STRING),
        (OVERLOADS, [BIGINT] * 4, 3, [BIGINT] * 4, STRING),
        (OVERLOADS, [], 4, [], STRING),
        (EXTREMES, [INTEGER, NULL], 0, [INTEGER, INTEGER], INTEGER),
        (EXTREMES, [INTEGER, Decimal(4, 2), DOUBLE], 3, [DOUBLE] * 3, DOUBLE),
        (EXTREMES, [Decimal(6, 1), Decimal(4, 2)], 2, [Decimal(7, 2)] * 2, Decimal(7, 2)),
        (
            ["INTERVALUNIT, INTEGER, DATE -> DATE"],
            [INTERVAL_UNIT, INTEGER, STRING],
            0,
            [INTERVAL_UNIT, INTEGER, DATE],
            DATE,
        ),
        (["T, T -> T"], [BIGINT, INTEGER], 0, [BIGINT, BIGINT], BIGINT),
        (["ARRAY<T>, T -> T"], [Array(STRING), NULL], 0, [Array(STRING), STRING], STRING),
        (
            ["BIGINT, STRING..., LITERAL INTEGER last -> BIGINT"],
            [BIGINT, STRING, STRING, INTEGER],
            0,
            [BIGINT, STRING, STRING, INTEGER],
            BIGINT,
        ),
        (
            ["MAP<STRING, V> -> ARRAY<STRUCT<K STRING, V V>>"],
            [Map(STRING, DOUBLE)],
            0,
            [Map(STRING, DOUBLE)],
            Array(Struct((Field("K", STRING), Field("V", DOUBLE)))),
        ),
    ],
)
def test_resolves(
    signatures: list[str],
    arguments: list[Argument],
    variant: int,
    parameters: list[SqlType],
    result: SqlType,
) -> None:
    found = resolve("f", signatures, arguments)
    assert (found.variant, list(found.parameters), found.result) == (variant, parameters, result)


@pytest.mark.parametrize(
    ("signatures", "arguments", "message"),
    [
        (EXTREMES, [INTEGER, BIGINT], "ambiguous method parameters (INTEGER, BIGINT)."),
        (EXTREMES, [NULL, NULL], "ambiguous method parameters (null, null)."),
        (EXTREMES, [STRING, INTEGER], "'most' does not accept parameters (STRING, INTEGER)."),
        (EXTREMES, [], "does not accept parameters ()."),
        (["ARRAY<T> items -> T"], [STRING], "Valid alternatives are:\nmost(ARRAY<T> items)"),
    ],
)
def test_refuses(signatures: list[str], arguments: list[Argument], message: str) -> None:
    with pytest.raises(StatementError) as caught:
        resolve("most", signatures, arguments)
    assert message in str(caught.value)


def test_a_lambda_is_typed_after_the_other_arguments() -> None:
    asked = []

    def body(place: int, parameters: tuple[SqlType, ...]) -> SqlType:
        asked.append((place, parameters))
        return STRING

    found = resolve(
        "transform",
        ["ARRAY<T>, LAMBDA(T)->U -> ARRAY<U>"],
        [Array(BIGINT), LambdaArity(1)],
        bodies=body,
    )
    assert found.result == Array(STRING)
    assert asked[0] == (1, (BIGINT,))


def test_a_state_widens_to_what_the_lambda_returns() -> None:
    def body(_: int, parameters: tuple[SqlType, ...]) -> SqlType:
        both = wider(*parameters)
        assert both is not None
        return both

    found = resolve(
        "reduce",
        ["ARRAY<T>, S, LAMBDA(S, T)->S -> S"],
        [Array(BIGINT), INTEGER, LambdaArity(2)],
        bodies=body,
    )
    assert found.parameters[1] == found.result == BIGINT


@pytest.mark.parametrize(
    "text", ["STRING", "STRING -> NOTHING", "T..., U... -> T", "T ->", "; -> T"]
)
def test_a_text_outside_the_notation_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        parse_signature(text)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (INTEGER, Decimal(10, 0), True),
        (INTEGER, Decimal(10, 1), False),
        (BIGINT, INTEGER, False),
        (Decimal(4, 2), Decimal(5, 2), True),
        (Decimal(4, 2), Decimal(5, 1), False),
        (Decimal(30, 5), DOUBLE, True),
        (STRING, DATE, True),
        (STRING, INTEGER, False),
        (NULL, Map(STRING, INTEGER), True),
        (Array(INTEGER), Array(DOUBLE), True),
    ],
)
def test_converts_without_being_asked(source: SqlType, target: SqlType, expected: bool) -> None:
    assert converts(source, target) is expected
