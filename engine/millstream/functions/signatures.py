"""The notation of the signatures of functions.

```
signature  = [parameter {"," parameter}] "->" type
parameter  = ["LITERAL"] type ["..."] [name]     "..." = any number of them, also none
type       = BOOLEAN | INTEGER | BIGINT | DOUBLE | STRING | BYTES | DATE | TIME | TIMESTAMP
           | INTERVALUNIT | ANY | DECIMAL ["(" p "," s ")"]
           | ARRAY<type> | MAP<type, type> | STRUCT<name type, …>
           | LAMBDA(type, …)->type | variable     variable = a capital and digits: T, U, K2
```
A variable denotes one type throughout the signature, `DECIMAL` one decimal type that holds all
decimal arguments. An optional argument is a signature of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from millstream.model.types import (
    NULL,
    Array,
    Decimal,
    Field,
    Lambda,
    Map,
    Primitive,
    SqlType,
    Struct,
)

_TOKEN = re.compile(r"\s*(->|\.\.\.|[A-Za-z_][A-Za-z_0-9]*|\d+|[<>(),])")
VARIABLE = re.compile(r"[A-Z]\d*")
PRIMITIVES = {primitive.value: primitive for primitive in Primitive}
DECIMAL = "DECIMAL"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A type of the notation: `head` is a primitive's or variable's name, DECIMAL, ANY, ARRAY,
    MAP, STRUCT (fields named by `names`) or LAMBDA (parameters, then the result)."""

    head: str
    parts: tuple[Pattern, ...] = ()
    names: tuple[str, ...] = ()
    digits: tuple[int, int] | None = None

    @property
    def variables(self) -> int:
        """How many variables occur in it."""
        own = int(self.head == "ANY" or VARIABLE.fullmatch(self.head) is not None)
        return own + sum(part.variables for part in self.parts)

    def __str__(self) -> str:
        parts = [str(part) for part in self.parts]
        match self.head:
            case "STRUCT":
                inner = (f"{n} {p}" for n, p in zip(self.names, parts, strict=True))
                return f"STRUCT<{', '.join(inner)}>"
            case "LAMBDA":
                return f"LAMBDA ({', '.join(parts[:-1])}) => {parts[-1]}"
            case _ if self.digits:
                return f"{self.head}({self.digits[0]}, {self.digits[1]})"
            case _:
                return f"{self.head}<{', '.join(parts)}>" if parts else self.head


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; `literal`: the argument must be a constant."""

    type: Pattern
    variadic: bool = False
    literal: bool = False
    name: str = ""

    def __str__(self) -> str:
        mark = "..." if self.variadic else ""
        return f"{self.type}{mark} {self.name}".rstrip()


@dataclass(frozen=True, slots=True)
class Signature:
    """A parsed signature."""

    parameters: tuple[Parameter, ...]
    result: Pattern

    @property
    def variadic(self) -> bool:
        """Whether it is variadic."""
        return any(parameter.variadic for parameter in self.parameters)

    @property
    def variables(self) -> int:
        """How generic it is; of two matching signatures the less generic one is used."""
        return sum(parameter.type.variables for parameter in self.parameters)

    def spread(self, count: int) -> tuple[Parameter, ...] | None:
        """The parameter of each of `count` arguments; None for a wrong number."""
        for place, parameter in enumerate(self.parameters):
            if parameter.variadic:
                repeat = count - (len(self.parameters) - 1)
                if repeat < 0:
                    return None
                middle = (parameter,) * repeat
                return self.parameters[:place] + middle + self.parameters[place + 1 :]
        return self.parameters if len(self.parameters) == count else None


@lru_cache(maxsize=2048)
def parse_signature(text: str) -> Signature:
    """Reads the notation above; raises ValueError where the text is not in it."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != "".join(text.split()):
        raise ValueError(f"cannot read signature {text!r}")
    parameters: list[Parameter] = []
    rest = tuple(tokens)
    while rest[:1] != ("->",):
        literal = rest[0] == "LITERAL"
        pattern, rest = _type(rest[literal:], text)
        variadic = rest[:1] == ("...",)
        rest = rest[variadic:]
        name = ""
        if rest and rest[0] not in (",", "->"):
            name, rest = rest[0], rest[1:]
        parameters.append(Parameter(pattern, variadic, literal, name))
        if rest[:1] == (",",):
            rest = rest[1:]
        elif rest[:1] != ("->",):
            raise ValueError(f"expected , or -> in signature {text!r}")
    result, rest = _type(rest[1:], text)
    if rest or sum(parameter.variadic for parameter in parameters) > 1:
        raise ValueError(f"cannot read signature {text!r}")
    return Signature(tuple(parameters), result)


def type_of(text: str) -> SqlType:
    """The type that a text of the notation denotes; raises ValueError if it is not a type or has
    variables."""
    pattern, rest = _type(tuple(_TOKEN.findall(text)), text)
    if rest or pattern.variables or pattern.head in ("ANY", "LAMBDA"):
        raise ValueError(f"{text!r} is not a definite type")
    if pattern.head == DECIMAL and pattern.digits is None:
        raise ValueError("DECIMAL needs its digits: DECIMAL(precision, scale)")
    return substitute(pattern, {})


def _type(tokens: tuple[str, ...], text: str) -> tuple[Pattern, tuple[str, ...]]:
    if not tokens:
        raise ValueError(f"a type is missing in signature {text!r}")
    head, rest = tokens[0], tokens[1:]
    if head in ("ARRAY", "MAP"):
        parts, rest = _list(rest, text, ">")
        return Pattern(head, parts), rest
    if head == "STRUCT":
        return _struct(rest[1:], text)
    if head == "LAMBDA":
        parts, rest = _list(rest, text, ")")
        result, rest = _type(rest[1:], text)
        return Pattern(head, (*parts, result)), rest
    if head == DECIMAL and rest[:1] == ("(",):
        return Pattern(head, digits=(int(rest[1]), int(rest[3]))), rest[5:]
    if head in PRIMITIVES or head in (DECIMAL, "ANY") or VARIABLE.fullmatch(head):
        return Pattern(head), rest
    raise ValueError(f"{head} is no type in signature {text!r}")


def _list(
    tokens: tuple[str, ...], text: str, end: str
) -> tuple[tuple[Pattern, ...], tuple[str, ...]]:
    parts = []
    rest = tokens
    while rest[0] != end:
        part, rest = _type(rest[1:], text)
        parts.append(part)
    return tuple(parts), rest[1:]


def _struct(tokens: tuple[str, ...], text: str) -> tuple[Pattern, tuple[str, ...]]:
    names, parts = [], []
    rest = tokens
    while rest[0] != ">":
        names.append(rest[0])
        part, rest = _type(rest[1:], text)
        parts.append(part)
        rest = rest[1:] if rest[0] == "," else rest
    return Pattern("STRUCT", tuple(parts), tuple(names)), rest[1:]


def substitute(pattern: Pattern, bound: dict[str, SqlType]) -> SqlType:
    """The type of a pattern with its variables bound; NULL for an unbound one."""
    parts = [substitute(part, bound) for part in pattern.parts]
    match pattern.head:
        case "ARRAY":
            return Array(parts[0])
        case "MAP":
            return Map(parts[0], parts[1])
        case "STRUCT":
            return Struct(tuple(map(Field, pattern.names, parts)))
        case "LAMBDA":
            return Lambda(tuple(parts[:-1]), parts[-1])
        case _ if pattern.digits:
            return Decimal(*pattern.digits)
        case _:
            return PRIMITIVES.get(pattern.head) or bound.get(pattern.head, NULL)
