"""Replaces parts of typed expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from millstream.model.expressions import ColumnRef, Expression

Replacement = Callable[[Expression], Expression | None]


def substitute(expression: Expression, replacement: Replacement) -> Expression:
    """The expression with every part for which `replacement` returns another one exchanged.

    `replacement` is called for outer parts first, and not for parts of a replaced one.
    """
    found = replacement(expression)
    if found is not None:
        return found
    changes: dict[str, Any] = {}
    for name in expression.__slots__:
        before = getattr(expression, name)
        after = _substitute_in(before, replacement)
        if after is not before:
            changes[name] = after
    return replace(expression, **changes) if changes else expression


def rename(expression: Expression, names: Mapping[str, str]) -> Expression:
    """The expression over a relation whose columns have other names."""

    def renamed(part: Expression) -> Expression | None:
        if isinstance(part, ColumnRef) and part.name in names:
            return ColumnRef(names[part.name], part.type)
        return None

    return substitute(expression, renamed)


def _substitute_in(item: Any, replacement: Replacement) -> Any:
    if isinstance(item, Expression):
        return substitute(item, replacement)
    if isinstance(item, tuple):
        members = tuple(_substitute_in(member, replacement) for member in item)
        return item if all(a is b for a, b in zip(members, item, strict=True)) else members
    return item
