"""The parameters of a prepared statement: from a client's bytes to values of the dialect.

A type that the client does not tell (OID 0) is unknown: its text is a string, as in a literal.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from millstream_parser.parameters import Value
from millstream_server.postgres.arrays import binary_array, text_array
from millstream_server.postgres.messages import BINARY_FORMAT, ProtocolError, decoded
from millstream_server.postgres.refusals import PgError
from millstream_server.postgres.relations import BASE
from millstream_server.postgres.values import EPOCH_DAYS, EPOCH_MICROS

_UNKNOWN, _TEXTS = 0, (18, 19, 25, 114, 705, 1042, 1043, 2950, 3802)
_EPOCH = datetime.datetime(1970, 1, 1)
_TRUE, _FALSE = ("t", "true", "y", "yes", "on", "1"), ("f", "false", "n", "no", "off", "0")
_SIGNS = {0x0000: "", 0x4000: "-"}


def arguments(
    values: Sequence[bytes | None], formats: Sequence[int], types: Sequence[int]
) -> list[Value]:
    """The values in their order. `types` may be shorter. Raises PgError for a value that is none of
    its type, or of a type without literals."""
    found: list[Value] = []
    for number, raw in enumerate(values):
        form = format_of(formats, number)
        kind = types[number] if number < len(types) else _UNKNOWN
        found.append(None if raw is None else _value(raw, kind, form, number + 1))
    return found


def text_reader(kind: int) -> Callable[[bytes], Value]:
    """What reads the text of a type of PostgreSQL that has literals here; raises ValueError,
    OverflowError or InvalidOperation for what is none."""
    return _TEXT[kind]


def binary_reader(kind: int) -> Callable[[bytes], Value]:
    """What reads the binary form of such a type; raises struct.error, too."""
    return _BINARY[kind]


def format_of(formats: Sequence[int], number: int) -> int:
    """The format of a value or column: one for all, one for each, or text."""
    if not formats:
        return 0
    if len(formats) == 1:
        return formats[0]
    if number >= len(formats):
        raise ProtocolError("fewer formats than values")
    return formats[number]


def _value(raw: bytes, kind: int, form: int, number: int) -> Value:
    reading = (_BINARY if form == BINARY_FORMAT else _TEXT).get(kind)
    if reading is None:
        raise PgError(
            f"Parameter {number} has a type (OID {kind}) that has no literals here.",
            hint="Pass a string, a number, a boolean, bytes, a date, a time, or an array of these.",
            code="0A000",
        )
    try:
        return reading(raw)
    except (ValueError, OverflowError, struct.error, InvalidOperation) as error:
        raise PgError(f"Parameter {number} is no value of its type.", code="22P02") from error


def _bool(raw: bytes) -> bool:
    text = decoded(raw).strip().lower()
    if text not in _TRUE + _FALSE:
        raise ValueError(text)
    return text in _TRUE


def _int(raw: bytes) -> int:
    return int(decoded(raw))


def _float(raw: bytes) -> float:
    return float(decoded(raw))


def _decimal(raw: bytes) -> Decimal:
    return Decimal(decoded(raw).strip())


def _date(raw: bytes) -> datetime.date:
    return datetime.date.fromisoformat(decoded(raw).strip())


def _time(raw: bytes) -> datetime.time:
    return datetime.time.fromisoformat(decoded(raw).strip())


def _timestamp(raw: bytes) -> datetime.datetime:
    return datetime.datetime.fromisoformat(decoded(raw).strip())


def _bytea(raw: bytes) -> bytes:
    text = decoded(raw)
    if not text.startswith("\\x"):
        raise ValueError(text)
    return bytes.fromhex(text[2:])


def _text_array(inner: Callable[[bytes], Value]) -> Callable[[bytes], Value]:
    return lambda raw: text_array(decoded(raw), lambda text: inner(text.encode()))


def _binary_array(inner: Callable[[bytes], Value], element: int) -> Callable[[bytes], Value]:
    return lambda raw: binary_array(raw, inner, element)


def _number(layout: str) -> Callable[[bytes], int | float]:
    reading = struct.Struct(layout)

    def read(raw: bytes) -> int | float:
        found: int | float = reading.unpack(raw)[0]
        return found

    return read


def _binary_date(raw: bytes) -> datetime.date:
    (days,) = struct.unpack("!i", raw)
    return (_EPOCH + datetime.timedelta(days + EPOCH_DAYS)).date()


def _binary_time(raw: bytes) -> datetime.time:
    (micros,) = struct.unpack("!q", raw[:8])
    if not 0 <= micros < 86_400_000_000:
        raise ValueError(micros)
    return (_EPOCH + datetime.timedelta(microseconds=micros)).time()


def _binary_timestamp(raw: bytes) -> datetime.datetime:
    (micros,) = struct.unpack("!q", raw)
    return _EPOCH + datetime.timedelta(microseconds=micros + EPOCH_MICROS)


def _binary_numeric(raw: bytes) -> Decimal:
    """Digits to the base of 10,000; a sign that is neither + nor - is NaN or infinite."""
    count, weight, sign, scale = struct.unpack_from("!hhHh", raw)
    digits = struct.unpack(f"!{count}h", raw[8:])
    whole = "".join(f"{digit:04}" for digit in digits)
    point = 4 * (weight + 1)
    if point <= 0:
        whole, point = "0" * (1 - point) + whole, 1
    whole = whole.ljust(point, "0")
    text = f"{_SIGNS.get(sign, 'x')}{whole[:point]}.{whole[point:].ljust(scale, '0')[:scale]}"
    return Decimal(text)


def _binary_json(raw: bytes) -> str:
    """jsonb begins with its version."""
    if raw[:1] != b"\x01":
        raise ValueError(raw[:1])
    return decoded(raw[1:])


_NUMBERS: Mapping[int, str] = {20: "!q", 21: "!h", 23: "!i", 26: "!I", 700: "!f", 701: "!d"}
_TEXT: dict[int, Callable[[bytes], Value]] = {
    **dict.fromkeys((_UNKNOWN, *_TEXTS), decoded),
    **dict.fromkeys((20, 21, 23, 26), _int),
    **dict.fromkeys((700, 701), _float),
    16: _bool,
    17: _bytea,
    1082: _date,
    1083: _time,
    1266: _time,
    1114: _timestamp,
    1184: _timestamp,
    1700: _decimal,
}
_BINARY: dict[int, Callable[[bytes], Value]] = {
    **dict.fromkeys((_UNKNOWN, *(kind for kind in _TEXTS if kind not in (2950, 3802))), decoded),
    **{kind: _number(layout) for kind, layout in _NUMBERS.items()},
    16: lambda raw: bool(struct.unpack("!?", raw)[0]),
    17: bytes,
    1082: _binary_date,
    1083: _binary_time,
    1114: _binary_timestamp,
    1184: _binary_timestamp,
    1700: _binary_numeric,
    3802: _binary_json,
}
ARRAYS: Mapping[int, int] = {
    kind.array: kind.oid for kind, *_ in BASE if kind.array and kind.oid in _BINARY
}
"""The OIDs of the arrays that are read here, with those of their elements."""
_TEXT |= {array: _text_array(_TEXT[element]) for array, element in ARRAYS.items()}
_BINARY |= {array: _binary_array(_BINARY[element], element) for array, element in ARRAYS.items()}
