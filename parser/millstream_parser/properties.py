"""WITH (name = literal, …)."""

from __future__ import annotations

import math

from sqlglot import exp

from .cursor import Cursor, check_integer
from .durations import read_duration
from .span import PropertyName
from .statements import Properties, PropertyValue
from .tokens import Kind, Token

WINDOW_TYPES = ("SESSION", "HOPPING", "TUMBLING")


def optional_properties(cursor: Cursor) -> Properties:
    """`[WITH props]`."""
    return properties(cursor) if cursor.looking_at("WITH") else ()


def properties(cursor: Cursor, *, fold: bool = True) -> Properties:
    """`WITH props`. Names are folded to upper case, unless they are quoted and `fold` is off
    (a connector's own settings keep their case, and the first may be CONNECTOR)."""
    cursor.expect("WITH", "(")
    if cursor.accept(")"):
        return ()
    found: dict[str, PropertyValue] = {}

    def one(cursor: Cursor) -> None:
        start, token = cursor.at, cursor.token
        if not fold and not found and cursor.accept("CONNECTOR"):
            name = "CONNECTOR"
        else:
            name = _name(cursor, fold=fold)
        if name in found:
            raise cursor.fail(f"The property {name} is set more than once", token)
        cursor.expect("=")
        value = _value(cursor)
        found[PropertyName(name, cursor.span_from(start))] = value

    cursor.comma_list(one, ")")
    return tuple(found.items())


def _name(cursor: Cursor, *, fold: bool) -> str:
    if cursor.token.kind is Kind.STRING:
        text = cursor.string()
        return text.upper() if fold else text
    name = cursor.name()
    return name.upper() if fold else name


def _value(cursor: Cursor) -> PropertyValue:
    """A literal; numbers may carry a sign."""
    negative = cursor.accept("-")
    if not negative:
        cursor.accept("+")
    token = cursor.token
    value = _number(cursor, token, negative=negative)
    if value is None and cursor.tokens[cursor.at - 1].upper == "=":
        value = _word_or_string(token)
    if value is None:
        raise cursor.unexpected("STRING", "number", "'TRUE'", "'FALSE'", "'NULL'")
    cursor.advance()
    return value


def _number(cursor: Cursor, token: Token, *, negative: bool) -> PropertyValue | None:
    match token.kind:
        case Kind.INTEGER:
            check_integer(cursor, token, negative=negative)
            return -int(token.text) if negative else int(token.text)
        case Kind.DECIMAL:
            literal = exp.Literal.number(token.text)
            return exp.Neg(this=literal) if negative else literal
        case Kind.FLOAT:
            value = float(token.text)
            if math.isinf(value):
                raise cursor.fail(f"Number overflows DOUBLE: {token.text}", token)
            return -value if negative else value
        case _:
            return None


def _word_or_string(token: Token) -> PropertyValue | None:
    if token.kind is Kind.STRING:
        return token.text
    match token.upper:
        case "TRUE" | "FALSE":
            return token.upper == "TRUE"
        case "NULL":
            return exp.Null()
        case _:
            return None


def check_window(cursor: Cursor, found: Properties, token: Token) -> None:
    """WINDOW_TYPE and WINDOW_SIZE of a source whose keys are windowed must be consistent."""
    values = dict(found)
    kind = str(values.get("WINDOW_TYPE", "")).upper()
    size = values.get("WINDOW_SIZE")
    if kind not in ("", *WINDOW_TYPES):
        raise cursor.fail(
            f"Configuration WINDOW_TYPE is invalid: Unknown window type: {values['WINDOW_TYPE']}."
            f" Expected one of {', '.join(WINDOW_TYPES)}.",
            token,
        )
    if kind == "SESSION" and size is not None:
        raise cursor.fail("'WINDOW_SIZE' should not be set for SESSION windows.", token)
    if kind in ("HOPPING", "TUMBLING") and size is None:
        raise cursor.fail(
            f"{kind} windows require 'WINDOW_SIZE' to be provided in the WITH clause."
            " For example: 'WINDOW_SIZE'='10 SECONDS'",
            token,
        )
    if size is not None:
        try:
            read_duration(str(size))
        except ValueError as error:
            raise cursor.fail(
                f"Configuration WINDOW_SIZE is invalid: Invalid duration: '{size}'. {error}", token
            ) from None
