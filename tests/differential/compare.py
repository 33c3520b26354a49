"""Compares the engine's output with the oracle's."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

from tests.differential.describe import Case, Column, Group, Join, Project, Source, moved
from tests.differential.drive import Written
from tests.differential.rules import NEARLY

EPOCH = datetime(1970, 1, 1)
Row = tuple[Any, ...]
"""Key values, window (start, end) or None, values (None: deleted), event time."""


class Mode(Enum):
    """What of the records is defined."""

    ORDERED = "all of them in one order"
    BY_KEY = "those of each key in order"
    LOOSE = "which there are"
    FINAL = "the last of each key, a deletion being as good as none"
    SETTLED = "as FINAL, without times; what nothing is in may be missing"


def mode_of(case: Case) -> Mode:
    """Between rows that come from several partitions there is no order."""
    last = case.statements[-1].query
    if case.running.cached or (isinstance(last, Join) and last.kind == "foreign_key"):
        return Mode.FINAL
    if isinstance(last, Group) and last.final:
        return Mode.BY_KEY
    if all(source.partitions == 1 for source in case.sources):
        return Mode.ORDERED
    if isinstance(last, Join) or not moved(last.keys, case.source(last.source)):
        return Mode.BY_KEY
    return Mode.LOOSE if isinstance(last, Project) else Mode.FINAL


def differences(
    case: Case,
    expected: Sequence[Row],
    written: Sequence[Sequence[Written]],
    settled: Sequence[Row] | None = None,
) -> str:
    """The first differences as text; "" without any. `settled`: the expected final contents, if
    some expected rows may never appear."""
    sink, windowed = case.statements[-1].sink, windowed_by(case)
    got = [_row(sink, windowed, record) for part in written for record in part]
    if case.running.cached and (deleted := _deleted_before_written(got)):
        return f"  deleted before it was written: {deleted}"
    match Mode.SETTLED if settled is not None else mode_of(case):
        case Mode.SETTLED:
            present, found = _untimed(_last(settled or ())), _untimed(_last(got))
            known = _untimed(_last(expected))
            # A group that rows have entered and left again is empty, or was never made.
            empty = {name: rows for name, rows in known.items() if name in found}
            return _compare(empty | present, found)
        case Mode.ORDERED:
            return _compare({"": expected}, {"": got})
        case Mode.BY_KEY:
            return _compare(_by_key(expected), _by_key(got))
        case Mode.LOOSE:
            return _compare(_by_key(sorted(expected, key=repr)), _by_key(sorted(got, key=repr)))
        case Mode.FINAL:
            return _compare(_last(expected), _last(got))


def windowed_by(case: Case) -> str | None:
    """The kind of window of the sink's key."""
    query = case.statements[-1].query
    window = query.window if isinstance(query, Group) else None
    return None if window is None else window.kind


def _name(row: Row) -> str:
    return repr(row[:2])


def _by_key(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[_name(row)].append(row)
    for name, own in found.items():
        # Rows without a key stay where they came from: there is no order between them.
        if name.startswith(("((None,", "(()")):
            own.sort(key=repr)
    return found


def _last(rows: Sequence[Row]) -> dict[str, list[Row]]:
    last = {_name(row): row for row in rows}
    return {name: [row] for name, row in last.items() if row[2] is not None}


def _deleted_before_written(rows: Sequence[Row]) -> str:
    """A key whose first record is a deletion, which a cache has no reason to pass on."""
    seen: set[str] = set()
    for row in rows:
        if row[2] is None and _name(row) not in seen:
            return _name(row)
        seen.add(_name(row))
    return ""


def _untimed(last: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    return {name: [row[:3] for row in rows] for name, rows in last.items()}


def _compare(expected: Mapping[str, Sequence[Row]], got: Mapping[str, Sequence[Row]]) -> str:
    lines = []
    for name in [*expected, *(name for name in got if name not in expected)]:
        wanted, found = expected.get(name, []), got.get(name, [])
        for index in range(max(len(wanted), len(found))):
            one = wanted[index] if index < len(wanted) else None
            other = found[index] if index < len(found) else None
            if not equal(one, other):
                lines.append(f"  [{index}] expected {one}\n      got      {other}")
                break
    return "\n".join(lines[:3])


def equal(one: Any, other: Any) -> bool:
    """Equal values, floats nearly (the order of addition is not defined)."""
    if isinstance(one, float) and isinstance(other, float):
        return (
            (math.isnan(one) and math.isnan(other))
            or one == other
            or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one.as_tuple() == other.as_tuple()
    return type(one) is type(other) and bool(one == other)


# ---- what was written ---------------------------------------------------------------------------


def _row(sink: Source, windowed: str | None, record: Written) -> Row:
    key, window = record.key, None
    if windowed is not None and key is not None:
        numbers = 2 if windowed == "SESSION" else 1
        tail = key[-8 * numbers :]
        key = key[: -8 * numbers]
        times = [int.from_bytes(tail[at : at + 8], "big") for at in range(0, 8 * numbers, 8)]
        window = (times[-1], times[0]) if windowed == "SESSION" else (times[0], None)
    return (_key(sink, key), window, _value(sink, record.value), record.time)


def _key(sink: Source, key: bytes | None) -> Row:
    if key is None:
        return tuple(None for _ in sink.keys)
    found = _parsed(key)
    if len(sink.keys) == 1:
        return (typed(found, sink.keys[0].type),)
    return tuple(typed(found.get(column.name), column.type) for column in sink.keys)


def _value(sink: Source, value: bytes | None) -> Row | None:
    if value is None:
        return None
    found = _parsed(value)
    return tuple(typed(found[column.name], column.type) for column in sink.values)


def _parsed(text: bytes) -> Any:
    return json.loads(text, parse_float=Decimal)


def typed(value: Any, kind: str) -> Any:
    """A JSON value as a value of the type."""
    if value is None:
        return None
    if kind in ("DOUBLE", NEARLY):
        return float(value)
    if kind.startswith("DECIMAL"):
        return Decimal(value)
    if kind.startswith("ARRAY<"):
        return [typed(item, kind[6:-1]) for item in value]
    if kind.startswith("MAP<STRING, "):
        return {name: typed(item, kind[12:-1]) for name, item in value.items()}
    if kind.startswith("STRUCT<"):
        fields = dict(part.split(" ", 1) for part in kind[7:-1].split(", "))
        return {name: typed(value[name], type_) for name, type_ in fields.items()}
    return value


# ---- what is expected ---------------------------------------------------------------------------


def expected_rows(case: Case, fetch: Callable[[str], list[Row]]) -> list[Row]:
    """The rows of the last sink, in order."""
    sink, windowed = case.statements[-1].sink, windowed_by(case)
    columns = [*sink.keys, *sink.values]
    listed = [f'"{column.name}"' for column in columns]
    bounds = ', "WINDOWSTART", "WINDOWEND"' if windowed else ""
    rows = fetch(
        f'SELECT {", ".join(listed)}, "$ts", "$dead"{bounds} FROM "{sink.name}" ORDER BY "$pos"'
    )
    return [_expected(sink, columns, windowed, row) for row in rows]


def _expected(sink: Source, columns: Sequence[Column], windowed: str | None, row: Row) -> Row:
    count, keys = len(columns), len(sink.keys)
    values = tuple(map(plain, row[:count]))
    timestamp, dead = row[count], row[count + 1]
    window = None
    if windowed is not None:
        window = (row[count + 2], row[count + 3] if windowed == "SESSION" else None)
    return (values[:keys], window, None if dead else values[keys:], timestamp)


def plain(value: Any) -> Any:
    """A value of DuckDB as JSON has it."""
    match value:
        case datetime():
            return (value - EPOCH) // timedelta(milliseconds=1)
        case date():
            return (value - EPOCH.date()).days
        case time():
            return (value.hour * 3600 + value.minute * 60 + value.second) * 1000 + (
                value.microsecond // 1000
            )
        case list():
            return [plain(item) for item in value]
        case dict():
            return {name: plain(item) for name, item in value.items()}
    return value
