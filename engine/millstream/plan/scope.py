"""Resolves the names in an expression by its position in the query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from millstream.functions.function import Catalogue
from millstream.model import refusals
from millstream.model.errors import Span, StatementError
from millstream.model.expressions import ColumnRef, LambdaRef
from millstream.model.nearest import did_you_mean
from millstream.model.schema import Schema
from millstream.model.types import SqlType, Struct


@dataclass(frozen=True, slots=True)
class Scope:
    """The visible columns, functions and types.

    `sources` are (alias, schema) pairs, pseudo columns in use included in the schemas. `physical`
    maps (alias, column) to the name of the column in the relation that the expression is
    evaluated over, where that differs. `clause` appears in messages. `aggregates` and `tables`:
    whether aggregate and table functions may be called here. `text` is the script, for line
    numbers.
    """

    sources: tuple[tuple[str, Schema], ...]
    catalogue: Catalogue
    types: Mapping[str, SqlType] = field(default_factory=dict)
    physical: Mapping[tuple[str, str], str] = field(default_factory=dict)
    clause: str = "SELECT"
    aggregates: bool = False
    tables: bool = False
    text: str = ""
    parameters: tuple[LambdaRef, ...] = ()

    def within(self, parameters: tuple[LambdaRef, ...]) -> Scope:
        """The scope of the body of a lambda; it is computed many times for a row."""
        return replace(self, parameters=parameters + self.parameters, tables=False)

    def inside_call(self) -> Scope:
        """The scope of the arguments of an aggregate or table function."""
        return replace(self, aggregates=False, tables=False)


def resolve_column(tree: exp.Column, scope: Scope) -> ColumnRef | LambdaRef:
    """The column or lambda parameter of a name; raises StatementError if there are none or
    several."""
    name, qualifier = tree.name, tree.table
    if not qualifier:
        for parameter in scope.parameters:
            if parameter.name == name:
                return parameter
    found = [
        (alias, column)
        for alias, schema in scope.sources
        if not qualifier or alias == qualifier
        for column in [schema.find(name)]
        if column is not None
    ]
    if len(found) == 1:
        alias, column = found[0]
        return ColumnRef(scope.physical.get((alias, name), name), column.type)
    span, place = location(tree, scope.text)
    if found:
        options = " or ".join(f"{alias}.{name}" for alias, _ in found)
        raise refusals.AMBIGUOUS_COLUMN(
            place=place,
            column=name,
            options=options,
            hint="Put the name of the source before the column.",
            span=span,
        )
    raise _unknown(name, qualifier, place, span, scope)


def location(tree: exp.Expression, text: str) -> tuple[Span | None, str]:
    """The position of a tree in the script, also as the start of a message."""
    offsets = tree.meta.get("span")
    if offsets is None or not text:
        return None, ""
    start, end = offsets
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return Span(line, column, start, end), f"Line: {line}, Col: {column}: "


def field_hint(struct: str, name: str, schemas: Iterable[Schema]) -> str:
    """For `item.sku`, where `item` is a column with fields and no source; else empty."""
    columns = (column for schema in schemas for column in schema.columns)
    if any(column.name == struct and isinstance(column.type, Struct) for column in columns):
        return f"A field of a STRUCT is taken by an arrow: {struct}->{name}"
    return ""


def text_hint(name: str, span: Span | None, script: str) -> str:
    """For a text in double quotes, which is read as a name; else empty."""
    if span is None or script[span.start : span.start + 1] != '"':
        return ""
    return f"A text is in single quotes: {_text(name)}. Double quotes are for names."


def _text(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _unknown(
    name: str, qualifier: str, place: str, span: Span | None, scope: Scope
) -> StatementError:
    if qualifier and all(alias != qualifier for alias, _ in scope.sources):
        # For a query without a source, the message names no clause.
        place = place if scope.sources else "Failed to prepare statement: "
        hint = field_hint(qualifier, name, (schema for _, schema in scope.sources))
        hint = hint or did_you_mean(qualifier, (alias for alias, _ in scope.sources))
        return refusals.UNKNOWN_ALIAS(place=place, alias=qualifier, span=span, hint=hint)
    shown = f"{qualifier}.{name}" if qualifier else name
    similar = [
        column.name
        for _, schema in scope.sources
        for column in schema.columns
        if column.name.casefold() == name.casefold()
    ]
    hint = f"Did you mean `{similar[0]}`? Backquotes keep the case of a name." if similar else ""
    if not similar:
        visible = (column.name for _, schema in scope.sources for column in schema.columns)
        hint = did_you_mean(name, visible) or text_hint(name, span, scope.text)
        if scope.clause == "VALUES":
            hint = f"VALUES has constants, and a text is in single quotes: {_text(name)}."
    return refusals.UNRESOLVED_COLUMN(
        place=place,
        clause=scope.clause,
        column=shown,
        why=why_unresolved(scope.clause, shown),
        hint=hint,
        span=span,
    )


def why_unresolved(clause: str, name: str) -> str:
    """The addition to the message about an unknown column in such a clause."""
    if clause not in ("PARTITION BY", "GROUP BY"):
        return ""
    return (
        f" '{name}' must be a column in the source schema since {clause} is applied on the input."
    )
