"""Replaces `?`, `$1` and `:name` by literals, token by token.

A value never becomes text that is parsed again: a string is one token whatever it contains, so it
is allowed exactly where a literal of its kind is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal

from .names import quote_string
from .tokens import Kind, Lines, Token, tokenize

Value = (
    None
    | bool
    | int
    | float
    | Decimal
    | str
    | bytes
    | date
    | time
    | list["Value"]
    | tuple["Value", ...]
)
"""The types of parameters; a datetime is a date too. A datetime without a time zone is in UTC. A
list is an ARRAY, and has an element that is not None: the type of others is not known."""
Values = Sequence[Value] | Mapping[str, Value]
"""By position, or by name."""

_TWO_WAYS = "Write all parameters as ?, or all as $1, $2, … or all as :name."
_KINDS = "a string, a number, true or false, null, a list, from Python also a date, a time or bytes"
_DEPTH_MAX = 16
"""Lists within lists."""
_POSITIONAL, _NUMBERED = "?", "$"


def parameter_keys(text: str) -> list[str]:
    """The keys of the values that the parameters of a script ask for, in the order of the text:
    "1", "2", … of ? and of $1, the names of :name. Raises SyntaxFailure."""
    places = [token for token in tokenize(text, Lines.of(text)) if token.kind is Kind.PARAMETER]
    return [_key(place, number) for number, place in enumerate(places, 1)]


def literal_text(value: Value) -> str:
    """The text of a literal. Raises ValueError for a value that has none."""
    return "".join(
        quote_string(text) if kind is Kind.STRING else f" {text} " if text == "AS" else text
        for kind, text in _literal(value)
    )


class Parameters:
    """The values of one script. Its statements may be parsed one after the other, in their order:
    the first `?` of a statement uses the value after that of the last `?` before it."""

    def __init__(self, values: Values = ()) -> None:
        self._named = isinstance(values, Mapping)
        self._values: Mapping[str, Value] = (
            dict(values)
            if isinstance(values, Mapping)
            else {str(number): value for number, value in enumerate(values, 1)}
        )
        self._asked = 0

    def __len__(self) -> int:
        return len(self._values)

    def check(self, text: str) -> None:
        """Check that each placeholder in the whole script has a value, and each value a
        placeholder; raises SyntaxFailure."""
        lines = Lines.of(text)
        tokens = tokenize(text, lines)
        places = [token for token in tokens if token.kind is Kind.PARAMETER]
        for place in places:
            if place.text[0] != places[0].text[0]:
                raise lines.failure(
                    "Parameters are written in two ways", place.start, place.end, _TWO_WAYS
                )
        asked = set()
        for number, place in enumerate(places, 1):
            asked.add(key := _key(place, number))
            self._tokens(place, key, lines)
        for key in self._values:
            if key not in asked:
                end = tokens[-2].end if len(tokens) > 1 else len(text)
                raise lines.failure(
                    f"Parameter {key} has a value, but the text does not ask for it",
                    max(0, end - 1),
                    end,
                    f"{self._given()} The text asks for {len(asked)}.",
                )

    def bound(self, tokens: Sequence[Token], lines: Lines) -> list[Token]:
        """The same tokens, with literals instead of parameters; raises SyntaxFailure where a value
        is missing, or of a type without literals."""
        found: list[Token] = []
        for token in tokens:
            if token.kind is not Kind.PARAMETER:
                found.append(token)
                continue
            self._asked += token.text == _POSITIONAL
            found += self._tokens(token, _key(token, self._asked), lines)
        return found

    def _given(self) -> str:
        ways = "by name" if self._named else "by position"
        return f"{len(self)} values are given, {ways}." if self._values else "No values are given."

    def _tokens(self, place: Token, key: str, lines: Lines) -> list[Token]:
        if key not in self._values:
            reason = f"There is no value for parameter {key}"
            raise lines.failure(reason, place.start, place.end, self._given())
        value = self._values[key]
        try:
            parts = list(_literal(value))
        except ValueError as failure:
            reason = f"Parameter {key} cannot be used: {failure}"
            raise lines.failure(
                reason, place.start, place.end, f"A parameter is {_KINDS}."
            ) from failure
        about = f"The value of parameter {key} is {_shown(value)}."
        return [_token(kind, text, place, about) for kind, text in parts]


def _key(place: Token, number: int) -> str:
    """The value of a placeholder; `number` counts the placeholders so far."""
    if place.text == _POSITIONAL:
        return str(number)
    name = place.text[1:]
    return (name.lstrip("0") or "0") if place.text[0] == _NUMBERED else name


def _token(kind: Kind, text: str, place: Token, about: str) -> Token:
    upper = text if kind in (Kind.WORD, Kind.SYMBOL) else ""
    return Token(kind, text, upper, place.start, place.end, about)


def _literal(value: object, depth: int = 0) -> Iterator[tuple[Kind, str]]:
    """The tokens of a literal. Raises ValueError where there is none."""
    match value:
        case None:
            yield Kind.WORD, "NULL"
        case bool():
            yield Kind.WORD, "TRUE" if value else "FALSE"
        case str():
            yield Kind.STRING, _text(value)
        case int() | float() | Decimal():
            kind, text = _number(value)
            if text.startswith("-"):
                yield Kind.SYMBOL, "-"
            yield kind, text.removeprefix("-")
        case date() | time():
            yield from _moment(value)
        case bytes():
            yield from _called("TO_BYTES", "(", [value.hex(), "hex"], ")", depth)
        case list() | tuple():
            if depth == _DEPTH_MAX:
                raise ValueError(f"it has more than {_DEPTH_MAX} lists within each other")
            if all(each is None for each in value):
                raise ValueError("it is a list without an element other than null")
            yield from _called("ARRAY", "[", value, "]", depth + 1)
        case _:
            raise ValueError(f"it is {_shown(value)}")


def _called(
    name: str, begin: str, values: Sequence[object], end: str, depth: int
) -> Iterator[tuple[Kind, str]]:
    """`TO_BYTES('00ff', 'hex')`, `ARRAY[1, 2]`."""
    yield Kind.WORD, name
    for number, each in enumerate(values):
        yield Kind.SYMBOL, "," if number else begin
        yield from _literal(each, depth)
    yield Kind.SYMBOL, end


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as failure:
        raise ValueError("it is a string with half a character (a lone surrogate)") from failure
    return value


def _number(value: int | float | Decimal) -> tuple[Kind, str]:
    match value:
        case int():
            if not -(2**63) <= value < 2**63:
                raise ValueError("it is a whole number that does not fit into 64 bits")
            return Kind.INTEGER, str(value)
        case float():
            if not math.isfinite(value):
                raise ValueError(f"it is {value}")
            text = repr(value)
            return Kind.FLOAT, text if "e" in text else f"{text}E0"
    if not value.is_finite():
        raise ValueError(f"it is {value}")
    text = format(value, "f")
    return Kind.DECIMAL, text if "." in text else f"{text}."


def _moment(value: date | time) -> Iterator[tuple[Kind, str]]:
    """`CAST('…' AS TIMESTAMP)`, to the millisecond, the dialect's precision."""
    match value:
        case datetime():
            kind = "TIMESTAMP"
            universal = value if value.tzinfo is None else value.astimezone(UTC)
            text = universal.replace(tzinfo=None).isoformat(timespec="milliseconds")
        case date():
            kind, text = "DATE", value.isoformat()
        case _:
            kind, text = "TIME", value.replace(tzinfo=None).isoformat(timespec="milliseconds")
    yield Kind.WORD, "CAST"
    yield Kind.SYMBOL, "("
    yield Kind.STRING, text
    yield Kind.WORD, "AS"
    yield Kind.WORD, kind
    yield Kind.SYMBOL, ")"


def _shown(value: object) -> str:
    """A value by its kind: messages do not repeat what may be secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a string"
        case int():
            return "a whole number"
        case float() | Decimal():
            return "a number"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
    return f"of type {type(value).__name__}"
