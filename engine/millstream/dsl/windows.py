"""Windows of aggregations, and lengths of time."""

from __future__ import annotations

from datetime import timedelta

from millstream_grammar.keywords import TIME_UNITS
from millstream_parser import read_duration
from millstream_parser import statements as s

Window = s.WindowClause
"""What `tumbling`, `hopping`, `session` and `sliding` return."""
Length = timedelta | str
"""A length of time: a timedelta, or a text such as "10 minutes"."""
_UNITS = (
    ("DAYS", 86_400_000),
    ("HOURS", 3_600_000),
    ("MINUTES", 60_000),
    ("SECONDS", 1_000),
    ("MILLISECONDS", 1),
)


def tumbling(
    size: Length, *, grace: Length | None = None, retention: Length | None = None
) -> Window:
    """Windows of one size that follow each other: each record is in one of them. `grace`: how late
    a record may be; `retention`: how long the windows are kept."""
    return s.WindowClause(
        "TUMBLING", duration(size), None, optional(retention), optional(grace, zero=True)
    )


def hopping(
    size: Length,
    advance: Length,
    *,
    grace: Length | None = None,
    retention: Length | None = None,
) -> Window:
    """Windows of one size, one of which begins each `advance`: they overlap."""
    return s.WindowClause(
        "HOPPING",
        duration(size),
        duration(advance),
        optional(retention),
        optional(grace, zero=True),
    )


def session(gap: Length, *, grace: Length | None = None, retention: Length | None = None) -> Window:
    """Windows of activity: records with less than `gap` between them are in the same one."""
    return s.WindowClause(
        "SESSION", duration(gap), None, optional(retention), optional(grace, zero=True)
    )


def sliding(
    size: Length, *, grace: Length | None = None, retention: Length | None = None
) -> Window:
    """A window for each set of records with at most `size` between them: one that ends at each
    record, and one that begins right behind it. As in Kafka Streams; ksqlDB has none."""
    return s.WindowClause(
        "SLIDING", duration(size), None, optional(retention), optional(grace, zero=True)
    )


def optional(length: Length | None, *, zero: bool = False) -> s.Duration | None:
    """The duration of a length that may be left out; `zero`: it may be zero."""
    return None if length is None else duration(length, zero=zero)


def duration(length: Length, *, zero: bool = False) -> s.Duration:
    """A length of time as SQL has it: a timedelta in the longest unit of which it is a whole
    number. Raises TypeError and ValueError."""
    match length:
        case str():
            return _from_text(length, zero=zero)
        case timedelta():
            return _from_timedelta(length, zero=zero)
    raise TypeError(
        f"A length of time is a timedelta or a text such as '10 seconds', not"
        f" {type(length).__name__}"
    )


def _from_text(text: str, *, zero: bool) -> s.Duration:
    words = text.split()
    if zero and len(words) == 2 and words[0] == "0" and words[1].upper() in TIME_UNITS:
        return s.Duration(0, TIME_UNITS[words[1].upper()])
    try:
        return read_duration(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no length of time: {error}") from None


def _from_timedelta(length: timedelta, *, zero: bool) -> s.Duration:
    milliseconds, rest = divmod(length, timedelta(milliseconds=1))
    if rest:
        raise ValueError(f"{length!r} is not a whole number of milliseconds")
    if milliseconds < 0 or (not milliseconds and not zero):
        least = "zero or longer" if zero else "longer than zero"
        raise ValueError(f"A length of time is {least}, not {length!r}")
    if not milliseconds:
        return s.Duration(0, "SECONDS")
    unit, size = next(item for item in _UNITS if milliseconds % item[1] == 0)
    return s.Duration(milliseconds // size, unit)
