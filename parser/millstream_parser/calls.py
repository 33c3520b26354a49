"""Which functions a statement calls."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from sqlglot import exp

from millstream_parser.statements import Statement


def functions_called(statement: Statement) -> frozenset[str]:
    """The names of all functions anywhere in a statement, in upper case."""
    return frozenset(
        str(call.this).upper()
        for tree in _trees(statement)
        for call in tree.find_all(exp.Anonymous)
    )


def _trees(value: object) -> list[exp.Expression]:
    if isinstance(value, exp.Expression):
        return [value]
    if isinstance(value, tuple):
        return [tree for item in value for tree in _trees(item)]
    if is_dataclass(value) and not isinstance(value, type):
        return [tree for field in fields(value) for tree in _trees(getattr(value, field.name))]
    return []
