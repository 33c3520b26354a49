"""Pieces of the oracle's SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.differential.describe import Column, Expr, Group, Item, Source

DAY_MS = 86_400_000
META = ('"$pos"', '"$part"', '"$ts"', '"$dead"')


def table(name: str, text: str) -> str:
    """A table made from a SELECT."""
    return f'CREATE OR REPLACE TABLE "{name}" AS {text}'


def quoted(columns: Iterable[Column]) -> list[str]:
    """Column names."""
    return [f'"{column.name}"' for column in columns]


def names(items: Iterable[Item]) -> list[str]:
    """Names of result columns."""
    return [f'"{item.name}"' for item in items]


def guarded(item: Item) -> str:
    """A result column: NULL where its expression fails."""
    return f'TRY({item.expression.plain()}) AS "{item.name}"'


def where(predicate: Expr | None) -> str:
    """A condition that is never NULL and never fails."""
    return "TRUE" if predicate is None else f"coalesce(TRY({predicate.plain()}), FALSE)"


def keyed(source: Source) -> str:
    """Records of tables without a key are none."""
    return " OR ".join(f"{name} IS NOT NULL" for name in quoted(source.keys)) or "TRUE"


def same(left: str, right: str, columns: Sequence[str]) -> str:
    """That columns of two relations agree."""
    return " AND ".join(f"{left}.{name} IS NOT DISTINCT FROM {right}.{name}" for name in columns)


def argument_rows(query: Group, source: str, extra: Sequence[str] = ()) -> str:
    """The rows that belong to a group, with keys and arguments; NULL is no key."""
    columns = [guarded(item) for item in query.keys]
    columns += [f'TRY({one.argument.plain()}) AS "{one.name}"' for one in query.aggregates]
    keys = " AND ".join(f"{name} IS NOT NULL" for name in names(query.keys))
    listed = ", ".join([*columns, *META, *extra])
    return (
        f'SELECT * FROM (SELECT {listed} FROM "{source}" '
        f'WHERE NOT "$dead" AND {where(query.where)}) WHERE {keys}'
    )


def collected(query: Group, by: str) -> str:
    """For each aggregate the list of its arguments, `by` being how they are listed."""
    return ", ".join(f'{by.format(one.name)} AS "{one.name}"' for one in query.aggregates)


def group_results(query: Group, sink: Source, lists: str, window: Sequence[str] = ()) -> list[str]:
    """From a relation with the lists of arguments after each change to the sink: aggregates,
    expressions over them, HAVING. What passed before and does not now is deleted."""
    keys = [*names(query.keys), *window]
    folded = []
    for one in query.aggregates:
        text = one.oracle.format(f'"{one.name}"')
        folded.append(f'{text} AS "{one.name}"')
    aggregated = table("$aggregated", f"SELECT {', '.join([*keys, *folded, *META])} FROM {lists}")
    values = ", ".join(guarded(item) for item in query.values)
    listed = ", ".join(keys)
    return [
        aggregated,
        table(
            sink.name,
            f'SELECT {listed}, {values}, "$pos", "$part", "$ts", NOT "$in" AS "$dead" FROM '
            f'(SELECT *, coalesce(lag("$in") OVER (PARTITION BY {listed} ORDER BY "$pos"), FALSE) '
            f'AS "$was" FROM (SELECT *, NOT "$dead" AND {where(query.having)} AS "$in" '
            f'FROM "$aggregated")) WHERE "$in" OR "$was"',
        ),
    ]
