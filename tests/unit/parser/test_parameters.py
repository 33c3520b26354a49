"""Parameters are read as their literals, and as nothing else."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest

from millstream_parser import (
    Parameters,
    SyntaxFailure,
    Values,
    parse,
    parse_expression,
    print_statement,
)
from millstream_parser.parameters import Value
from millstream_parser.statements import SelectStatement


def bound(text: str, values: Values) -> str:
    parameters = Parameters(values)
    parameters.check(text)
    return ";".join(map(print_statement, parse(text, parameters=parameters)))


def refused(text: str, values: Values) -> SyntaxFailure:
    with pytest.raises(SyntaxFailure) as caught:
        bound(text, values)
    return caught.value


EAST = timezone(timedelta(hours=2))
DEEP: Value = 1
for _ in range(17):
    DEEP = [DEEP]
ENDLESS: list[Value] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (False, "FALSE"),
        (7, "7"),
        (-(2**63), "-9223372036854775808"),
        (2.5, "2.5E0"),
        (-1e30, "-1e+30"),
        (Decimal("1.50"), "1.50"),
        (Decimal("-3"), "-3."),
        ("it's -- ${x} ; `", "'it''s -- ${x} ; `'"),
        (date(2026, 1, 31), "CAST('2026-01-31' AS DATE)"),
        (time(3, 4, 5, 6000), "CAST('03:04:05.006' AS TIME)"),
        (datetime(2026, 1, 31, 3, 4, 5), "CAST('2026-01-31T03:04:05.000' AS TIMESTAMP)"),
        (datetime(2026, 1, 31, 3, tzinfo=EAST), "CAST('2026-01-31T01:00:00.000' AS TIMESTAMP)"),
        (datetime(2026, 1, 31, 3, tzinfo=UTC), "CAST('2026-01-31T03:00:00.000' AS TIMESTAMP)"),
        (b"\x00\xff", "TO_BYTES('00ff', 'hex')"),
        (b"", "TO_BYTES('', 'hex')"),
        ([-1, None], "ARRAY[-1, NULL]"),
        (("a]'",), "ARRAY['a]''']"),
        ([[b"x"], [date(2026, 1, 31)]],
         "ARRAY[ARRAY[TO_BYTES('78', 'hex')], ARRAY[CAST('2026-01-31' AS DATE)]]"),
    ],
)  # fmt: skip
def test_a_value_is_the_literal_of_its_type(value: Value, literal: str) -> None:
    (statement,) = parse("INSERT INTO s VALUES (1 - ?)", parameters=Parameters([value]))
    (written,) = parse(f"INSERT INTO s VALUES (1 - {literal})")
    assert statement == written
    assert parse(print_statement(statement)) == (statement,)


@pytest.mark.parametrize(
    ("text", "values", "same"),
    [
        ("SELECT * FROM s WHERE a = ? AND b = ?", [1, "x"], "SELECT * FROM s WHERE a=1 AND b='x'"),
        ("SELECT * FROM s WHERE a IN ($2, $1, $2)", [1, 2], "SELECT * FROM s WHERE a IN (2, 1, 2)"),
        ("SELECT MAP('k':=:v) FROM s", {"v": 1}, "SELECT MAP('k':=1) FROM s"),
        ("SELECT a FROM s LIMIT ?", [3], "SELECT a FROM s LIMIT 3"),
        ("SELECT a FROM s WHERE b LIKE ? ESCAPE ?", ["a%", "!"],
         "SELECT a FROM s WHERE b LIKE 'a%' ESCAPE '!'"),
        ("SELECT a AT TIME ZONE ? FROM s", ["UTC"], "SELECT a AT TIME ZONE 'UTC' FROM s"),
        ("SELECT * FROM s AS OF TIMESTAMP ?", [5], "SELECT * FROM s AS OF TIMESTAMP 5"),
        ("CREATE STREAM s WITH (kafka_topic=?, partitions=?)", ["t", 2],
         "CREATE STREAM s WITH (kafka_topic='t', partitions=2)"),
        ("SHOW STREAMS; SELECT ? FROM s; SELECT ? FROM s", [1, 2],
         "SHOW STREAMS; SELECT 1 FROM s; SELECT 2 FROM s"),
        ("SELECT '?', `?` /* ? */ FROM s -- ?", [], "SELECT '?', `?` FROM s"),
    ],
)  # fmt: skip
def test_wherever_a_literal_can_stand(text: str, values: Values, same: str) -> None:
    assert bound(text, values) == bound(same, ())


def test_statements_that_are_parsed_one_by_one_go_on_counting() -> None:
    parameters = Parameters([1, 2])
    shown = [
        print_statement(statement)
        for text in ("SELECT ? FROM s", "SELECT ? FROM s")
        for statement in parse(text, parameters=parameters)
    ]
    assert shown == [bound("SELECT 1 FROM s", ()), bound("SELECT 2 FROM s", ())]


@pytest.mark.parametrize(
    ("text", "values", "message", "place"),
    [
        ("SELECT ? FROM s", [], "There is no value for parameter 1", "?"),
        ("SELECT ?, ? FROM s", [1], "There is no value for parameter 2", "?"),
        ("SELECT $0 FROM s", [1], "There is no value for parameter 0", "$0"),
        ("SELECT :b FROM s", {"a": 1}, "There is no value for parameter b", ":b"),
        ("SELECT :b FROM s", [1], "There is no value for parameter b", ":b"),
        ("SELECT ? FROM s;", [1, 2], "Parameter 2 has a value", ";"),
        ("SELECT $2 FROM s", [1, 2], "Parameter 1 has a value", "s"),
        ("", [1], "Parameter 1 has a value", ""),
        ("SELECT ?, $1 FROM s", [1], "Parameters are written in two ways", "$1"),
        ("SELECT ? FROM s", [[]], "Parameter 1 cannot be used: it is a list without", "?"),
        ("SELECT ? FROM s", [[None]], "it is a list without an element other than null", "?"),
        ("SELECT ? FROM s", [[1, []]], "it is a list without an element other than null", "?"),
        ("SELECT ? FROM s", [[1, {}]], "Parameter 1 cannot be used: it is an object", "?"),
        ("SELECT ? FROM s", [[1, 2**63]], "does not fit into 64 bits", "?"),
        ("SELECT ? FROM s", [DEEP], "more than 16 lists within each other", "?"),
        ("SELECT ? FROM s", [ENDLESS], "more than 16 lists within each other", "?"),
        ("SELECT :o FROM s", {"o": {}}, "Parameter o cannot be used: it is an object", ":o"),
        ("SELECT ? FROM s", [set()], "Parameter 1 cannot be used: it is of type set", "?"),
        ("SELECT ? FROM s", [2**63], "does not fit into 64 bits", "?"),
        ("SELECT ? FROM s", [float("nan")], "it is nan", "?"),
        ("SELECT ? FROM s", [Decimal("Infinity")], "it is Infinity", "?"),
        ("SELECT ? FROM s", ["\ud800"], "half a character", "?"),
        ("SELECT * FROM ?", ["s"], "Syntax error at or near '?'", "?"),
        ("SELECT a FROM s LIMIT ?", ["5"], "Expecting INTEGER_VALUE", "?"),
        ("SELECT a FROM s WHERE b LIKE ? ESCAPE ?", ["a", "ab"], "exactly one character", "?"),
    ],
)
def test_refused_with_the_place(text: str, values: Values, message: str, place: str) -> None:
    failure = refused(text, values)
    assert message in failure.message
    assert text[failure.span.start : failure.span.end] == place


def test_a_value_of_the_wrong_kind_is_reported_but_not_shown() -> None:
    failure = refused("SELECT a FROM s LIMIT ?", ["secret"])
    assert failure.hint == "The value of parameter 1 is a string."
    assert "secret" not in str(failure)


@pytest.mark.parametrize("text", ["SELECT a$1 FROM s", "SELECT $1a FROM s", "SELECT a::INT FROM s"])
def test_no_parameters(text: str) -> None:
    assert "unexpected character" in refused(text, [1]).message


def test_values_of_a_query_beyond_the_dialect_come_with_it() -> None:
    text = "SELECT * FROM (SELECT ? AS a FROM t) WHERE b = ?"
    (statement,) = parse(text, extended_pull=True, parameters=Parameters([-1, "x"]))
    assert isinstance(statement, SelectStatement)
    assert [value for _, value in statement.bound] == [
        parse_expression("-1"),
        parse_expression("'x'"),
    ]
    assert [text[span.start : span.end] for span, _ in statement.bound] == ["?", "?"]
    assert statement.beyond is not None
