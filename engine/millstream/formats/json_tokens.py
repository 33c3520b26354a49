"""Regular expressions of scalars in JSON text: only text that every reader reads as the same
value."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.model.physical import MAX_DECIMAL_PRECISION
from millstream.model.types import Decimal, Primitive, SqlType

GAP = r"[ \t\r\n]*"
_UNICODE = r"\\u(?:[0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"
TEXT = rf'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|{_UNICODE})*"'
PLAIN_TEXT = r'"[^"\\\x00-\x1f]*"'
_WHOLE = r"-?(?:0|[1-9][0-9]*)"
_NUMBER = _WHOLE + r"(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
ANY_SCALAR = f"(?:{TEXT}|{_NUMBER}|true|false|null)"
_TOKENS: Mapping[SqlType, str] = {
    Primitive.BOOLEAN: "true|false",
    Primitive.INTEGER: _WHOLE,
    Primitive.BIGINT: _WHOLE,
    Primitive.DOUBLE: _NUMBER,
    Primitive.STRING: TEXT,
    Primitive.BYTES: r'"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?"',
    Primitive.DATE: _WHOLE,
    Primitive.TIME: _WHOLE,
    Primitive.TIMESTAMP: _WHOLE,
}


class NoShapeError(Exception):
    """A record that only the exact reader can read correctly."""


def scalar_token(sql_type: SqlType) -> str:
    """The values of a type that is not nested, except `null`; raises NoShapeError if there are
    none."""
    match sql_type:
        case Decimal(precision, scale):
            if precision > MAX_DECIMAL_PRECISION:
                raise NoShapeError
            whole = precision - scale
            digits = f"(?:0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
            return f"-?{digits}" + (rf"(?:\.[0-9]{{1,{scale}}})?" if scale else "")
    return _TOKENS[sql_type]
