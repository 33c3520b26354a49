"""Streams grouped by one key together: their rows as one stream, which has the columns of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from millstream.catalog.source import Source
from millstream.dsl.expressions import Expr, column, lit
from millstream.dsl.inlining import ALL
from millstream.dsl.joins import name_of
from millstream.dsl.queries import done, emitting
from millstream.dsl.statements import Connection, create_as
from millstream.model.errors import StatementError
from millstream.model.schema import Role
from millstream_parser import statements as s

Group = tuple[s.Query, tuple[s.SelectItem, ...]]
"""A grouped query, and the columns of its group."""


def write_cogroup(
    connection: Connection, groups: Sequence[Group], into: str, options: Mapping[str, object]
) -> tuple[str, ...]:
    """Create the stream `into`, and return the names of its key columns, which are those of the
    first group. Raises StatementError for what is no stream with at most a filter."""
    sources = [_source(connection, query) for query, _ in groups]
    keys = _key_names(groups)
    branches = [
        replace(
            query,
            items=(*_keys(by, keys), *_values(groups, sources, number)),
            group_by=(),
            partition_by=tuple(item.expression for item in by),
        )
        for number, (query, by) in enumerate(groups)
    ]
    query = replace(branches[0], union=tuple(branches[1:]))
    done(connection.execute(create_as("STREAM", into, emitting(query), options)))
    return keys


def _source(connection: Connection, query: s.Query) -> Source:
    known = query.source
    plain = s.Query(ALL, known, where=query.where, group_by=query.group_by)
    if query != plain or known.processor is not None:
        raise StatementError(
            f"{name_of(known)} cannot be cogrouped: there are other steps before than a filter",
            hint="End them with .through('a name'), and group what it returns.",
        )
    return connection.catalog.source(known.name)


def _key_names(groups: Sequence[Group]) -> tuple[str, ...]:
    names = [name_of(query.source) for query, _ in groups]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise StatementError(
            f"{twice} is cogrouped twice", hint=f"Give one an alias: .alias('{twice[0]}2')."
        )
    first = groups[0][1]
    for query, by in groups:
        if len(by) != len(first):
            raise StatementError(
                f"{name_of(query.source)} is grouped by {len(by)} columns, and {names[0]} by"
                f" {len(first)}",
                hint="Group all of them by the same key.",
            )
    found = tuple(item.alias or _column_name(item) for item in first)
    if not all(found):
        raise StatementError(
            "The columns of a group need names here", hint="Such as group_by(town=fn.ucase(…))."
        )
    return found


def _column_name(item: s.SelectItem) -> str:
    """The name of a column; empty for another expression."""
    return str(item.expression.name) if isinstance(item.expression, exp.Column) else ""


def _keys(by: Sequence[s.SelectItem], names: Sequence[str]) -> Iterator[s.SelectItem]:
    yield from (s.SelectItem(item.expression, name) for item, name in zip(by, names, strict=True))


def _values(groups: Sequence[Group], sources: Sequence[Source], own: int) -> Iterator[s.SelectItem]:
    """The columns of all sources but those that are the key, each with the name of its source
    before its own: NULL in the rows of the others."""
    for number, (source, (query, by)) in enumerate(zip(sources, groups, strict=True)):
        keys = {_column_name(item) for item in by}
        for each in source.schema.columns:
            if each.role is Role.HEADERS or each.name in keys:
                continue
            value = Expr(column(each.name)) if number == own else lit(None).cast(str(each.type))
            yield s.SelectItem(value.tree, f"{name_of(query.source)}_{each.name}")
