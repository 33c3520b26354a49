"""The notation of signatures, and which signature a call means.

```
signature  = [parameter {"," parameter}] "->" type
parameter  = ["LITERAL"] type ["..."] [name]     "..." = any number of them, also none
type       = BOOLEAN | INTEGER | BIGINT | DOUBLE | STRING | BYTES | DATE | TIME | TIMESTAMP
           | INTERVALUNIT | ANY | DECIMAL ["(" p "," s ")"]
           | ARRAY<type> | MAP<type, type> | STRUCT<name type, …>
           | LAMBDA(type, …)->type | variable     variable = a capital and digits: T, U, K2
```
A variable stands for one type throughout the signature, `DECIMAL` for one decimal type that holds
all decimal arguments. An optional argument is a signature of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from millstream.functions.conversions import as_decimal, converts, wider, wider_decimal
from millstream.model.errors import StatementError
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
_VARIABLE = re.compile(r"[A-Z]\d*")
_PRIMITIVES = {primitive.value: primitive for primitive in Primitive}
_DECIMAL = "DECIMAL"


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
        own = int(self.head == "ANY" or _VARIABLE.fullmatch(self.head) is not None)
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
        """Whether it takes any number of arguments."""
        return any(parameter.variadic for parameter in self.parameters)

    @property
    def variables(self) -> int:
        """How generic it is; of two signatures that fit the less generic one is meant."""
        return sum(parameter.type.variables for parameter in self.parameters)

    def spread(self, count: int) -> tuple[Parameter, ...] | None:
        """The parameter of each of `count` arguments; None where the number does not fit."""
        for place, parameter in enumerate(self.parameters):
            if parameter.variadic:
                repeat = count - (len(self.parameters) - 1)
                if repeat < 0:
                    return None
                middle = (parameter,) * repeat
                return self.parameters[:place] + middle + self.parameters[place + 1 :]
        return self.parameters if len(self.parameters) == count else None


@dataclass(frozen=True, slots=True)
class LambdaArity:
    """Stands for a lambda argument, whose type is known only after the others are."""

    parameters: int

    def __str__(self) -> str:
        return "LAMBDA"


Argument = SqlType | LambdaArity
Bodies = Callable[[int, tuple[SqlType, ...]], SqlType]
"""(position of a lambda argument, types of its parameters) -> type of its body."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a call means: the chosen signature, the type each argument is converted to (Lambda
    for lambdas), which arguments must be literals, and the type of the result."""

    variant: int
    parameters: tuple[SqlType, ...]
    literals: tuple[bool, ...]
    result: SqlType


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
    """The type that a text of the notation names; ValueError where it is open or no type."""
    pattern, rest = _type(tuple(_TOKEN.findall(text)), text)
    if rest or pattern.variables or pattern.head in ("ANY", "LAMBDA"):
        raise ValueError(f"{text!r} is not a definite type")
    if pattern.head == _DECIMAL and pattern.digits is None:
        raise ValueError("DECIMAL needs its digits: DECIMAL(precision, scale)")
    return _substitute(pattern, {})


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
    if head == _DECIMAL and rest[:1] == ("(",):
        return Pattern(head, digits=(int(rest[1]), int(rest[3]))), rest[5:]
    if head in _PRIMITIVES or head in (_DECIMAL, "ANY") or _VARIABLE.fullmatch(head):
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


def resolve(
    name: str,
    signatures: Sequence[str],
    arguments: Sequence[Argument],
    *,
    bodies: Bodies | None = None,
    results: Sequence[Callable[[Sequence[SqlType]], SqlType] | None] = (),
) -> Resolution:
    """The signature that a call with these arguments means.

    One that fits exactly goes before one that needs conversions; then one with a fixed number of
    parameters, then the less generic, then the longer, then the one listed first; two equally
    good ones that take any number of arguments are ambiguous. `results[i]` overrides the result
    type of signature i. Raises StatementError, quoting `name` as given.
    """
    parsed = [parse_signature(signature) for signature in signatures]
    for casts in (False, True):
        fits = [
            (rank, index, bound)
            for index, signature in enumerate(parsed)
            if (bound := _fit(signature, arguments, casts)) is not None
            for rank in [_rank(signature, arguments, bound)]
        ]
        if fits:
            fits.sort(key=lambda fit: fit[:2])
            if parsed[fits[0][1]].variadic and len(fits) > 1 and fits[0][0][:3] == fits[1][0][:3]:
                raise StatementError(
                    f"Function '{name}' cannot be resolved due to ambiguous method parameters "
                    f"({_shown(arguments)}).",
                    hint="Add a CAST to the arguments so that they have one type.",
                )
            _, index, bound = fits[0]
            given = results[index] if index < len(results) else None
            return _finish(name, parsed[index], index, arguments, bound, bodies, given)
    raise _no_match(name, parsed, arguments)


def _rank(
    signature: Signature, arguments: Sequence[Argument], bound: dict[str, SqlType]
) -> tuple[bool, int, int, int]:
    spread = signature.spread(len(arguments)) or ()
    wanted = [_substitute(parameter.type, bound) for parameter in spread]
    distance = sum(_distance(a, b) for a, b in zip(arguments, wanted, strict=True))
    return signature.variadic, signature.variables, -len(signature.parameters), distance


def _distance(given: Argument, wanted: SqlType) -> int:
    if isinstance(given, LambdaArity) or given in (wanted, NULL):
        return 0
    steps: dict[SqlType, int] = {Primitive.BIGINT: 1, Primitive.DOUBLE: 3}
    return 2 if isinstance(wanted, Decimal) else steps.get(wanted, 4)


def _fit(
    signature: Signature, arguments: Sequence[Argument], casts: bool
) -> dict[str, SqlType] | None:
    spread = signature.spread(len(arguments))
    if spread is None:
        return None
    bound: dict[str, SqlType] = {}
    accepted = all(
        _accepts(parameter.type, argument, bound, casts)
        for parameter, argument in zip(spread, arguments, strict=True)
    )
    return bound if accepted else None


def _accepts(pattern: Pattern, given: Argument, bound: dict[str, SqlType], casts: bool) -> bool:
    """Whether an argument fits; fills in `bound`."""
    if isinstance(given, LambdaArity) or pattern.head == "LAMBDA":
        arity = len(pattern.parts) - 1
        return pattern.head == "LAMBDA" and given == LambdaArity(arity)
    if given is NULL or pattern.head == "ANY":
        return True
    if pattern.digits:
        wanted = Decimal(*pattern.digits)
        return given == wanted or (casts and converts(given, wanted))
    if pattern.head == _DECIMAL:
        own = as_decimal(given)
        if own is None or not (casts or own == given):
            return False
        before = bound.get(_DECIMAL)
        bound[_DECIMAL] = wider_decimal(own, before) if isinstance(before, Decimal) else own
        return True
    if pattern.head in _PRIMITIVES:
        wanted_type = _PRIMITIVES[pattern.head]
        return given == wanted_type or (casts and converts(given, wanted_type))
    match given:
        case Array(element) if pattern.head == "ARRAY":
            return _accepts(pattern.parts[0], element, bound, casts)
        case Map(key, value) if pattern.head == "MAP":
            return _accepts(pattern.parts[0], key, bound, casts) and _accepts(
                pattern.parts[1], value, bound, casts
            )
        case Struct(fields) if pattern.head == "STRUCT":
            return tuple(field.name for field in fields) == pattern.names and all(
                _accepts(part, field.type, bound, casts)
                for part, field in zip(pattern.parts, fields, strict=True)
            )
    if not _VARIABLE.fullmatch(pattern.head):
        return False
    both = wider(bound.get(pattern.head, given), given)
    if both is None or not (casts or bound.get(pattern.head, given) == given):
        return False
    bound[pattern.head] = both
    return True


def _substitute(pattern: Pattern, bound: dict[str, SqlType]) -> SqlType:
    parts = [_substitute(part, bound) for part in pattern.parts]
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
            return _PRIMITIVES.get(pattern.head) or bound.get(pattern.head, NULL)


def _finish(
    name: str,
    signature: Signature,
    index: int,
    arguments: Sequence[Argument],
    bound: dict[str, SqlType],
    bodies: Bodies | None,
    result: Callable[[Sequence[SqlType]], SqlType] | None,
) -> Resolution:
    spread = signature.spread(len(arguments)) or ()
    for place, parameter in enumerate(spread):
        if parameter.type.head == "LAMBDA" and bodies is not None:
            _bind_body(name, place, parameter.type, bound, bodies)
    types = tuple(
        argument
        if parameter.type.head == "ANY" and not isinstance(argument, LambdaArity)
        else _substitute(parameter.type, bound)
        for parameter, argument in zip(spread, arguments, strict=True)
    )
    literals = tuple(parameter.literal for parameter in spread)
    kind = result(types) if result else _substitute(signature.result, bound)
    return Resolution(index, types, literals, kind)


def _bind_body(
    name: str, place: int, pattern: Pattern, bound: dict[str, SqlType], bodies: Bodies
) -> None:
    """Types a lambda's body. A state narrower than the body (REDUCE) widens, and so the body is
    typed again; a second round is always the last, numbers having nowhere further to go."""
    *parameters, result = pattern.parts
    for _ in range(4):
        before = dict(bound)
        body = bodies(place, tuple(_substitute(part, bound) for part in parameters))
        if not _accepts(result, body, bound, True):
            raise StatementError(
                f"Function '{name}' expects a lambda that returns {_substitute(result, bound)}, "
                f"but it returns {body}."
            )
        if before == bound:
            return


def _shown(arguments: Sequence[Argument]) -> str:
    return ", ".join("null" if argument is NULL else str(argument) for argument in arguments)


def _no_match(
    name: str, signatures: Sequence[Signature], arguments: Sequence[Argument]
) -> StatementError:
    alternatives = "\n".join(
        f"{name}({', '.join(map(str, signature.parameters))})" for signature in signatures
    )
    return StatementError(
        f"Function '{name}' does not accept parameters ({_shown(arguments)}).\n"
        f"Valid alternatives are:\n{alternatives}",
        hint=f"For detailed information on a function run: DESCRIBE FUNCTION {name};",
    )
