"""CAST and implicit conversions as DuckDB text (reference: types and formats, section 3).

All texts raise where the dialect defines no value; `exact` returns the value where the fast text
would raise although there is one (numbers that wrap or saturate).
"""

from __future__ import annotations

from millstream.functions.scalar.byte_functions import from_base64
from millstream.model.java_number import JAVA_DOUBLE, PLAIN_NUMBER, decimal_text
from millstream.model.partial_times import (
    DATE_TEXT,
    FIRST_DATE,
    FIRST_TIME,
    MOMENT_TEXT,
    TIME_TEXT,
)
from millstream.model.physical import physical_names
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Map,
    SqlType,
    Struct,
)
from millstream.operators.sql import call, cast, literal, struct

_EXACT_DOUBLE_DIGITS = 15
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


def convert(text: str, source: SqlType, target: SqlType, *, exact: bool, depth: int = 0) -> str:
    """`text`, of type `source`, as `target`. `depth` keeps the names of nested lambdas apart."""
    if source == target:
        return text
    match source, target:
        case Array(a), Array(b):
            item = _item(depth)
            inner = _guarded(convert(item, a, b, exact=exact, depth=depth + 1), exact)
            return call("list_transform", text, f"lambda {item}: {inner}")
        case Map(), Map():
            return _map(text, source, target, exact, depth)
        case Struct(), Struct():
            return _struct(text, source, target, exact, depth)
    if target == STRING:
        return as_text(text, source, depth=depth)
    if source == STRING:
        return _from_text(text, target)
    if target in (INTEGER, BIGINT):
        return _integer(text, source, target, exact)
    if source == DOUBLE and isinstance(target, Decimal):
        return cast(_plain(cast(text, STRING)), target)
    if isinstance(source, Decimal) and target == DOUBLE:
        # DuckDB divides two doubles, which rounds once only while both are exact.
        return cast(
            text if source.precision <= _EXACT_DOUBLE_DIGITS else cast(text, STRING), target
        )
    return cast(text, target)


def wrap(text: str, target: SqlType) -> str:
    """A whole number of any size as its low 32 or 64 bits."""
    if target == INTEGER:
        return cast(
            f"(((CAST({text} AS HUGEINT) + 2147483648) & 4294967295::HUGEINT) - 2147483648)", target
        )
    return cast(
        f"(((CAST({text} AS HUGEINT) + 9223372036854775808::HUGEINT) "
        "& 18446744073709551615::HUGEINT) - 9223372036854775808::HUGEINT)",
        target,
    )


def _guarded(text: str, exact: bool) -> str:
    return f"TRY({text})" if exact else text


def _item(depth: int) -> str:
    return f"_c{depth}"


def _integer(text: str, source: SqlType, target: SqlType, exact: bool) -> str:
    if source == DOUBLE:
        fast = cast(call("trunc", text), target)
        if not exact:
            return fast
        low, high = (-(2**31), 2**31 - 1) if target == INTEGER else (-(2**63), 2**63 - 1)
        return (
            f"CASE WHEN isnan({text}) THEN {cast('0', target)} "
            f"WHEN {text} >= {high}::DOUBLE THEN {cast(str(high), target)} "
            f"WHEN {text} <= ({low})::DOUBLE THEN {cast(f'({low})', target)} ELSE {fast} END"
        )
    whole = call("trunc", text) if isinstance(source, Decimal) else text
    narrows = isinstance(source, Decimal) or (source == BIGINT and target == INTEGER)
    return wrap(whole, target) if exact and narrows else cast(whole, target)


def _from_text(text: str, target: SqlType) -> str:
    trimmed = call("trim", text)
    if target == BOOLEAN:
        folded = call("lower", trimmed)
        return (
            f"(length({folded}) > 0 AND (starts_with('true', {folded}) "
            f"OR starts_with('yes', {folded})))"
        )
    if target == BYTES:
        return from_base64(text)
    if target in (INTEGER, BIGINT):
        return _checked(trimmed, "[+-]?[0-9]+", trimmed, target)
    if target == DOUBLE:
        value = call("regexp_replace", trimmed, "'[dDfF]$'", "''")
        number = _checked(trimmed, _NUMBER + "[dDfF]?", value, target)
        # The text of a number too large becomes Infinity, which is refused like "Infinity" itself.
        return f"CASE WHEN isinf({number}) THEN CAST('~' || {text} AS DOUBLE) ELSE {number} END"
    if isinstance(target, Decimal):
        return _checked(trimmed, _NUMBER, _plain(trimmed), target)
    return _moment(trimmed, target)


def _plain(text: str) -> str:
    """A number's text without an exponent: with one, DuckDB requires the digits before it to
    fit."""
    return (
        f"CASE WHEN regexp_matches({text}, '[eE]') THEN {call(PLAIN_NUMBER, text)} ELSE {text} END"
    )


def _checked(text: str, pattern: str, value: str, target: SqlType) -> str:
    """A cast of `value` that raises where `text` does not match; DuckDB itself accepts more."""
    return cast(
        f"CASE WHEN regexp_full_match({text}, '{pattern}') THEN {value} ELSE '~' || {text} END",
        target,
    )


def _moment(text: str, target: SqlType) -> str:
    if target == TIME:
        whole = f"left({text} || substr('{FIRST_TIME}', length({text}) + 1), {len(FIRST_TIME)})"
        return _checked(text, TIME_TEXT, whole, target)
    if target == DATE:
        whole = f"{text} || substr('{FIRST_DATE}', length({text}) + 1)"
        return _checked(text, DATE_TEXT, whole, target)
    # Bound once: the rule refers to its parts often, and a text may be a long expression.
    parts = call("regexp_extract", text, f"'^{MOMENT_TEXT}$'", "['date', 'clock', 'zone']")
    bound = f"list_transform([{{'text': {text}, 'parts': {parts}}}], lambda _t: {_timestamp('_t')})"
    return call("list_extract", bound, "1")


def _timestamp(found: str) -> str:
    """A text and its parts as a TIMESTAMP: day of the month, midnight and zone by the rule."""
    start, clock, zone = (f"{found}.parts.{part}" for part in ("date", "clock", "zone"))
    date = f"({start} || substr('{FIRST_DATE}', length({start}) + 1))"
    time = f"({clock} || substr('{FIRST_TIME}', length({clock}) + 1))"
    first = f"CAST(left({date}, 8) || '01' AS DATE)"
    day = f"least({first} + (CAST(right({date}, 2) AS INTEGER) - 1), last_day({first}))"
    next_day = f"CASE WHEN left({time}, 2) = '24' THEN INTERVAL 24 HOUR ELSE INTERVAL 0 HOUR END"
    clock_time = f"CAST(regexp_replace({time}, '^24', '00') AS TIME)"
    digits = f"regexp_replace({zone}, '[^0-9]', '', 'g')"
    six = f"rpad(CASE WHEN length({digits}) = 1 THEN '0' ELSE '' END || {digits}, 6, '0')"
    ahead = " + ".join(
        f"CAST(substr({six}, {at}, 2) AS INTEGER) * {seconds}"
        for at, seconds in ((1, 3600), (3, 60), (5, 1))
    )
    offset = f"CASE WHEN {zone} LIKE '-%' THEN -({ahead}) ELSE {ahead} END"
    usual = f"right({date}, 2) <= '28' AND left({time}, 2) < '24' AND {zone} IN ('', 'Z')"
    return (
        f"CASE WHEN {found}.parts.date = '' THEN CAST('~' || {found}.text AS TIMESTAMP) "
        f"WHEN {usual} THEN CAST({date} || 'T' || {time} AS TIMESTAMP) "
        f"ELSE ({day}) + {clock_time} + ({next_day}) - to_seconds({offset}) END"
    )


def as_text(text: str, source: SqlType, *, depth: int = 0) -> str:
    """A value as CAST(… AS STRING) shows it; NULL inside of collections is `null`."""
    match source:
        case Array(element):
            return _joined(text, element, depth)
        case Map(key, value):
            item = _item(depth)
            pair = (
                _shown(f"{item}.key", key, depth)
                + " || '=' || "
                + _shown(f"{item}.value", value, depth)
            )
            pairs = call("list_transform", call("map_entries", text), f"lambda {item}: {pair}")
            return f"'{{' || array_to_string({pairs}, ', ') || '}}'"
        case Struct(fields):
            names = physical_names(field.name for field in fields)
            shown = [
                f"{literal(f.name + '=')} || "
                + as_text(f"struct_extract({text}, {literal(name)})", f.type, depth=depth)
                for name, f in zip(names, fields, strict=True)
            ]
            body = f"concat_ws(',', {', '.join(shown)})" if shown else "''"
            return f"CASE WHEN {text} IS NOT NULL THEN 'Struct{{' || {body} || '}}' END"
    if source == DOUBLE:
        plain = f"{text} = 0 OR (abs({text}) >= 0.001 AND abs({text}) < 10000000)"
        return f"CASE WHEN {plain} THEN {cast(text, STRING)} ELSE {JAVA_DOUBLE}({text}) END"
    if isinstance(source, Decimal) and source.precision == source.scale:
        return decimal_text(cast(text, STRING))
    if source == TIMESTAMP:
        return call("strftime", text, "'%Y-%m-%dT%H:%M:%S.%g'")
    if source == TIME:
        seconds = f"strftime(DATE '1970-01-01' + {text}, '%H:%M:%S')"
        millis = f"strftime(DATE '1970-01-01' + {text}, '.%g')"
        return f"{seconds} || CASE WHEN {millis} = '.000' THEN '' ELSE {millis} END"
    if source == BYTES:
        return call("to_base64", text)
    return cast(text, STRING)


def _shown(text: str, kind: SqlType, depth: int) -> str:
    return f"coalesce({as_text(text, kind, depth=depth + 1)}, 'null')"


def _joined(text: str, element: SqlType, depth: int) -> str:
    item = _item(depth)
    items = call("list_transform", text, f"lambda {item}: {_shown(item, element, depth)}")
    return f"'[' || array_to_string({items}, ', ') || ']'"


def _map(text: str, source: Map, target: Map, exact: bool, depth: int) -> str:
    item = _item(depth)
    key = convert(f"{item}.key", source.key, target.key, exact=exact, depth=depth + 1)
    value = convert(f"{item}.value", source.value, target.value, exact=exact, depth=depth + 1)
    entry = struct([("key", key), ("value", _guarded(value, exact))])
    entries = call("list_transform", call("map_entries", text), f"lambda {item}: {entry}")
    return call("map_from_entries", entries)


def _struct(text: str, source: Struct, target: Struct, exact: bool, depth: int) -> str:
    """Matched by exact name; fields that the source lacks are NULL."""
    sources = dict(
        zip(
            (field.name for field in source.fields),
            physical_names(field.name for field in source.fields),
            strict=True,
        )
    )
    fields = []
    names = physical_names(field.name for field in target.fields)
    for name, wanted in zip(names, target.fields, strict=True):
        given = source.field(wanted.name)
        value = cast("NULL", wanted.type)
        if given is not None:
            member = f"struct_extract({text}, {literal(sources[wanted.name])})"
            inner = convert(member, given.type, wanted.type, exact=exact, depth=depth)
            value = _guarded(inner, exact) if inner != member else inner
        fields.append((name, value))
    return f"CASE WHEN {text} IS NOT NULL THEN {struct(fields)} END"
