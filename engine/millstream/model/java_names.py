"""The English words of Java's date-time patterns, by field and style."""

from __future__ import annotations

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ORDINALS = ("1st", "2nd", "3rd", "4th")

Words = dict[int, str]
"""Words by the value of their field."""


def _styles(names: tuple[str, ...]) -> dict[str, Words]:
    return {
        "short": {at: name[:3] for at, name in enumerate(names, 1)},
        "full": dict(enumerate(names, 1)),
        "narrow": {at: name[0] for at, name in enumerate(names, 1)},
    }


WORDS: dict[str, dict[str, Words]] = {
    "M": _styles(MONTHS),
    "E": _styles(DAYS),
    "Q": {
        "short": {at: f"Q{at}" for at in range(1, 5)},
        "full": {at: f"{name} quarter" for at, name in enumerate(_ORDINALS, 1)},
        "narrow": {at: str(at) for at in range(1, 5)},
    },
    "G": {
        "short": {0: "BC", 1: "AD"},
        "full": {0: "Before Christ", 1: "Anno Domini"},
        "narrow": {0: "B", 1: "A"},
    },
    "a": {"short": {0: "AM", 1: "PM"}},
}

_LONG = ("midnight", "noon", "in the morning", "in the afternoon", "in the evening", "at night")
PERIODS: dict[str, tuple[str, ...]] = {
    "short": _LONG,
    "full": _LONG,
    "narrow": ("mi", "n", *_LONG[2:]),
}
"""Names of the periods of a day (letter B), in the order of `PERIOD_MINUTES`."""
PERIOD_MINUTES = ((0, 0), (720, 720), (360, 720), (720, 1080), (1080, 1260), (1260, 1800))
"""First minute of a day's period and the one after it; an instant where they are the same."""


def in_period(period: int, minute: int) -> bool:
    """Whether a minute of the day is in a period."""
    low, high = PERIOD_MINUTES[period]
    return minute == low or low <= minute < high or low <= minute + 1440 < high
