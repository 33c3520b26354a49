"""Java's time patterns: what they read and write."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.model.errors import RecordError, StatementError
from millstream.model.java_time import (
    civil_from_days,
    compile_pattern,
    days_from_civil,
    format_date,
    format_time,
    format_timestamp,
    parse_date,
    parse_time,
    parse_timestamp,
)
from millstream.model.java_zones import parse_zone

DAY = 86_400_000


@pytest.mark.parametrize(
    ("pattern", "text", "millis"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SX", "1970-01-02T00:00:01.2+0000", DAY + 1200),
        ("yyyy-MM-dd'T'HH:mm:ssX", "1970-01-02T00:00:01Z", DAY + 1000),
        ("yyyyMMdd", "19700103", 2 * DAY),
        ("yy-MM-dd HH:mm:ssXXX", "70-01-01 02:00:00+02:00", 3_155_760_000_000),
        ("dd MMM yyyy[ HH:mm]", "02 jan 1970", DAY),
        ("dd MMM yyyy[ HH:mm]", "02 Jan 1970 00:01", DAY + 60_000),
        ("MMMM d, yyyy h:mm a", "January 2, 1970 12:05 PM", DAY + 43_500_000),
        ("yyyy-MM-dd", "1970-02-31", 58 * DAY),
        ("yyyy-MM-dd HH:mm zzz", "1970-01-02 00:00 PST", DAY + 8 * 3_600_000),
        ("yyyy-MM-dd HH:mm VV", "1970-07-01 00:00 Europe/Oslo", 181 * DAY - 3_600_000),
        ("HH:mm", "24:00", 0),
        ("yyyy-MM-dd HH:mm", "1970-01-01 24:00", DAY),
        ("yyyy-DDD", "1970-032", 31 * DAY),
        ("''yyyy''", "'1971'", 365 * DAY),
    ],
)
def test_read(pattern: str, text: str, millis: int) -> None:
    assert parse_timestamp(compile_pattern(pattern), text) == millis


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", "not a date"),
        ("yyyy-MM-dd", "1970-13-01"),
        ("HH:mm", "25:00"),
        ("yyyy-MM-dd", "1970-01-01x"),
        ("yyyy VV", "1970 Nowhere/Land"),
    ],
)
def test_unreadable(pattern: str, text: str) -> None:
    with pytest.raises(RecordError):
        parse_timestamp(compile_pattern(pattern), text)


@pytest.mark.parametrize("pattern", ["shoe", "yyyy]", "'yyyy", "{yyyy}", "ddd", "SSSSSSSSSS"])
def test_invalid_pattern(pattern: str) -> None:
    with pytest.raises(StatementError):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "zone", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS", "UTC", "2018-05-11 21:58:33.045"),
        ("EEE EEEE Q QQQ D a h", "UTC", "Fri Friday 2 Q2 131 PM 9"),
        (
            "zzzz z XXX xx O VV",
            "Europe/Paris",
            "Central European Summer Time CEST +02:00 +0200 GMT+2 Europe/Paris",
        ),
        ("X z", "UTC", "Z UTC"),
        ("HH:mm Z", "America/Los_Angeles", "14:58 -0700"),
    ],
)
def test_write(pattern: str, zone: str, text: str) -> None:
    assert format_timestamp(compile_pattern(pattern), 1526075913045, parse_zone(zone)) == text


def test_changes_of_clocks() -> None:
    pattern, zone = compile_pattern("yyyy-MM-dd HH:mm"), parse_zone("America/Los_Angeles")
    skipped = parse_timestamp(pattern, "2021-03-14 02:30", zone)
    assert format_timestamp(pattern, skipped, zone) == "2021-03-14 03:30"
    repeated = parse_timestamp(pattern, "2021-11-07 01:30", zone)
    # ksqlDB sets one field after the other from 1 January on, whose offset a repeated time keeps.
    assert format_timestamp(compile_pattern("z"), repeated, zone) == "PST"
    named = parse_timestamp(
        compile_pattern("yyyy-MM-dd HH:mm VV"), "2021-11-07 01:30 America/Los_Angeles"
    )
    assert format_timestamp(compile_pattern("z"), named, zone) == "PDT"


def test_dates_and_times_alone() -> None:
    date, time = compile_pattern("dd/MM/yyyy"), compile_pattern("HH:mm:ss.SSS")
    assert parse_date(date, "04/03/2021") == 18690
    assert format_date(date, 18690) == "04/03/2021"
    assert parse_time(time, "00:00:01.500") == 1_500_000_000
    assert format_time(time, 1_500_000_000) == "00:00:01.500"
    with pytest.raises(RecordError):
        format_date(time, 0)
    with pytest.raises(RecordError):
        format_time(date, 0)


@given(st.dates())
def test_civil_days(date: datetime.date) -> None:
    days = (date - datetime.date(1970, 1, 1)).days
    assert days_from_civil(date.year, date.month, date.day) == days
    assert civil_from_days(days) == (date.year, date.month, date.day)


@given(st.integers(-(10**14), 10**14))
def test_round_trip(millis: int) -> None:
    pattern = compile_pattern("uuuu-MM-dd'T'HH:mm:ss.SSSX")
    if abs(millis) < 6 * 10**13:
        assert parse_timestamp(pattern, format_timestamp(pattern, millis)) == millis
