"""The format of dates, times and timestamps in texts, as patterns for both `re` and DuckDB.

The rules are those of ksqlDB's text to TIMESTAMP: the date and the time behind `T` may each end
after any part, a zone needs the `T`, and the whole is read by Java's `yyyy-MM-dd'T'HH:mm:ss.SSS`
in its smart style: a day that its month lacks is the month's last, and 24:00 is the next midnight.
"""

from __future__ import annotations

_DAY = r"(?:0[1-9]|[12][0-9]|3[01])"
_MONTH = r"(?:0[1-9]|1[0-2])"
_YEAR = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_SIXTIETH = "[0-5][0-9]"
_HOUR = r"(?:[01][0-9]|2[0-3])"

DATE_TEXT = rf"[0-9]{{4}}(?:-{_MONTH}(?:-{_DAY})?)?"
TIME_TEXT = rf"{_HOUR}:{_SIXTIETH}(?::{_SIXTIETH}(?:\.[0-9]{{0,9}})?)?"

_CLOCK = (
    rf"(?:{_HOUR}(?::{_SIXTIETH}(?::{_SIXTIETH}(?:\.[0-9]{{1,3}})?)?)?"
    r"|24(?::00(?::00(?:\.0{1,3})?)?)?)?"
)
_BEHIND_HOUR = rf"(?::{_SIXTIETH}(?::{_SIXTIETH})?|{_SIXTIETH}(?:{_SIXTIETH})?)?"
_ZONE = rf"(?:Z|[+-](?:[0-9]|(?:0[0-9]|1[0-7]){_BEHIND_HOUR}|18(?::00(?::00)?|00(?:00)?)?))?"
MOMENT_TEXT = rf"({_YEAR}(?:-{_MONTH}(?:-{_DAY})?)?)(?:T({_CLOCK})({_ZONE}))?"
"""Groups: the date, the time, the zone."""

FIRST_DATE = "0000-01-01"
"""The default for the missing end of a date."""

FIRST_TIME = "00:00:00.000"
"""The default for the missing end of a time."""
