"""JSON text taken apart and put together in Python, keeping numbers as they were written.

Jackson, whose behaviour the dialect shows, reads the first value of a text and ignores the rest,
and prints objects without blanks.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import re
from functools import lru_cache
from math import isfinite
from typing import Any

from millstream.model.java_number import java_double


class Number(float):
    """A JSON number that prints as it was read."""

    text: str

    def __new__(cls, text: str) -> Number:
        """Keeps the text; the value is there for type checks only."""
        self = super().__new__(cls, 0.0)
        self.text = text
        return self

    def __repr__(self) -> str:
        return self.text


_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number)
_STEP = re.compile(r"\.([^.\[\]*]+)|\[(-?\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


def read(text: str) -> Any:
    """The first JSON value of a text. ValueError where there is none."""
    return _DECODER.raw_decode(text.lstrip())[0]


def read_all(text: str) -> Any:
    """The JSON value that the whole text is."""
    return _DECODER.decode(text)


def write(value: Any) -> str:
    """Compact JSON text."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Number():
            return value.text
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return "[" + ",".join(map(write, value)) + "]"
        case dict():
            return "{" + ",".join(f"{write(k)}:{write(v)}" for k, v in value.items()) + "}"
    raise TypeError(f"no JSON for {type(value).__name__}")


@lru_cache(maxsize=256)
def steps(path: str) -> tuple[str | int, ...]:
    """The keys and positions of a path `$.a.b[0]`. ValueError where it is not of this form."""
    found: list[str | int] = []
    if not path.startswith("$"):
        raise ValueError(f"JSON path {path!r} does not start with $")
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"invalid JSON path {path!r}")
        *keys, last = (step[1], step[3], step[4], step[2])
        found.append(int(last) if last is not None else next(filter(None, keys), ""))
        at = step.end()
    return tuple(found)


def extract(text: str, path: str) -> str | None:
    """What is at a path: text of a string, JSON of anything else, None for null and nothing."""
    value = read(text)
    for step in steps(path):
        match value, step:
            case dict(), str() if step in value:
                value = value[step]
            case list(), int() if 0 <= step < len(value):
                value = value[step]
            case _:
                return None
    if value is None or isinstance(value, str):
        return value
    return write(value)


def concatenate(*texts: str | None) -> str | None:
    """JSON values joined as PostgreSQL's `||` does."""
    if any(text is None for text in texts):
        return None
    result, *others = [read_all(text) for text in texts if text is not None]
    for other in others:
        if isinstance(result, dict) and isinstance(other, dict):
            result = result | other
        else:
            left = result if isinstance(result, list) else [result]
            result = left + (other if isinstance(other, list) else [other])
    return write(result)


def contains(text: str | None, wanted: Any) -> bool:
    """Whether a JSON array has an element of the wanted type and value."""
    if text is None:
        return False
    try:
        value = json.loads(text)
    except ValueError:
        return False
    if not isinstance(value, list):
        return False
    return any(type(element) is type(wanted) and element == wanted for element in value)


def of_value(value: Any, arrow: Any) -> str:
    """JSON of a SQL value of an Arrow type; struct fields and map keys in order of their names."""
    import pyarrow.types as kinds

    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _of_double(value)
        case decimal.Decimal():
            return format(value, "f")
        case bytes():
            return write(base64.b64encode(value).decode())
        case datetime.datetime():
            return write(value.isoformat(timespec="milliseconds"))
        case datetime.date():
            return write(value.isoformat())
        case datetime.time():
            return write(_of_time(value))
        case str():
            return write(value)
    if kinds.is_struct(arrow):
        members = {field.name: of_value(value[field.name], field.type) for field in arrow}
    elif kinds.is_map(arrow):
        members = {_of_key(key): of_value(item, arrow.item_type) for key, item in value}
    else:
        return "[" + ",".join(of_value(item, arrow.value_type) for item in value) + "]"
    return "{" + ",".join(f"{write(k)}:{members[k]}" for k in sorted(members)) + "}"


def _of_double(value: float) -> str:
    """As Java prints doubles; JSON has no numbers for NaN and Infinity."""
    text = java_double(value)
    return text if isfinite(value) else f'"{text}"'


def _of_key(value: Any) -> str:
    """A map's key as Java's toString has it."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case decimal.Decimal():
            return format(value, "f")
    return str(value)


def _of_time(value: datetime.time) -> str:
    if value.microsecond:
        digits = 3 if value.microsecond % 1000 == 0 else 6
        return value.strftime("%H:%M:%S") + f".{value.microsecond:06d}"[: digits + 1]
    return value.strftime("%H:%M:%S" if value.second else "%H:%M")
