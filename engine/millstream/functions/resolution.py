"""Resolves a call to one signature of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from millstream.functions.conversions import as_decimal, converts, wider, wider_decimal
from millstream.functions.signatures import (
    DECIMAL,
    PRIMITIVES,
    VARIABLE,
    Pattern,
    Signature,
    parse_signature,
    substitute,
)
from millstream.model import refusals
from millstream.model.errors import StatementError
from millstream.model.types import NULL, Array, Decimal, Map, Primitive, SqlType, Struct


@dataclass(frozen=True, slots=True)
class LambdaArity:
    """Placeholder for a lambda argument, whose type is determined after the others."""

    parameters: int

    def __str__(self) -> str:
        return "LAMBDA"


Argument = SqlType | LambdaArity
Bodies = Callable[[int, tuple[SqlType, ...]], SqlType]
"""(position of a lambda argument, types of its parameters) -> type of its body."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """A resolved call: the signature, the type that each argument is converted to (Lambda for
    lambdas), which arguments must be literals, and the type of the result."""

    variant: int
    parameters: tuple[SqlType, ...]
    literals: tuple[bool, ...]
    result: SqlType


def resolve(
    name: str,
    signatures: Sequence[str],
    arguments: Sequence[Argument],
    *,
    bodies: Bodies | None = None,
    results: Sequence[Callable[[Sequence[SqlType]], SqlType] | None] = (),
) -> Resolution:
    """Resolve a call with these arguments.

    An exact match is preferred to one with conversions; then a fixed number of parameters, then the
    less generic, then the longer, then the one listed first. Two equally good variadic ones are
    ambiguous. `results[i]` overrides the result type of signature i. Raises StatementError, quoting
    `name` as given.
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
                raise refusals.AMBIGUOUS_SIGNATURE(
                    name=name,
                    arguments=_shown(arguments),
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
    wanted = [substitute(parameter.type, bound) for parameter in spread]
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
    """Whether an argument matches; fills in `bound`."""
    if isinstance(given, LambdaArity) or pattern.head == "LAMBDA":
        arity = len(pattern.parts) - 1
        return pattern.head == "LAMBDA" and given == LambdaArity(arity)
    if given is NULL or pattern.head == "ANY":
        return True
    if pattern.digits:
        wanted = Decimal(*pattern.digits)
        return given == wanted or (casts and converts(given, wanted))
    if pattern.head == DECIMAL:
        own = as_decimal(given)
        if own is None or not (casts or own == given):
            return False
        before = bound.get(DECIMAL)
        bound[DECIMAL] = wider_decimal(own, before) if isinstance(before, Decimal) else own
        return True
    if pattern.head in PRIMITIVES:
        wanted_type = PRIMITIVES[pattern.head]
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
    if not VARIABLE.fullmatch(pattern.head):
        return False
    both = wider(bound.get(pattern.head, given), given)
    if both is None or not (casts or bound.get(pattern.head, given) == given):
        return False
    bound[pattern.head] = both
    return True


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
        else substitute(parameter.type, bound)
        for parameter, argument in zip(spread, arguments, strict=True)
    )
    literals = tuple(parameter.literal for parameter in spread)
    kind = result(types) if result else substitute(signature.result, bound)
    return Resolution(index, types, literals, kind)


def _bind_body(
    name: str, place: int, pattern: Pattern, bound: dict[str, SqlType], bodies: Bodies
) -> None:
    """Types a lambda's body. A state narrower than the body (REDUCE) is widened, and the body is
    typed again; two rounds always suffice, because numeric types widen only once."""
    *parameters, result = pattern.parts
    for _ in range(4):
        before = dict(bound)
        body = bodies(place, tuple(substitute(part, bound) for part in parameters))
        if not _accepts(result, body, bound, True):
            raise refusals.LAMBDA_RESULT(name=name, substitute=substitute(result, bound), body=body)
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
    return refusals.NO_SIGNATURE(
        name=name,
        arguments=_shown(arguments),
        alternatives=alternatives,
        hint=f"For detailed information on a function run: DESCRIBE FUNCTION {name};",
    )
