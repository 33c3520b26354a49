"""Parses ISO-8601 text, or any prefix of it, as a point in time for comparison with ROWTIME and
window bounds."""

from __future__ import annotations

import datetime
import re

from millstream.model.java_time import compile_pattern, parse_timestamp
from millstream.model.partial_times import FIRST_DATE, FIRST_TIME, MOMENT_TEXT
from millstream.plan import wordings

_TEXT = re.compile(MOMENT_TEXT)
_WHOLE = compile_pattern("yyyy-MM-dd'T'HH:mm:ss.SSS")


def epoch_millis(text: str) -> int:
    """Milliseconds since the epoch; missing parts take their lowest value, a missing zone is UTC.

    Raises StatementError where the text is not a valid time.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise wordings.UNREADABLE_TIMESTAMP(
            text=text,
            hint="Required format is: \"yyyy-MM-dd'T'HH:mm:ss.SSS\", with an optional time zone "
            "(Z, +0100); it may end after any part.",
        )
    date, clock, zone = match[1], match[2] or "", match[3] or ""
    whole = f"{date}{FIRST_DATE[len(date) :]}T{clock}{FIRST_TIME[len(clock) :]}"
    return parse_timestamp(_WHOLE, whole) - _ahead(zone) * 1000


def _ahead(zone: str) -> int:
    """Seconds that a zone is ahead of UTC."""
    digits = re.sub("[^0-9]", "", zone)
    six = digits.rjust(2, "0").ljust(6, "0")
    ahead = datetime.timedelta(hours=int(six[:2]), minutes=int(six[2:4]), seconds=int(six[4:]))
    seconds = ahead // datetime.timedelta(seconds=1)
    return -seconds if zone.startswith("-") else seconds
