"""The common part of all kinds of SELECT lists: stars, aliases and names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from millstream.catalog.rules import RESERVED
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import SqlType, Struct
from millstream.plan import wordings
from millstream.plan.scope import location
from millstream.plan.sources import unique


@dataclass(frozen=True, slots=True)
class Item:
    """A value of the SELECT list; `name` is its alias, None without one."""

    name: str | None
    tree: exp.Expression
    written: bool = True
    """Whether it was written, not expanded from a star."""


def struct_fields(base: exp.Expression, type_: SqlType, shown: str) -> Iterator[Item]:
    """The items of `base->*`; `shown` is `base` as messages show it."""
    if not isinstance(type_, Struct):
        raise wordings.EXPANDED_NO_STRUCT(text=shown, struct=type_)
    for field in type_.fields:
        name = exp.to_identifier(field.name, quoted=True)
        yield Item(field.name, exp.Dot(this=base.copy(), expression=name), False)


def refuse_reserved_aliases(items: Iterable[Item], script: str = "") -> None:
    """Refuse pseudo columns as aliases, except for the columns of these names."""
    for item in items:
        if item.written and item.name in RESERVED and item.tree.name != item.name:
            raise wordings.RESERVED_ALIAS(given=item.name, span=location(item.tree, script)[0])


def output_names(
    items: Iterable[Item],
    source_names: Collection[str],
    column_name: Callable[[exp.Column], str],
) -> tuple[str, ...]:
    """The names of the columns of the result: the alias, what `column_name` makes of a column, the
    last field of a path, or KSQL_COL_0 and so on. Generated names differ from the names of source
    columns."""
    taken = set(source_names)
    number = 0
    result: list[str] = []
    for item in items:
        match item.tree:
            case _ if item.name is not None:
                name = item.name
            case exp.Column() as column:
                name = column_name(column)
            case exp.Dot(expression=field):
                name = unique(field.name, taken)
                taken.add(name)
            case _:
                while f"KSQL_COL_{number}" in source_names:
                    number += 1
                name = f"KSQL_COL_{number}"
                number += 1
        result.append(name)
    return tuple(result)


def refuse_duplicates(keys: list[Column], values: list[Column]) -> None:
    """Refuse columns of one name in a result; values may not have names of keys either."""
    key_names = [column.name for column in keys]
    twice = [column for column in keys if key_names.count(column.name) > 1]
    if twice:
        shown = Schema((Column(twice[0].name, twice[0].type, Role.KEY),))
        raise wordings.KEY_COLUMNS_TWICE(columns=shown)
    names = [column.name for column in values]
    clashing = [c for c in values if c.name in key_names or names.count(c.name) > 1]
    if clashing:
        distinct = tuple(dict.fromkeys(clashing))
        raise wordings.VALUE_COLUMNS_TWICE(distinct=Schema(distinct))
