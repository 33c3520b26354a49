"""The stub of `millstream.fn`, made from the catalogue: its functions with their parameters, for
type checkers and editors. tests/test_docs.py fails while it is not what this would write."""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Iterator

from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import Function
from millstream.functions.signatures import Pattern, Signature, parse_signature

HEAD = '''"""All functions of the dialect. Made from the catalogue by `make docs`; do not edit."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Literal, TypeAlias

from millstream.dsl.expressions import Expr, Value

Argument: TypeAlias = Value | Callable[..., Value]
Array: TypeAlias = Expr | Sequence[Value] | None
Bytes: TypeAlias = Expr | None
Date: TypeAlias = Expr | date | None
Flag: TypeAlias = Expr | bool | None
Lambda1: TypeAlias = Callable[[Expr], Value]
Lambda2: TypeAlias = Callable[[Expr, Expr], Value]
Lambda3: TypeAlias = Callable[[Expr, Expr, Expr], Value]
Map: TypeAlias = Expr | Mapping[str, Value] | None
Number: TypeAlias = Expr | int | float | Decimal | None
Struct: TypeAlias = Expr | None
Text: TypeAlias = Expr | str | None
Time: TypeAlias = Expr | time | None
Timestamp: TypeAlias = Expr | datetime | None
Unit: TypeAlias = Literal["days", "hours", "minutes", "seconds", "milliseconds"]
Whole: TypeAlias = Expr | int | None

def call(name: str, /, *arguments: Argument) -> Expr:
    """A call of any function, also one of your own (`millstream.udf`). A Python function among the
    arguments becomes a lambda of the dialect."""
'''
ALIASES = {
    "ARRAY": "Array",
    "BIGINT": "Whole",
    "BOOLEAN": "Flag",
    "BYTES": "Bytes",
    "DATE": "Date",
    "DECIMAL": "Number",
    "DOUBLE": "Number",
    "INTEGER": "Whole",
    "INTERVALUNIT": "Unit",
    "MAP": "Map",
    "STRING": "Text",
    "STRUCT": "Struct",
    "TIME": "Time",
    "TIMESTAMP": "Timestamp",
}
WIDTH = 100


def stub() -> str:
    """engine/millstream/dsl/fn.pyi."""
    named = builtin_catalogue().named()
    return HEAD + "".join(f"\n{_function(named[name])}" for name in sorted(named))


def _function(function: Function) -> str:
    signatures = [parse_signature(text) for text in function.signatures]
    head = f"def {function.name.lower()}("
    parameters = list(_parameters(signatures))
    line = f"{head}{', '.join(parameters)}) -> Expr:"
    if len(line) > WIDTH:
        inner = "".join(f"    {parameter},\n" for parameter in parameters)
        line = f"{head}\n{inner}) -> Expr:"
    text = function.description.replace("\\", "\\\\")
    text += ' """' if text.endswith('"') else '"""'
    body = textwrap.fill(
        f'"""{text}', WIDTH, initial_indent="    ", subsequent_indent="    ", break_long_words=False
    )
    return f"{line}\n{body}\n"


def _parameters(signatures: list[Signature]) -> Iterator[str]:
    """The parameters of all signatures together: what some do not have may be left out."""
    variadic = any(signature.variadic for signature in signatures)
    least = min(len(item.parameters) - item.variadic for item in signatures)
    most = max(len(item.parameters) for item in signatures) + variadic
    places: list[dict[str, None]] = [{} for _ in range(most)]
    names: list[str] = [""] * most
    for count in range(least, most + 1):
        for signature in signatures:
            for place, parameter in enumerate(signature.spread(count) or ()):
                places[place][_alias(parameter.type)] = None
                names[place] = names[place] or parameter.name
    taken: set[str] = set()
    fixed = least if variadic else most
    for place in range(fixed):
        name = _name(names[place] or _union(places[place]).split(" | ")[0], taken)
        yield f"{name}: {_union(places[place])}{' = ...' if place >= least else ''}"
    if fixed:
        yield "/"
    if variadic:
        yield f"*more: {_union({alias: None for place in places[least:] for alias in place})}"


def _alias(pattern: Pattern) -> str:
    if pattern.head == "LAMBDA":
        return f"Lambda{len(pattern.parts) - 1}"
    return ALIASES.get(pattern.head, "Value")


def _union(aliases: dict[str, None]) -> str:
    lambdas = [alias for alias in aliases if alias.startswith("Lambda")]
    values = ["Value"] if "Value" in aliases else [a for a in aliases if a not in lambdas]
    if "Number" in values and "Whole" in values:
        values.remove("Whole")
    return " | ".join(values + lambdas)


def _name(given: str, taken: set[str]) -> str:
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in given).lstrip("_")
    name = f"{name}_" if keyword.iskeyword(name) else name
    number = 2
    found = name
    while found in taken:
        found, number = f"{name}{number}", number + 1
    taken.add(found)
    return found
