"""Expressions of the text -> typed expressions: result types and errors."""

from __future__ import annotations

import pytest

from millstream.functions.function import (
    AggregateFunction,
    AggregateVariant,
    Catalogue,
    ScalarFunction,
    TableFunction,
    Variant,
)
from millstream.model.errors import StatementError
from millstream.model.expressions import AggregateCall, Call, Cast, Literal, TableCall
from millstream.model.schema import Column, Schema
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
)
from millstream.plan.scope import Scope
from millstream.plan.typing import type_expression
from millstream_parser import parse_expression


def scalar(name: str, *signatures: str) -> ScalarFunction:
    variants = tuple(Variant(signature, sql="NULL") for signature in signatures)
    return ScalarFunction(name, "TEST", variants, "", ())


CATALOGUE = Catalogue(
    {
        f.name: f
        for f in (
            scalar("CONCAT", "STRING... -> STRING"),
            scalar("EACH", "ARRAY<T>, LAMBDA(T)->U -> ARRAY<U>"),
            scalar("LATER", "INTERVALUNIT, INTEGER, DATE -> DATE"),
            scalar("HALF", "DOUBLE -> DOUBLE"),
        )
    },
    {
        "LAST": AggregateFunction(
            "LAST",
            (AggregateVariant("T, INTEGER -> ARRAY<T>", (), "", constants=1),),
            "",
        ),
        "COUNT": AggregateFunction("COUNT", (AggregateVariant("T -> BIGINT", (), ""),), ""),
    },
    {"UNFOLD": TableFunction("UNFOLD", "ARRAY<T> -> T", "{0}", "")},
)
LEFT = Schema(
    (
        Column("ID", INTEGER),
        Column("BIG", BIGINT),
        Column("REAL", DOUBLE),
        Column("PRICE", Decimal(4, 2)),
        Column("NAME", STRING),
        Column("OK", BOOLEAN),
        Column("ITEMS", Array(INTEGER)),
        Column("TALLY", Map(STRING, BIGINT)),
        Column("PLACE", Struct((Field("TOWN", STRING), Field("zip", INTEGER)))),
        Column("DAY", DATE),
        Column("AT_", TIMESTAMP),
        Column("RAW", BYTES),
        Column("ROWTIME", BIGINT),
    )
)
RIGHT = Schema((Column("ID", INTEGER), Column("OTHER", STRING)))
SCOPE = Scope(
    (("L", LEFT), ("R", RIGHT)),
    CATALOGUE,
    {"ADDRESS": Struct((Field("TOWN", STRING),))},
    {("L", "ID"): "L_ID", ("R", "ID"): "R_ID"},
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2147483648", "BIGINT"),
        ("-2147483648", "INTEGER"),
        ("-9223372036854775808", "BIGINT"),
        ("0.050", "DECIMAL(4, 3)"),
        (".5", "DECIMAL(2, 1)"),
        ("-0.5 * 0.0", "DECIMAL(5, 2)"),
        ("1.", "DECIMAL(1, 0)"),
        ("1E3", "DOUBLE"),
        ("L.ID + BIG", "BIGINT"),
        ("PRICE + L.ID", "DECIMAL(13, 2)"),
        ("PRICE * PRICE", "DECIMAL(9, 4)"),
        ("PRICE / 3", "DECIMAL(15, 13)"),
        ("PRICE % 3", "DECIMAL(4, 2)"),
        ("PRICE + REAL", "DOUBLE"),
        ("NAME + 'x'", "STRING"),
        ("NAME || 'x'", "STRING"),
        ("BIG > 5 AND NOT OK", "BOOLEAN"),
        ("ITEMS[1]", "INTEGER"),
        ("TALLY['k']", "BIGINT"),
        ("PLACE->TOWN", "STRING"),
        ("PLACE->`zip` IS NULL", "BOOLEAN"),
        ("ARRAY[NULL, 10, '20', BIG]", "ARRAY<BIGINT>"),
        ("ARRAY[NULL, 10, '2e1', BIG]", "ARRAY<DECIMAL(19, 0)>"),
        ("MAP(NAME := OK, 10 := 'no')", "MAP<STRING, BOOLEAN>"),
        (
            "ARRAY[STRUCT(A := 1), STRUCT(B := 'x')]",
            "ARRAY<STRUCT<`A` INTEGER, `B` STRING>>",
        ),
        ("CASE WHEN OK THEN NULL ELSE 'x' END", "STRING"),
        ("CAST(NULL AS ADDRESS)", "STRUCT<`TOWN` STRING>"),
        ("EACH(ITEMS, x => x * REAL)", "ARRAY<DOUBLE>"),
        ("EACH(ITEMS, NAME => NAME + BIG)", "ARRAY<BIGINT>"),
        ("LATER(DAYS, 1, '2020-01-01')", "DATE"),
        ("HALF(PRICE)", "DOUBLE"),
        ("R.ID IN (1, 2.50, '3', BIG)", "BOOLEAN"),
        ("DAY IN ('2020', '2020-02-29')", "BOOLEAN"),
        ("AT_ IN ('2020-01-01T10:30', '2020-01-01T24+01')", "BOOLEAN"),
        ("ARRAY[DAY, '2020-01']", "ARRAY<DATE>"),
        ("ARRAY[CAST(NAME AS BYTES), 'YQ==', 'YQ', '']", "ARRAY<BYTES>"),
        ("ITEMS = ARRAY[BIG]", "BOOLEAN"),
        ("AT_ > DAY", "BOOLEAN"),
    ],
)
def test_types(text: str, kind: str) -> None:
    assert str(type_expression(parse_expression(text), SCOPE).type) == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "ITEMS < ITEMS",
            "Cannot compare ITEMS (ARRAY<INTEGER>) to ITEMS (ARRAY<INTEGER>) with LESS",
        ),
        ("L.ID > 'x'", "Cannot compare L_ID (INTEGER) to 'x' (STRING) with GREATER_THAN."),
        ("OK = 1", "Cannot compare OK (BOOLEAN) to 1 (INTEGER) with EQUAL."),
        ("BIG = NULL", "Comparison with NULL not supported: BIGINT = NULL"),
        ("OK + 1.5", "Unsupported arithmetic types. BOOLEAN DECIMAL"),
        ("BIG + NULL", "Arithmetic on types BIGINT and null are not supported."),
        ("ID", "Column 'ID' is ambiguous. Could be L.ID or R.ID."),
        ("NOPE", "SELECT column 'NOPE' cannot be resolved."),
        ("R.NAME", "SELECT column 'R.NAME' cannot be resolved."),
        ("PLACE->ZIP", "Could not find field 'ZIP' in 'PLACE'."),
        ("NAME->ZIP", "Expected STRUCT type, got: STRING"),
        ("NAME[1]", "Subscript expression (NAME[1]) do not apply to STRING."),
        ("BIG IN (1, TRUE)", "Invalid Select: operator does not exist: BIGINT = BOOLEAN (true)"),
        ("BIG IN (1, 'x')", 'invalid input syntax for type BIGINT: "x".'),
        ("PLACE IN (STRUCT(`zip` := 'x'))", 'invalid input syntax for type INTEGER: "x".'),
        ("ITEMS IN (ARRAY[OK])", "ARRAY<INTEGER> = ARRAY<BOOLEAN> (ARRAY[OK])"),
        ("DAY IN ('soon')", 'invalid input syntax for type DATE: "soon".'),
        ("DAY IN ('2021-02-29')", 'invalid input syntax for type DATE: "2021-02-29".'),
        ("AT_ NOT IN ('')", 'invalid input syntax for type TIMESTAMP: "".'),
        ("ARRAY['10:61', CAST(NAME AS TIME)]", 'invalid input syntax for type TIME: "10:61".'),
        ("MAP('k' := DAY, 'l' := 'x')", 'invalid input syntax for type DATE: "x".'),
        ("ARRAY[CAST(NAME AS BYTES), 'Y']", 'invalid input syntax for type BYTES: "Y".'),
        ("ARRAY[]", "Array constructor cannot be empty."),
        ("MAP(NULL := 1)", "Cannot construct a map with all NULL keys"),
        ("STRUCT(A := 1, A := 2)", "Duplicate field names"),
        ("CASE WHEN OK THEN 1 ELSE 2.5 END", "Invalid Case expression."),
        (
            "CASE WHEN OK THEN NULL WHEN BIG > 1 THEN 1 WHEN OK THEN 'x' END",
            "should be the same.\nTHEN expression 'WHEN OK THEN 'x'' has type: STRING.\n"
            "Previous THEN expression(s) type: INTEGER.",
        ),
        (
            "CASE WHEN L.ID THEN 1 END",
            "WHEN operand type should be boolean.\nType for 'L_ID' is INTEGER",
        ),
        ("CASE WHEN OK THEN NULL END", "All case branches have NULL type"),
        ("CASE BIG WHEN 1 THEN 2 END", "searched case"),
        ("CAST(NAME AS ARRAY<INT>)", "Invalid Select: Cast of STRING to ARRAY<INTEGER> is not"),
        ("CAST(OK AS INT)", "Cast of BOOLEAN to INTEGER is not supported"),
        ("CAST(NAME AS NOWHERE)", "Cannot resolve unknown type: NOWHERE"),
        ("NOT BIG", "should be BOOLEAN but BIG is BIGINT"),
        ("BIG LIKE 'x'", "The column type for Like condition must be VARCHAR."),
        ("UNKNOWN(1)", "Can't find any functions with the name 'UNKNOWN'"),
        ("HALF(NAME)", "Function 'half' does not accept parameters (STRING)."),
        ("COUNT(BIG)", "SELECT does not support aggregate functions: COUNT"),
        ("UNFOLD(ITEMS)", "does not support table functions: UNFOLD is a table function."),
        ("ROWTIME > 'never'", "Failed to parse timestamp 'never'"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        type_expression(parse_expression(text), SCOPE)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("2018", 1514764800000),
        ("2018-01-01T00:00:00.001", 1514764800001),
        ("2018-01-01T00:00:00+0445", 1514764800000 - (4 * 60 + 45) * 60000),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_rowtime_compares_with_text(text: str, millis: int) -> None:
    typed = type_expression(parse_expression(f"ROWTIME > '{text}'"), SCOPE)
    assert typed.right == Literal(millis, BIGINT)  # type: ignore[union-attr]


def test_calls_above_rows_where_the_scope_allows_them() -> None:
    scope = Scope((("L", LEFT),), CATALOGUE, aggregates=True, tables=True)

    def typed(text: str) -> object:
        return type_expression(parse_expression(text), scope)

    last = typed("LAST(BIG, 2)")
    assert isinstance(last, AggregateCall) and last.constants == (2,)
    assert last.type == Array(BIGINT)
    count = typed("COUNT(*)")
    assert isinstance(count, AggregateCall) and count.arguments == (Literal(1, BIGINT),)
    unfolded = typed("UNFOLD(ITEMS)")
    assert isinstance(unfolded, TableCall) and unfolded.type == INTEGER
    with pytest.raises(StatementError, match="Parameter 2 passed to function LAST must be a lit"):
        typed("LAST(BIG, ID)")
    with pytest.raises(StatementError, match="Aggregate functions can not be nested"):
        typed("COUNT(COUNT(BIG))")


@pytest.mark.parametrize(
    ("number", "text"),
    [("1e10", "1.0E10"), ("1e0", "1.0"), ("1.50", "1.50"), ("-7", "-7"), ("TRUE", "true")],
)
def test_constants_among_texts_are_the_text_of_their_cast(number: str, text: str) -> None:
    typed = type_expression(parse_expression(f"ARRAY[NAME, {number}]"), SCOPE)
    assert typed.items[1] == Literal(text, STRING)  # type: ignore[union-attr]


def test_literals_become_literals_of_the_wanted_type() -> None:
    compared = type_expression(parse_expression("REAL > 3"), SCOPE)
    assert compared.right == Literal(3.0, DOUBLE)  # type: ignore[union-attr]
    call = type_expression(parse_expression("HALF(BIG)"), SCOPE)
    assert isinstance(call, Call) and isinstance(call.arguments[0], Cast)
    assert call.arguments[0].implicit


def test_errors_have_the_position_in_the_script() -> None:
    scope = Scope((("L", LEFT),), CATALOGUE, text="NOPE + 1", clause="WHERE")
    with pytest.raises(StatementError) as caught:
        type_expression(parse_expression("NOPE + 1"), scope)
    assert caught.value.message == "Line: 1, Col: 1: WHERE column 'NOPE' cannot be resolved."
    assert caught.value.span is not None
