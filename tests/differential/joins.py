"""Random joins."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tests.differential.describe import Case, Column, Expr, Item, Join, Side, Source, Statement

Make = Callable[..., Source]
Condition = Callable[[random.Random, Sequence[Column], float], Expr | None]


def _side(rng: random.Random, make: Make, name: str, kind: str, key: str, wide: int) -> Source:
    """A source whose first value column, F0, may refer to the key of another."""
    made = make(rng, name, kind, key=key, partitions=wide)
    return replace(made, values=(Column("F0", key), *made.values))


def _seen(sources: Sequence[Source]) -> tuple[Column, ...]:
    """The columns of all sides under their aliases."""
    return tuple(
        Column(f"{source.name}.{column.name}", column.type)
        for source in sources
        for column in source.columns
    )


def _values(rng: random.Random, columns: Sequence[Column]) -> tuple[Item, ...]:
    chosen = rng.sample(list(columns), min(len(columns), rng.randint(2, 6)))
    return tuple(
        Item(f"V{number}", Expr(column.type, column=column.name))
        for number, column in enumerate(chosen)
    )


def _on(source: Source, column: str) -> Side:
    type_ = next(one.type for one in source.columns if one.name == column)
    name = f"{source.name}.{column}"
    return Side(source.name, source.name, Expr(type_, column=name))


def _made(sources: Sequence[Source], query: Join, kind: str) -> Case:
    copies = (_copied(item.expression, query.key_text) for item in query.values)
    values = tuple(
        replace(item, expression=one) for item, one in zip(query.values, copies, strict=True)
    )
    query = replace(query, values=values)
    columns = tuple(item.column for item in query.values)
    sink = Source("O", kind, (query.key,), columns, sources[0].partitions)
    return Case(0, "", tuple(sources), (Statement(sink, query),), ())


def _copied(made: Expr, key: str) -> Expr:
    """The key may be shown a second time only as AS_VALUE."""
    return Expr(made.type, "AS_VALUE({0})", "{0}", (made,)) if made.column == key else made


def _stream_table(rng: random.Random, make: Make, condition: Condition) -> Case:
    key, moved = rng.choice(("INT", "STRING")), rng.random() < 0.4
    wide = 1 if moved else rng.choice((1, 2, 3))
    left = _side(rng, make, "L", "STREAM", key, wide)
    right = _side(rng, make, "R", "TABLE", key, wide)
    columns = _seen((left, right))
    on = "F0" if moved else "K"
    query = Join(
        "stream_table",
        rng.choice(("INNER", "LEFT")),
        (_on(left, on), _on(right, "K")),
        Column("JK", key),
        f"L.{on}",
        _values(rng, columns),
        condition(rng, columns, 0.3),
    )
    if not moved and left.key_format != right.key_format:
        right = replace(right, key_format=left.key_format)
    return _made((left, right), query, "STREAM")


def _stream_stream(rng: random.Random, make: Make, condition: Condition) -> Case:
    key, moved = rng.choice(("INT", "STRING")), rng.random() < 0.4
    wide = 1 if moved else rng.choice((1, 2))
    left = _side(rng, make, "L", "STREAM", key, wide)
    right = _side(rng, make, "R", "STREAM", key, wide)
    right = replace(right, key_format=left.key_format)
    columns = _seen((left, right))
    how = rng.choice(("INNER", "LEFT", "RIGHT", "FULL"))
    on = "F0" if moved else "K"
    before = rng.choice((0, 5, 20, 100))
    query = Join(
        "stream_stream",
        how,
        (_on(left, on), _on(right, "K")),
        Column("JK", key),
        _key_of(how, f"L.{on}", "R.K"),
        _values(rng, columns),
        condition(rng, columns, 0.2),
        before,
        rng.choice((before, 0, 10)),
        rng.choice((None, None, 0, 20)),
    )
    return _made((left, right), query, "STREAM")


def _key_of(how: str, left: str, right: str) -> str:
    """How the key of a join is called."""
    return {"RIGHT": right, "FULL": "ROWKEY"}.get(how, left)


def _table_table(rng: random.Random, make: Make, condition: Condition) -> Case:
    key, wide = rng.choice(("INT", "STRING")), rng.choice((1, 2))
    left = _side(rng, make, "L", "TABLE", key, wide)
    right = _side(rng, make, "R", "TABLE", key, wide)
    right = replace(right, key_format=left.key_format)
    columns = _seen((left, right))
    how = rng.choice(("INNER", "LEFT", "RIGHT", "FULL"))
    query = Join(
        "table_table",
        how,
        (_on(left, "K"), _on(right, "K")),
        Column("JK", key),
        _key_of(how, "L.K", "R.K"),
        _values(rng, columns),
        condition(rng, columns, 0.3),
    )
    return _made((left, right), query, "TABLE")


def _foreign_key(rng: random.Random, make: Make, condition: Condition) -> Case:
    key = rng.choice(("INT", "STRING"))
    left = _side(rng, make, "L", "TABLE", key, rng.choice((1, 2)))
    right = _side(rng, make, "R", "TABLE", key, rng.choice((1, 2)))
    columns = _seen((left, right))
    query = Join(
        "foreign_key",
        rng.choice(("INNER", "LEFT")),
        (_on(left, "F0"), _on(right, "K")),
        Column("JK", key),
        "L.K",
        _values(rng, columns),
        condition(rng, columns, 0.3),
    )
    return _made((left, right), query, "TABLE")


JOINS: Mapping[str, Callable[[random.Random, Make, Condition], Case]] = {
    "stream_table": _stream_table,
    "stream_stream": _stream_stream,
    "table_table": _table_table,
    "foreign_key": _foreign_key,
}
