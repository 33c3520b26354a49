"""The reader of usual timestamps reads nothing otherwise than the general one."""

from __future__ import annotations

import datetime
from random import Random

import pytest

from millstream.model import java_time
from millstream.model.errors import RecordError
from millstream.model.java_plain import plain_reader
from millstream.model.java_time import compile_pattern, parse_timestamp
from millstream.model.java_zones import UTC, parse_zone

USUAL = (
    "yyyy-MM-dd'T'HH:mm:ss.SSSX",
    "yyyy-MM-dd'T'HH:mm:ssXXX",
    "uuuu-MM-dd HH:mm:ss",
    "yyyyMMddHHmmss",
    "yyyyMMddHHmmssSSS",
    "dd/MM/yyyy HH:mm:ss.SSSSSSxxx",
    "yyyy-MM-dd'T'HH:mm:ssZ",
    "yyyy-MM-dd HH:mm:ss.SXX",
)
UNUSUAL = ("yyyy-MM-dd", "yy-MM-dd HH:mm:ss", "yyyy-M-d H:m:s", "yyyy-MM-dd HH:mm:ss VV", "E yyyy")
ZONES = (UTC, parse_zone("+05:30"), parse_zone("Europe/Berlin"))


def general(pattern: str, text: str, zone: datetime.tzinfo) -> int | None:
    try:
        return java_time._parse_timestamp(compile_pattern(pattern), text, zone)
    except RecordError:
        return None


def read(pattern: str, text: str, zone: datetime.tzinfo) -> int | None:
    try:
        return parse_timestamp(compile_pattern(pattern), text, zone)
    except RecordError:
        return None


def altered(random: Random, text: str) -> str:
    """The text with a character or two replaced, left out or added."""
    for _ in range(random.choice((0, 1, 1, 2))):
        at = random.randrange(len(text))
        new = random.choice(("", "0", "3", "9", "-", "+", ":", " ", "z", "Z", text[at] * 2))
        text = text[:at] + new + text[at + 1 :]
    return text


@pytest.mark.parametrize("pattern", USUAL)
def test_both_readers_agree(pattern: str) -> None:
    random = Random(pattern)
    known = 0
    plain = plain_reader(pattern)
    assert plain is not None
    for _ in range(400):
        millis = random.randrange(-62_100_000_000_000, 253_000_000_000_000)
        zone = random.choice(ZONES)
        written = java_time.format_timestamp(compile_pattern(pattern), millis, zone)
        text = altered(random, written)
        known += plain(text) is not None
        assert read(pattern, text, zone) == general(pattern, text, zone), text
    assert known > 50


@pytest.mark.parametrize("pattern", UNUSUAL)
def test_other_patterns_are_for_the_general_reader(pattern: str) -> None:
    assert plain_reader(pattern) is None


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2021-02-30 00:00:00",
            "2021-01-01 24:00:00",
            "2021-13-01 00:00:00",
            "0000-01-01 00:00:00",
        ),
        *(
            "2021-01-01 00:60:00",
            "٢٠٢١-01-01 00:00:00",
            "2021-01-01 00:00:00 ",
            "-021-01-01 00:00:00",
        ),
    ],
)
def test_unusual_texts_are_for_the_general_reader(text: str) -> None:
    reader = plain_reader("uuuu-MM-dd HH:mm:ss")
    assert reader is not None and reader(text) is None
