"""Formats dates and times by a compiled pattern, as Java's formatter does."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from millstream.model.errors import RecordError
from millstream.model.java_names import PERIODS, WORDS, in_period
from millstream.model.java_pattern import (
    Fraction,
    GmtOffset,
    Literal,
    Number,
    Offset,
    Padded,
    Part,
    Section,
    Word,
    ZoneId,
    ZoneName,
)
from millstream.model.java_zones import gmt_text, offset_ms, offset_text, zone_id, zone_name


class LackingFieldError(RecordError):
    """The pattern has a field that the value does not have."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The value to format: fields by pattern letter, and the zone and the instant if it has
    them."""

    fields: Mapping[str, int]
    zone: datetime.tzinfo | None = None
    millis: int = 0


def write(parts: tuple[Part, ...], moment: Moment) -> str:
    """The text. Raises RecordError where the value lacks a field or does not fit."""
    return "".join([_part(part, moment) for part in parts])


def _part(part: Part, moment: Moment) -> str:
    match part:
        case Literal():
            return part.text
        case Number():
            return _number(part, _field(moment, part.field))
        case Fraction():
            return f"{_field(moment, 'n'):09d}"[: part.count]
        case Word():
            return _word(part, _field(moment, part.field))
        case Padded():
            text = _part(part.part, moment)
            if len(text) > part.width:
                raise RecordError(f"'{text}' is wider than the {part.width} of the time format")
            return text.rjust(part.width)
        case Section():
            try:
                return write(part.parts, moment)
            except LackingFieldError:
                return ""
    return _zone(part, moment)


def _field(moment: Moment, letter: str) -> int:
    value = moment.fields.get(letter)
    if value is None:
        raise LackingFieldError(f"A date has no time of day, and a time no date: '{letter}'")
    return value


def _number(part: Number, value: int) -> str:
    if part.is_reduced:
        return f"{abs(value) % 100:02d}"
    digits = f"{abs(value):0{part.low}d}"
    if len(digits) > part.high or (value < 0 and part.sign == "never"):
        raise RecordError(f"The number {value} does not fit into the time format")
    if value < 0:
        return f"-{digits}"
    return f"+{digits}" if part.sign == "exceeds" and len(digits) > part.low else digits


def _word(part: Word, value: int) -> str:
    if part.field == "B":
        names = PERIODS[part.style]
        return next(name for at, name in enumerate(names) if in_period(at, value))
    return WORDS[part.field][part.style][value]


def _zone(part: Part, moment: Moment) -> str:
    zone = moment.zone
    if zone is None:
        raise LackingFieldError("A date or a time of day has no zone")
    if isinstance(part, ZoneId):
        return zone_id(zone)
    ahead = offset_ms(zone, moment.millis, is_local=False) // 1000
    if isinstance(part, GmtOffset):
        return gmt_text(ahead, is_full=part.is_full)
    if isinstance(part, Offset):
        return offset_text(ahead, part)
    if not isinstance(part, ZoneName):
        raise TypeError(part)
    return zone_name(zone, moment.millis, full=part.is_full, generic=part.is_generic)
