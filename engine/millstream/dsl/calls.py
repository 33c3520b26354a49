"""Calls of functions: those of the catalogue by name, with the arguments checked by number."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from sqlglot import exp

from millstream.dsl.expressions import Expr, Value, column, tree_of
from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.signatures import Pattern, Signature, parse_signature
from millstream.model.names import folded
from millstream.model.nearest import did_you_mean
from millstream_grammar.keywords import TIME_UNITS
from millstream_parser.names import identifier

Argument: TypeAlias = "Value | Callable[..., Value]"
"""A value, or for a parameter that is a lambda, a Python function of expressions."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LAMBDA_MOST = 3


def names() -> list[str]:
    """The names of all functions of the dialect, as `fn` has them."""
    return sorted(name.lower() for name in builtin_catalogue().named())


def function(name: str) -> Callable[..., Expr]:
    """The function of the dialect with a lower-case name, as an attribute of `fn`. Raises
    AttributeError."""
    found = None if name != name.lower() else builtin_catalogue().find(name)
    if found is None:
        near = did_you_mean(name, names())
        raise AttributeError(
            f"The dialect has no function {name}. {near}".rstrip(" ")
            + ("" if name.startswith("_") else " A function of your own is fn.call('name', …).")
        )
    signatures = tuple(parse_signature(text) for text in found.signatures)

    def made(*arguments: Argument) -> Expr:
        return _builtin(found.name, signatures, arguments)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = found.description
    return made


def call(name: str, /, *arguments: Argument) -> Expr:
    """A call of any function, also one of your own (`millstream.udf`). A Python function among the
    arguments becomes a lambda of the dialect."""
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a function")
    return _call(name.upper(), [_tree(name, argument, ()) for argument in arguments])


def _builtin(name: str, signatures: Sequence[Signature], arguments: Sequence[Argument]) -> Expr:
    if name == "COUNT" and not arguments:
        return _call(name, [exp.Star()])
    spread = [found for item in signatures if (found := item.spread(len(arguments))) is not None]
    if not spread and not _is_star(arguments):
        takes = ", or ".join(
            f"({', '.join(map(str, signature.parameters))})" for signature in signatures
        )
        raise TypeError(f"fn.{name.lower()} takes {takes}, not {len(arguments)} arguments")
    return _call(
        name,
        [
            _tree(name, argument, tuple(parameters[place].type for parameters in spread))
            for place, argument in enumerate(arguments)
        ],
    )


def _is_star(arguments: Sequence[Argument]) -> bool:
    return any(isinstance(a, Expr) and isinstance(a.tree, exp.Star) for a in arguments)


def _call(name: str, trees: list[exp.Expression]) -> Expr:
    return Expr(exp.Anonymous(this=name, expressions=trees))


def _tree(name: str, argument: Argument, patterns: Sequence[Pattern]) -> exp.Expression:
    """An argument that is for one of the patterns; without patterns, for any."""
    heads = {pattern.head for pattern in patterns}
    if callable(argument):
        counts = {len(p.parts) - 1 for p in patterns if p.head == "LAMBDA"}
        if patterns and not counts:
            raise TypeError(
                f"An argument of {name} is an expression; a Python function of your own is"
                " registered with millstream.udf"
            )
        return _lambda(name, argument, counts)
    if heads == {"LAMBDA"}:
        raise TypeError(
            f"{name} takes a lambda there, such as lambda x: x + 1, not {type(argument).__name__}"
        )
    if heads == {"INTERVALUNIT"}:
        return _unit(name, argument)
    return tree_of(argument)


def _unit(name: str, argument: Value) -> exp.Expression:
    if not isinstance(argument, str) or argument.upper() not in TIME_UNITS:
        raise TypeError(
            f"{name} takes a unit of time there, such as 'days' or 'seconds', not {argument!r}"
        )
    return exp.Var(this=TIME_UNITS[argument.upper()])


def _lambda(name: str, body: Callable[..., Value], counts: set[int]) -> exp.Expression:
    """A lambda of the dialect: the Python function is called once, with its parameters as
    columns."""
    parameters = list(inspect.signature(body).parameters.values())
    if any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        raise TypeError(f"A lambda for {name} has plain parameters: lambda x, y: …")
    if len(parameters) not in (counts or range(1, _LAMBDA_MOST + 1)):
        wanted = " or ".join(map(str, sorted(counts))) or f"1 to {_LAMBDA_MOST}"
        raise TypeError(f"A lambda for {name} has {wanted} parameters, not {len(parameters)}")
    stored = [folded(parameter.name, "A parameter of a lambda") for parameter in parameters]
    result = body(*(Expr(column(parameter)) for parameter in stored))
    return exp.Lambda(this=tree_of(result), expressions=[identifier(p) for p in stored])
