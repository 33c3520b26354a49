"""ISO-8601 text, any prefix of it, as a moment: what ROWTIME and window bounds compare with."""

from __future__ import annotations

import datetime
import re

from millstream.plan import wordings

_TEXT = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?"
    r"(?:T(?:(\d{2})(?::(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?)?)?"
    r"(Z|[+-]\d{2}(?::?\d{2})?)?"
)


def epoch_millis(text: str) -> int:
    """Milliseconds since the epoch; missing parts are the first possible, a missing zone is UTC.

    Raises StatementError where the text is no such moment.
    """
    match = _TEXT.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError(text)
        year, month, day, hour, minute, second = (
            int(part or default)
            for part, default in zip(match.groups()[:6], (0, 1, 1, 0, 0, 0), strict=True)
        )
        moment = datetime.datetime(
            year, month, day, hour, minute, second, tzinfo=_zone(match.group(8))
        )
    except (ValueError, OverflowError):
        raise wordings.UNREADABLE_TIMESTAMP(
            text=text,
            hint="Required format is: \"yyyy-MM-dd'T'HH:mm:ss.SSS\", with an optional time zone "
            "(Z, +0100); it may end after any part.",
        ) from None
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    seconds = (moment - epoch) // datetime.timedelta(seconds=1)
    return seconds * 1000 + int((match.group(7) or "0").ljust(3, "0")[:3])


def _zone(text: str | None) -> datetime.tzinfo:
    if text is None or text == "Z":
        return datetime.UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return datetime.timezone(-offset if text[0] == "-" else offset)
