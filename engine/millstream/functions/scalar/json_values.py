"""Parses and prints JSON text in Python, keeping numbers as written.

Jackson, whose behaviour the dialect exposes, reads the first value of a text and ignores the rest,
and prints objects without blanks. A blank text has no value, which is NULL and not a failure; other
text that is not JSON fails.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import re
from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Any

from millstream.model.java_number import java_double


class Number(float):
    """A JSON number that prints as in Java: with all digits, and an exponent as in BigDecimal."""

    text: str

    def __new__(cls, text: str) -> Number:
        """Keeps the text; the value is only for type checks."""
        self = super().__new__(cls, 0.0)
        # Python's decimals and Java's follow the same rules for when to write an exponent.
        try:
            written = text if text.lstrip("-").isdigit() else str(decimal.Decimal(text))
        except ArithmeticError:
            raise ValueError(f"{text} is too large") from None
        # It has no signed zero.
        self.text = written if set(written) & set("123456789") else written.lstrip("-")
        return self

    def __repr__(self) -> str:
        return self.text


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_no_number)
_VALUES = json.JSONDecoder(parse_constant=_no_number)
_CONTROL = re.compile(r"\\u00[01][0-9a-f]")
_BLANKS = " \t\n\r"
_POSITION = re.compile(r"\+?\d{1,9}")
_STEP = re.compile(r"\.([^.\[\]*]+)|\[(-?\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


def read(text: str) -> Any:
    """The first JSON value of a text. Raises ValueError where there is none."""
    return _nested(lambda: _DECODER.raw_decode(text.lstrip(_BLANKS))[0])


def read_all(text: str, decoder: json.JSONDecoder = _DECODER) -> Any:
    """The JSON value of a whole text. Raises ValueError where it is not one."""
    return _nested(lambda: decoder.decode(text))


def _nested(decode: Callable[[], Any]) -> Any:
    try:
        return decode()
    except RecursionError:
        raise ValueError("the JSON is nested too deep") from None


def _blank(text: str) -> bool:
    return not text.strip(_BLANKS)


def _value_of(text: str) -> Any:
    """As `read_all`; None for text of blanks."""
    return None if _blank(text) else read_all(text)


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
            return _quoted(value)
        case list():
            return "[" + ",".join(map(write, value)) + "]"
        case dict():
            return "{" + ",".join(f"{write(k)}:{write(v)}" for k, v in value.items()) + "}"
    raise TypeError(f"no JSON for {type(value).__name__}")


def _quoted(text: str) -> str:
    """A JSON string; its control characters in upper-case digits, as in Jackson."""
    made = json.dumps(plain(text), ensure_ascii=False)
    return _CONTROL.sub(lambda found: found[0][:2] + found[0][2:].upper(), made)


def plain(text: str) -> str:
    """Text that UTF-8 can represent: Java writes half a surrogate pair as a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@lru_cache(maxsize=256)
def steps(path: str) -> tuple[str | int, ...]:
    """The keys and positions of a path `$.a.b[0]`. Raises ValueError for any other form."""
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
    """The value at a path: the text of a string, JSON of anything else, None for null and absent
    values."""
    value = None if _blank(text) else read(text)
    for step in steps(path):
        match value:
            # Java interprets a step by the value: `$.0` finds an element, `$[0]` a key.
            case dict() if (key := str(step)) in value:
                value = value[key]
            case list() if _POSITION.fullmatch(str(step)) and int(step) < len(value):
                value = value[int(step)]
            case _:
                return None
    if value is None:
        return None
    return text_of(value)


def text_of(value: Any) -> str:
    """A string as it is, anything else as JSON."""
    return plain(value) if isinstance(value, str) else write(value)


def items(text: str) -> list[str] | None:
    """The elements of an array as JSON; None for any other value."""
    value = _value_of(text)
    return [write(item) for item in value] if isinstance(value, list) else None


def keys(text: str) -> list[str] | None:
    """The keys of an object; None for any other value."""
    value = _value_of(text)
    return [plain(key) for key in value] if isinstance(value, dict) else None


def records(text: str) -> list[tuple[str, str]] | None:
    """The members of an object: strings as they are, others as JSON; None for any other value."""
    value = _value_of(text)
    if not isinstance(value, dict):
        return None
    return [(plain(key), text_of(item)) for key, item in value.items()]


def length(text: str) -> int | None:
    """The number of elements of an array; None for any other value."""
    value = _value_of(text)
    return len(value) if isinstance(value, list) else None


def valid(text: str | None) -> bool:
    """Whether a text is JSON."""
    if text is None:
        return False
    try:
        read_all(text)
    except ValueError:
        return False
    return True


def concatenate(*texts: str | None) -> str | None:
    """JSON values joined as PostgreSQL's `||` does."""
    if any(text is None or _blank(text) for text in texts):
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
    """Whether a JSON array has an element of the given type and value."""
    if text is None:
        return False
    try:
        value = read_all(text, _VALUES)
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
    """In Java's notation of doubles; JSON has no numbers for NaN and Infinity."""
    text = java_double(value)
    return text if isfinite(value) else f'"{text}"'


def _of_key(value: Any) -> str:
    """A map's key as in Java's toString."""
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
