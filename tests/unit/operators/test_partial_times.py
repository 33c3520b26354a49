"""Texts of moments, dates and times that end early, in CAST and beside ROWTIME.

The rule is ksqlDB's (reference: sql-statements, "Timestamp text coercion"; types-and-formats,
section 3): a missing end is the first possible one, a zone is what Java's `ZoneId.of` reads and
needs a `T`, and the padded text is read by Java's `yyyy-MM-dd'T'HH:mm:ss.SSS` in its smart style:
a day that the month lacks is its last, 24:00 is the next midnight. DATE and TIME are strict; TIME
is cut to milliseconds.
"""

from __future__ import annotations

import datetime

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.errors import StatementError
from millstream.model.types import DATE, STRING, TIME, TIMESTAMP, SqlType
from millstream.operators.casts import convert
from millstream.plan.instants import epoch_millis
from tests.draws import draws

CON = duckdb.connect(config={"threads": 1})
MOMENTS = {
    "2020": "2020-01-01T00:00:00",
    "2020-02": "2020-02-01T00:00:00",
    "2020-02-03T": "2020-02-03T00:00:00",
    "2020T10": "2020-01-01T10:00:00",
    "2020-02T10:11": "2020-02-01T10:11:00",
    "2020-02-03T10:11:12": "2020-02-03T10:11:12",
    "2020-02-03T10:11:12.5": "2020-02-03T10:11:12.500",
    "2020-02-30": "2020-02-29T00:00:00",
    "2021-02-31T10": "2021-02-28T10:00:00",
    "2021-04-31": "2021-04-30T00:00:00",
    "2020-01-01T24": "2020-01-02T00:00:00",
    "2020-12-31T24:00:00.000": "2021-01-01T00:00:00",
    "2020-02-30T24:00Z": "2020-03-01T00:00:00",
    "2020-01-01TZ": "2020-01-01T00:00:00",
    "2020-01-01T10Z": "2020-01-01T10:00:00",
    "2020-01-01T10+1": "2020-01-01T09:00:00",
    "2020-01-01T10+01": "2020-01-01T09:00:00",
    "2020-01-01T10-0130": "2020-01-01T11:30:00",
    "2020-01-01T10+01:30": "2020-01-01T08:30:00",
    "2020-01-01T10:00+01:30:15": "2020-01-01T08:29:45",
    "2020-01-01T10-18": "2020-01-02T04:00:00",
    "1960-01-01T10:11:12.5-01:30": "1960-01-01T11:41:12.500",
}
NO_MOMENTS = (
    "", "x", "0000", "202", "2020-", "2020-1", "2020-13", "2020-00", "2020-01-00", "2020-01-32",
    "2020-01-01Z", "2020-01-01+0100", "2020-01-01T1", "2020-01-01T10:", "2020-01-01T25",
    "2020-01-01T24:01", "2020-01-01T24:00:00.001", "2020-01-01T10:60", "2020-01-01T10:11:60",
    "2020-01-01T10:11:12.", "2020-01-01T10:11:12.1234", "2020-01-01T10+19",
    "2020-01-01T10+1801", "2020-01-01T10+01:0", "2020-01-01T10+01:3015",
    "2020-01-01T10[Europe/Paris]", "2020-01-01T10+01[Europe/Paris]", "2020-01-01 10:11",
)  # fmt: skip


def cast_text(text: str, target: SqlType) -> object:
    """The value, or None where the cast raises."""
    sql = convert("v", STRING, target, exact=True)
    row = CON.execute(f"SELECT TRY({sql}) FROM (SELECT ?::VARCHAR AS v)", [text]).fetchone()
    assert row is not None
    return row[0]


def literal(text: str) -> int | None:
    try:
        return epoch_millis(text)
    except StatementError:
        return None


def millis(moment: object) -> int | None:
    if moment is None:
        return None
    assert isinstance(moment, datetime.datetime)
    return (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(milliseconds=1)


@pytest.mark.parametrize(("text", "moment"), MOMENTS.items())
def test_moments(text: str, moment: str) -> None:
    expected = datetime.datetime.fromisoformat(moment)
    assert cast_text(text, TIMESTAMP) == expected
    assert literal(text) == millis(expected)


@pytest.mark.parametrize("text", NO_MOMENTS)
def test_no_moments(text: str) -> None:
    assert cast_text(text, TIMESTAMP) is None
    assert literal(text) is None


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("10:11", "10:11:00"),
        ("10:11:12", "10:11:12"),
        ("10:11:12.123456", "10:11:12.123"),
        ("23:59:59.999999999", "23:59:59.999"),
        ("24:00", None),
        ("10:60", None),
        ("1:00", None),
        ("10", None),
    ],
)
def test_times(text: str, time: str | None) -> None:
    expected = None if time is None else datetime.time.fromisoformat(time)
    assert cast_text(text, TIME) == expected


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2020", "2020-01-01"),
        ("2020-02", "2020-02-01"),
        ("2020-02-29", "2020-02-29"),
        ("2020-02-30", None),
        ("2020-1", None),
        ("2020-01-01T10", None),
    ],
)
def test_dates(text: str, date: str | None) -> None:
    expected = None if date is None else datetime.date.fromisoformat(date)
    assert cast_text(text, DATE) == expected


PIECES = st.tuples(
    st.sampled_from(["2020", "0001", "9998"]),
    st.sampled_from(["", "-02", "-12-31", "-02-30", "-2"]),
    st.sampled_from(["", "T", "T24", "T10", "T10:59", "T23:59:59", "T10:11:12.12"]),
    st.sampled_from(["", "Z", "+1", "-01", "+1759", "-18:00", "+0100", "+01:02:03", "+18:01"]),
).map("".join)


@settings(max_examples=draws(300), deadline=None)
@given(PIECES)
def test_literals_and_casts_agree(text: str) -> None:
    sql = convert("v", STRING, TIMESTAMP, exact=True)
    row = CON.execute(f"SELECT epoch_ms(TRY({sql})) FROM (SELECT ?::VARCHAR AS v)", [text])
    assert row.fetchone() == (literal(text),)


def test_a_long_text_is_not_repeated() -> None:
    sql = convert("x" * 1000, STRING, TIMESTAMP, exact=False)
    assert sql.count("x" * 1000) == 2
