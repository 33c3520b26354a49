"""The names that statements can use, for completion and for the keys of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import Catalogue
from millstream_grammar.keywords import HARD


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column, its type as SQL text, and whether it is (part of) the key."""

    name: str
    type: str
    key: bool = False


@dataclass(frozen=True, slots=True)
class SourceName:
    """A stream or table; `kind` is STREAM or TABLE."""

    name: str
    kind: str
    columns: tuple[ColumnName, ...]
    windowed: bool = False


@dataclass(frozen=True, slots=True)
class Names:
    """All names at one moment. `functions`: name -> signatures."""

    sources: Mapping[str, SourceName] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def function_names(catalogue: Catalogue) -> Mapping[str, tuple[str, ...]]:
    """The signatures of each function, as `(STRING, INTEGER) → STRING`."""
    found = sorted(catalogue.named().items())
    return {name: tuple(map(_signature, function.signatures)) for name, function in found}


@cache
def builtin_names() -> Mapping[str, tuple[str, ...]]:
    """The built-in functions."""
    return MappingProxyType(function_names(builtin_catalogue()))


def _signature(text: str) -> str:
    arguments, _, result = text.rpartition("->")
    return f"({arguments.strip()}) → {result.strip()}"


def written(name: str) -> str:
    """A name as a statement must spell it."""
    plain = name.isascii() and name.replace("@", "_").isidentifier() and name == name.upper()
    return name if plain and name not in HARD else f"`{name.replace('`', '``')}`"
