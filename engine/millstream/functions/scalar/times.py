"""Date and time functions (reference: functions, section 7).

Reading and writing by Java's patterns runs in Python over the distinct values of a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.entry import function, rowwise
from millstream.model import java_time
from millstream.model.java_dates import parse_lenient_date
from millstream.model.java_time import compile_pattern
from millstream.model.java_zones import offset_ms, parse_zone

CATEGORY = "DATE / TIME"

_TIMESTAMP = pa.timestamp("us")
_TIME = pa.time64("us")


def _number(column: Any) -> Any:
    """Milliseconds, days or nanoseconds of a time column; others as they are."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        micros = column.cast(_TIMESTAMP).cast(pa.int64())
        whole = pc.divide(micros, 1000)
        down = pc.less(pc.subtract(micros, pc.multiply(whole, 1000)), 0)
        return pc.subtract(whole, pc.cast(down, pa.int64()))
    if pa.types.is_date(kind):
        return column.cast(pa.date32()).cast(pa.int32())
    if pa.types.is_time(kind):
        return pc.multiply(column.cast(_TIME).cast(pa.int64()), 1000)
    return column


def _temporal(compute: Callable[..., Any], result: Any) -> Callable[..., Any]:
    """`rowwise` with times as numbers: ms for TIMESTAMP, days for DATE, ns for TIME."""
    plain = pa.int32() if result == pa.date32() else pa.int64()
    is_time = pa.types.is_temporal(result)

    def converted(found: Any) -> Any:
        if result == _TIMESTAMP:
            found = pc.multiply(found, 1000)
        elif result == _TIME:
            found = pc.divide(found, 1000)
        return found.cast(result)

    return rowwise(
        compute,
        plain if is_time else result,
        given=_number,
        made=converted if is_time else None,
    )


def _format_timestamp(millis: int, pattern: str, zone: str = "GMT") -> str:
    return java_time.format_timestamp(compile_pattern(pattern), millis, parse_zone(zone))


def _parse_timestamp(text: str, pattern: str, zone: str = "GMT") -> int:
    return java_time.parse_timestamp(compile_pattern(pattern), text, parse_zone(zone))


def _format_date(days: int, pattern: str) -> str:
    return java_time.format_date(compile_pattern(pattern), days)


def _parse_date(text: str, pattern: str) -> int:
    return parse_lenient_date(pattern, text)


def _parse_day(text: str, pattern: str) -> int:
    return java_time.parse_date(compile_pattern(pattern), text)


def _format_time(nanos: int, pattern: str) -> str:
    return java_time.format_time(compile_pattern(pattern), nanos)


def _parse_time(text: str, pattern: str) -> int:
    return java_time.parse_time(compile_pattern(pattern), text) // 1_000_000 * 1_000_000


def _convert_tz(millis: int, source: str, target: str) -> int:
    instant = millis - offset_ms(parse_zone(source), millis, is_local=True)
    return instant + offset_ms(parse_zone(target), instant, is_local=False)


_TEXT = pa.string()
_UNIT_MS = (
    "CASE upper({0}) WHEN 'DAYS' THEN 86400000 WHEN 'HOURS' THEN 3600000 WHEN 'MINUTES' THEN 60000"
    " WHEN 'SECONDS' THEN 1000 WHEN 'MILLISECONDS' THEN 1 END"
)
_SPAN = f"CAST({{1}} AS BIGINT) * {_UNIT_MS}"
_OF_DATE = "({2} - DATE '1970-01-01') * 86400000"


def _on_day(sign: str) -> str:
    """The day of a date moved by milliseconds."""
    return (
        "DATE '1970-01-01' +"
        f" CAST(floor(CAST(({_OF_DATE} {sign} {_SPAN}) AS DECIMAL(20, 0)) / 86400000) AS INTEGER)"
    )


def _shift(
    name: str, kind: str, sql: str, description: str, *examples: tuple[str, str]
) -> ScalarFunction:
    signature = f"INTERVALUNIT, INTEGER, {kind} -> {kind}"
    return function(name, CATEGORY, [(signature, sql)], description, examples)


def _patterned(
    name: str,
    signatures: tuple[str, ...],
    compute: Callable[..., Any],
    result: Any,
    description: str,
    *examples: tuple[str, str],
) -> ScalarFunction:
    call = _temporal(compute, result)
    variants = [Variant(signature, python=call) for signature in signatures]
    return function(name, CATEGORY, variants, description, examples)


# UNIX_DATE() and UNIX_TIMESTAMP() are the same for all rows of a batch and so count as
# deterministic: they may stand inside TRY.
TIMES: tuple[ScalarFunction, ...] = (
    _patterned(
        "CONVERT_TZ", ("TIMESTAMP, STRING, STRING -> TIMESTAMP",), _convert_tz, _TIMESTAMP,
        "The time that clocks in the second zone show when those in the first show this one.",
        ("UNIX_TIMESTAMP(CONVERT_TZ(FROM_UNIXTIME(100), '+0200', '+0500'))",
         "CAST(10800100 AS BIGINT)"),
        ("CONVERT_TZ(FROM_UNIXTIME(0), 'UTC', 'Nowhere')", "NULL"),
    ),
    _shift(
        "DATEADD", "DATE", _on_day("+"),
        "The date so many units later: the day on which that time is.",
        ("UNIX_DATE(DATEADD(DAYS, 3, FROM_DAYS(10)))", "13"),
        ("UNIX_DATE(DATEADD(HOURS, 30, FROM_DAYS(10)))", "11"),
    ),
    _shift(
        "DATESUB", "DATE", _on_day("-"),
        "The date so many units earlier: the day on which that time is.",
        ("UNIX_DATE(DATESUB(DAYS, 3, FROM_DAYS(10)))", "7"),
        ("UNIX_DATE(DATESUB(HOURS, 30, FROM_DAYS(10)))", "8"),
        ("DATESUB(DAYS, NULL, FROM_DAYS(10))", "NULL"),
    ),
    _shift(
        "TIMEADD", "TIME", f"{{2}} + to_milliseconds({_SPAN})",
        "The time of day so many units later, past midnight if need be.",
        ("FORMAT_TIME(TIMEADD(HOURS, 3, '22:30:00'), 'HH:mm')", "'01:30'"),
        ("FORMAT_TIME(TIMEADD(MINUTES, 5, '22:30:00'), 'HH:mm')", "'22:35'"),
    ),
    _shift(
        "TIMESUB", "TIME", f"{{2}} - to_milliseconds({_SPAN})",
        "The time of day so many units earlier.",
        ("FORMAT_TIME(TIMESUB(HOURS, 3, '01:30:00'), 'HH:mm')", "'22:30'"),
        ("FORMAT_TIME(TIMESUB(MINUTES, 5, '22:30:00'), 'HH:mm')", "'22:25'"),
    ),
    _shift(
        "TIMESTAMPADD", "TIMESTAMP", f"{{2}} + to_milliseconds({_SPAN})",
        "The time so many units later.",
        ("UNIX_TIMESTAMP(TIMESTAMPADD(SECONDS, 3, FROM_UNIXTIME(10)))", "CAST(3010 AS BIGINT)"),
        ("TIMESTAMPADD(DAYS, NULL, FROM_UNIXTIME(10))", "NULL"),
    ),
    _shift(
        "TIMESTAMPSUB", "TIMESTAMP", f"{{2}} - to_milliseconds({_SPAN})",
        "The time so many units earlier.",
        ("UNIX_TIMESTAMP(TIMESTAMPSUB(SECONDS, 3, FROM_UNIXTIME(10)))", "CAST(-2990 AS BIGINT)"),
        ("TIMESTAMPSUB(DAYS, NULL, FROM_UNIXTIME(10))", "NULL"),
    ),
    _patterned(
        "FORMAT_DATE", ("DATE, STRING -> STRING",), _format_date, _TEXT,
        "The date as text by a pattern.",
        ("FORMAT_DATE(FROM_DAYS(0), 'dd/MM/yyyy')", "'01/01/1970'"),
        ("FORMAT_DATE(FROM_DAYS(0), 'HH')", "NULL"),
    ),
    _patterned(
        "FORMAT_TIME", ("TIME, STRING -> STRING",), _format_time, _TEXT,
        "The time of day as text by a pattern.",
        ("FORMAT_TIME('22:30:05', 'HH-mm')", "'22-30'"),
        ("FORMAT_TIME('22:30:05', 'yyyy')", "NULL"),
    ),
    _patterned(
        "FORMAT_TIMESTAMP",
        ("TIMESTAMP, STRING -> STRING", "TIMESTAMP, STRING, STRING -> STRING"),
        _format_timestamp, _TEXT,
        "The time as text by a pattern, as clocks in a zone (GMT) show it.",
        ("FORMAT_TIMESTAMP(FROM_UNIXTIME(0), 'yyyy-MM-dd HH:mm', 'Asia/Tokyo')",
         "'1970-01-01 09:00'"),
        ("FORMAT_TIMESTAMP(FROM_UNIXTIME(-1), 'HH:mm:ss.SSS')", "'23:59:59.999'"),
    ),
    _patterned(
        "PARSE_DATE", ("STRING, STRING -> DATE",), _parse_date, pa.date32(),
        "The date that text shows by a pattern.",
        ("UNIX_DATE(PARSE_DATE('31/12/2021', 'dd/MM/yyyy'))", "18992"),
        ("PARSE_DATE('in 2021', 'yyyy')", "NULL"),
        ("UNIX_DATE(PARSE_DATE('2021-12-31 and more', 'yyyy-MM-dd'))", "18992"),
        ("UNIX_DATE(PARSE_DATE('2021-12-33', 'yyyy-MM-dd'))", "18994"),
        ("PARSE_DATE('2021-12-31 10', 'yyyy-MM-dd HH')", "NULL"),
    ),
    _patterned(
        "PARSE_TIME", ("STRING, STRING -> TIME",), _parse_time, _TIME,
        "The time of day that text shows by a pattern.",
        ("FORMAT_TIME(PARSE_TIME('01.30 PM', 'hh.mm a'), 'HH:mm')", "'13:30'"),
        ("PARSE_TIME('25', 'HH')", "NULL"),
        ("PARSE_TIME('30', 'mm')", "NULL"),
        ("PARSE_TIME('2021 10', 'yyyy HH')", "NULL"),
    ),
    _patterned(
        "PARSE_TIMESTAMP",
        ("STRING, STRING -> TIMESTAMP", "STRING, STRING, STRING -> TIMESTAMP"),
        _parse_timestamp, _TIMESTAMP,
        "The time that text shows by a pattern, on clocks in a zone (GMT).",
        ("UNIX_TIMESTAMP(PARSE_TIMESTAMP('1970-01-02', 'yyyy-MM-dd'))",
         "CAST(86400000 AS BIGINT)"),
        ("PARSE_TIMESTAMP('x', 'yyyy')", "NULL"),
    ),
    function(
        "FROM_DAYS", CATEGORY, [("INTEGER -> DATE", "DATE '1970-01-01' + {0}")],
        "The date so many days after 1970-01-01.",
        (("UNIX_DATE(FROM_DAYS(19000))", "19000"), ("FROM_DAYS(NULL)", "NULL")),
    ),
    function(
        "FROM_UNIXTIME", CATEGORY, [("BIGINT -> TIMESTAMP", "epoch_ms({0}::BIGINT)")],
        "The time so many milliseconds after 1970-01-01T00:00 UTC.",
        (("UNIX_TIMESTAMP(FROM_UNIXTIME(10))", "CAST(10 AS BIGINT)"),
         ("FROM_UNIXTIME(NULL)", "NULL")),
    ),
    function(
        "UNIX_DATE", CATEGORY,
        [
            ("-> INTEGER", "CAST(current_date - DATE '1970-01-01' AS INTEGER)"),
            ("DATE -> INTEGER", "CAST({0} - DATE '1970-01-01' AS INTEGER)"),
        ],
        "The days from 1970-01-01 to a date, or to today.",
        (("UNIX_DATE(FROM_DAYS(7))", "7"), ("UNIX_DATE() > 20000", "TRUE")),
    ),
    function(
        "UNIX_TIMESTAMP", CATEGORY,
        [("-> BIGINT", "epoch_ms(now())"), ("TIMESTAMP -> BIGINT", "epoch_ms({0})")],
        "The milliseconds from 1970-01-01T00:00 UTC to a time, or to now.",
        (
            ("UNIX_TIMESTAMP(FROM_UNIXTIME(-7))", "CAST(-7 AS BIGINT)"),
            ("UNIX_TIMESTAMP() > 1000", "TRUE"),
        ),
    ),
    _patterned(
        "DATETOSTRING", ("INTEGER, STRING -> STRING",), _format_date, _TEXT,
        "Days since 1970-01-01 as text by a pattern. Use FORMAT_DATE.",
        ("DATETOSTRING(0, 'yyyy-MM-dd')", "'1970-01-01'"), ("DATETOSTRING(NULL, 'yyyy')", "NULL"),
    ),
    _patterned(
        "STRINGTODATE", ("STRING, STRING -> INTEGER",), _parse_day, pa.int32(),
        "The days since 1970-01-01 of the date that text shows by a pattern. Use PARSE_DATE.",
        ("STRINGTODATE('1970-01-03', 'yyyy-MM-dd')", "2"), ("STRINGTODATE('x', 'yyyy')", "NULL"),
        ("STRINGTODATE('1970', 'yyyy')", "NULL"),
    ),
    _patterned(
        "STRINGTOTIMESTAMP",
        ("STRING, STRING -> BIGINT", "STRING, STRING, STRING -> BIGINT"),
        _parse_timestamp, pa.int64(),
        "Milliseconds of the time that text shows by a pattern. Use PARSE_TIMESTAMP.",
        ("STRINGTOTIMESTAMP('1970-01-02', 'yyyy-MM-dd')", "CAST(86400000 AS BIGINT)"),
        ("STRINGTOTIMESTAMP('x', 'yyyy')", "NULL"),
    ),
    _patterned(
        "TIMESTAMPTOSTRING",
        ("BIGINT, STRING -> STRING", "BIGINT, STRING, STRING -> STRING"),
        _format_timestamp, _TEXT,
        "Milliseconds since 1970-01-01T00:00 UTC as text by a pattern. Use FORMAT_TIMESTAMP.",
        ("TIMESTAMPTOSTRING(0, 'yyyy-MM-dd')", "'1970-01-01'"),
        ("TIMESTAMPTOSTRING(NULL, 'yyyy')", "NULL"),
    ),
)  # fmt: skip
"""The functions of this category."""
