"""From a seed to a case. Kinds of queries go by name; `KINDS` says which are drawn by default."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tests.differential.aggregates import aggregated
from tests.differential.data import records
from tests.differential.describe import (
    Aggregated,
    Case,
    Column,
    Expr,
    Group,
    Item,
    Join,
    Project,
    Query,
    Running,
    Source,
    Statement,
    Window,
    moved,
)
from tests.differential.expressions import apply_rule, expression, rules_for
from tests.differential.joins import JOINS
from tests.differential.rules import AMOUNT, INTS, NUMBERS, STRINGS, TYPES

GROUPED = ("INT", "STRING", "BIGINT", "DATE", "BOOLEAN", AMOUNT)
"""What is grouped and partitioned by."""
TRIES = 200


def case(seed: int, kind: str | None = None, kinds: Sequence[str] = ()) -> Case:
    """The case of a seed; `kind` forces its kind, otherwise one of `kinds` is drawn."""
    rng = random.Random(seed)
    drawn = rng.choice(tuple(kinds or KINDS))
    chosen = kind or drawn
    made = MAKERS[chosen](rng)
    return replace(
        made,
        seed=seed,
        kind=chosen,
        records=records(
            rng, made.sources, rng.randint(5, 60), rng.randint(1, 5), apart=_apart(made)
        ),
        running=_running(rng, made),
    )


def _apart(made: Case) -> bool:
    """Whether the sources must alternate: where rows are repartitioned before a join, one input may
    be read before the other has arrived."""
    query = made.statements[0].query
    if not isinstance(query, Join):
        return False
    return query.kind == "foreign_key" or query.sides[0].on.column != "L.K"


def _running(rng: random.Random, made: Case) -> Running:
    cached = rng.random() < 0.15 and made.statements[-1].sink.kind == "TABLE"
    restarts: tuple[tuple[int, str], ...] = ()
    if rng.random() < 0.2:
        ways = ("close", "kill", "wipe")
        restarts = tuple((rng.randint(0, 12), rng.choice(ways)) for _ in range(rng.randint(1, 2)))
    batch = rng.choice((1, 5, 20, *[200_000] * 5))
    return Running(batch, rng.choice((0, 2, 200)), cached, restarts)


# ---- sources ------------------------------------------------------------------------------------


def source(
    rng: random.Random,
    name: str,
    kind: str,
    *,
    key: str | None = None,
    partitions: int | None = None,
) -> Source:
    """A stream or table with random columns; `key`: exactly one key column of that type."""
    if key is not None:
        keys: tuple[Column, ...] = (Column("K", key),)
    elif kind == "STREAM" and rng.random() < 0.1:
        keys = ()
    else:
        count = 2 if rng.random() < 0.2 else 1
        keys = tuple(
            Column(("K", "K2")[number], rng.choice(("INT", "STRING"))) for number in range(count)
        )
    drawn = ["INT", "STRING", rng.choice(TYPES), *rng.sample(TYPES, rng.randint(2, 5))]
    flat = rng.random() < 0.2
    if flat:
        # An empty line is no value at all, so there are always two columns.
        drawn = [type_ for type_ in drawn if "<" not in type_ and type_ != "STRING"]
        drawn.append(rng.choice(NUMBERS))
    values = tuple(Column(f"C{number}", type_) for number, type_ in enumerate(drawn))
    wide = rng.choice((1, 1, 1, 2, 3)) if partitions is None else partitions
    key_format = "KAFKA" if len(keys) == 1 and rng.random() < 0.4 else "JSON"
    return Source(name, kind, keys, values, wide, key_format, "DELIMITED" if flat else "JSON")


def _items(rng: random.Random, columns: Sequence[Column], prefix: str, count: int) -> list[Item]:
    """Random expressions over the columns."""
    rules = rules_for(None, total=False)
    found: list[Item] = []
    while len(found) < count:
        if rng.random() < 0.2:
            column = rng.choice(columns)
            made: Expr | None = Expr(column.type, column=column.name)
        else:
            made = apply_rule(rng, rng.choice(rules), columns, rng.choice((1, 1, 2, 3)))
        if made is not None:
            found.append(Item(f"{prefix}{len(found)}", made))
    return found


def condition(rng: random.Random, columns: Sequence[Column], chance: float) -> Expr | None:
    """A predicate, or none."""
    if rng.random() > chance:
        return None
    made = expression(rng, "BOOLEAN", columns, rng.choice((1, 2, 3)))
    return made if made is not None and any(made.columns()) else None


def _same(columns: Sequence[Column]) -> tuple[Item, ...]:
    return tuple(Item(column.name, Expr(column.type, column=column.name)) for column in columns)


def _sink(name: str, kind: str, query: Query, like: Source) -> Source:
    assert isinstance(query, Project | Group)
    keys = tuple(item.column for item in query.keys)
    values = tuple(item.column for item in (*query.values, *_exploded(query)))
    return Source(name, kind, keys, values, like.partitions)


def _exploded(query: Query) -> tuple[Item, ...]:
    return query.exploded if isinstance(query, Project) else ()


PLAIN_STATES = ("COUNT(", "SUM(", "MIN(", "MAX(")


def _readable(given: Source, query: Query) -> Source:
    """DELIMITED cannot carry the states of most aggregates."""
    if isinstance(query, Group) and not all(
        one.sql.startswith(PLAIN_STATES) for one in query.aggregates
    ):
        return replace(given, value_format="JSON")
    return given


def _case(sources: Sequence[Source], statements: Sequence[Statement]) -> Case:
    return Case(0, "", tuple(sources), tuple(statements), ())


# ---- kinds --------------------------------------------------------------------------------------


def _copied(values: Sequence[Item], keys: Sequence[Item]) -> tuple[Item, ...]:
    """A key column may be shown a second time only as AS_VALUE."""
    shown = {item.expression.text() for item in keys}
    return tuple(
        replace(item, expression=Expr(item.expression.type, "AS_VALUE({0})", "{0}", (made,)))
        if (made := item.expression).text() in shown
        else item
        for item in values
    )


def project_query(rng: random.Random, given: Source) -> Project:
    """SELECT … FROM … [WHERE …]."""
    keys = _same(given.keys)
    values = _copied(_items(rng, given.columns, "V", rng.randint(1, 5)), keys)
    return Project(given.name, keys, values, condition(rng, given.columns, 0.5))


def partition_query(rng: random.Random, given: Source) -> Project:
    """PARTITION BY one or several expressions."""
    keys = _grouping(rng, given.columns)
    values = _copied(_items(rng, given.columns, "V", rng.randint(1, 4)), keys)
    return Project(given.name, keys, values, condition(rng, given.columns, 0.4), rekeyed=True)


def _grouping(rng: random.Random, columns: Sequence[Column]) -> tuple[Item, ...]:
    """One or two grouping expressions, mostly columns. Of some types nothing else can be made than
    the columns themselves."""
    found: list[Item] = []
    for _ in range(TRIES):
        if len(found) >= (2 if rng.random() < 0.3 else 1):
            return tuple(found)
        type_ = rng.choice(GROUPED)
        fitting = [one for one in columns if one.type == type_]
        if fitting and rng.random() < 0.7:
            made: Expr | None = Expr(type_, column=rng.choice(fitting).name)
        else:
            made = expression(rng, type_, columns, rng.choice((1, 2)))
        if made is None or not any(made.columns()) or _spelt(made) in map(_spelt_item, found):
            continue
        found.append(Item(f"G{len(found)}", made))
    return tuple(found) or (Item("G0", Expr(columns[0].type, column=columns[0].name)),)


def _spelt(made: Expr) -> str:
    return made.text()


def _spelt_item(item: Item) -> str:
    return item.expression.text()


def group_query(
    rng: random.Random, given: Source, *, window: Window | None = None, by_key: bool = False
) -> Group:
    """GROUP BY, over a stream or a table."""
    undo, sessions = given.kind == "TABLE", window is not None and window.kind == "SESSION"
    keys = _grouping(rng, given.columns)
    if by_key or (given.keys and rng.random() < 0.3):
        keys = tuple(
            Item(f"G{number}", Expr(column.type, column=column.name))
            for number, column in enumerate(given.keys)
        )
    unordered = sessions or (given.partitions > 1 and moved(keys, given))
    limited = rng.random() < 0.15
    aggregates = tuple(
        aggregated(rng, f"A{number}", given.columns, undo=undo, merged=unordered, limited=limited)
        for number in range(rng.randint(1, 4))
    )
    values, columns = _over(rng, aggregates)
    having = condition(rng, columns, 0.0 if sessions else 0.3)
    where = condition(rng, given.columns, 0.4)
    final = window is not None and rng.random() < 0.4
    return Group(given.name, keys, aggregates, values, where, having, window, final, limited)


def _over(
    rng: random.Random, aggregates: Sequence[Aggregated]
) -> tuple[tuple[Item, ...], tuple[Column, ...]]:
    """The aggregates as result columns, now and then an expression over them."""
    columns = tuple(Column(one.name, one.type) for one in aggregates)
    plain = [Item(f"V{n}", Expr(one.type, column=one.name)) for n, one in enumerate(columns)]
    if rng.random() < 0.3:
        made = expression(rng, rng.choice(("BIGINT", "INT", "STRING")), columns, 2)
        if made is not None and any(made.columns()):
            plain.append(Item("V9", made))
    return tuple(plain), columns


def window_of(rng: random.Random, kind: str) -> Window:
    """A window whose grace lets some rows be late."""
    size = rng.choice((5, 10, 30, 100))
    advance = rng.choice([step for step in (1, 3, 5, 10, 20) if size / 8 <= step <= size])
    return Window(kind, size, advance if kind == "HOPPING" else size, rng.choice((None, 0, 5, 40)))


def _over_stream(
    make: Callable[[random.Random, Source], Query], kind: str, name: str = "S"
) -> Callable[[random.Random], Case]:
    def made(rng: random.Random) -> Case:
        given = source(rng, name, "TABLE" if name == "T" else "STREAM")
        query = make(rng, given)
        return _case([_readable(given, query)], [Statement(_sink("O", kind, query, given), query)])

    return made


def _windowed(kind: str) -> Callable[[random.Random], Case]:
    def made(rng: random.Random) -> Case:
        given = source(rng, "S", "STREAM")
        by_key = given.partitions > 1
        if by_key and not given.keys:
            given = replace(given, partitions=1)
            by_key = False
        query = group_query(rng, given, window=window_of(rng, kind), by_key=by_key)
        readable = _readable(given, query)
        return _case([readable], [Statement(_sink("O", "TABLE", query, given), query)])

    return made


def _explode(rng: random.Random) -> Case:
    given = source(rng, "S", "STREAM")
    arrays = tuple(Column(f"X{n}", rng.choice((INTS, STRINGS))) for n in range(rng.randint(1, 2)))
    given = replace(given, values=(*given.values, *arrays), value_format="JSON")
    exploded = tuple(
        Item(f"E{n}", Expr(column.type[6:-1], "EXPLODE({0})", "{0}", (_column(column),)))
        for n, column in enumerate(arrays)
    )
    query = replace(project_query(rng, given), exploded=exploded)
    return _case([given], [Statement(_sink("O", "STREAM", query, given), query)])


def _column(column: Column) -> Expr:
    return Expr(column.type, column=column.name)


def _chain(rng: random.Random) -> Case:
    """Two queries, the second over what the first writes."""
    given = source(rng, "S", rng.choice(("STREAM", "STREAM", "TABLE")), partitions=1)
    if given.kind == "TABLE":
        first: Query = rng.choice((project_query, group_query))(rng, given)
    else:
        first = rng.choice((project_query, partition_query, group_query))(rng, given)
    kind = "TABLE" if isinstance(first, Group) else given.kind
    middle = _sink("M", kind, first, given)
    if kind == "TABLE":
        second: Query = rng.choice((project_query, group_query))(rng, middle)
    else:
        second = rng.choice((project_query, group_query))(rng, middle)
    last = _sink("O", "TABLE" if isinstance(second, Group) else kind, second, middle)
    return _case([_readable(given, first)], [Statement(middle, first), Statement(last, second)])


def _join(name: str) -> Callable[[random.Random], Case]:
    return lambda rng: JOINS[name](rng, source, condition)


MAKERS: Mapping[str, Callable[[random.Random], Case]] = {
    "project": _over_stream(project_query, "STREAM"),
    "partition": _over_stream(partition_query, "STREAM"),
    "table": _over_stream(project_query, "TABLE", "T"),
    "group": _over_stream(group_query, "TABLE"),
    "group_table": _over_stream(group_query, "TABLE", "T"),
    "tumbling": _windowed("TUMBLING"),
    "hopping": _windowed("HOPPING"),
    "session": _windowed("SESSION"),
    "sliding": _windowed("SLIDING"),
    "explode": _explode,
    **{name: _join(name) for name in JOINS},
    "chain": _chain,
}
KINDS = tuple(MAKERS)
"""The kinds that are drawn."""
