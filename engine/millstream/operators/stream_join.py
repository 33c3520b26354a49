"""Stream-stream joins: the pairs of rows that are near in time, and rows that stay alone.

Steps: put the rows of both sides into one order of arrival (`arrivals`); join the new rows of each
side with the older rows of the other one, be they stored or new; find new rows without a match,
which leave padded at once or wait; release the waiting rows whose time has passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from millstream.model.batch import DIFF, HEADERS, PART, ROWTIME, SEQ
from millstream.model.physical import duckdb_type
from millstream.operators import arrivals
from millstream.operators.program import Call, Sql, StateTable, Step, Upsert
from millstream.operators.relation import ORIGIN, PRESENT, Part, Setting, names, nested, quoted
from millstream.operators.sql import identifier
from millstream.operators.versions import key_names
from millstream.plan.nodes import JoinKind, StreamStreamJoin, Within

P, SQ, RT, DF = (identifier(name) for name in (PART, SEQ, ROWTIME, DIFF))
ARRIVAL = identifier(arrivals.ARRIVAL)
BUCKET = '"$bucket"'
"""Rows that are near in time are in the same or in neighbouring buckets: without them every row of
a busy key would be compared with all rows kept of it."""
_DAY_MS = 24 * 60 * 60 * 1000
_ORDER = (ARRIVAL, '"$matched"', '"$near"', '"$earlier"')
"""What a row causes: first the releases, then its pairs, each by the time of the other row."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One input. Its rows match rows of the other one from `back` before to `ahead` after them;
    `outer`: rows without a match count."""

    name: str
    alias: str
    given: Part
    back: int
    ahead: int
    outer: bool

    @property
    def keys(self) -> tuple[str, ...]:
        """The quoted key columns."""
        return key_names(self.given.schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """All quoted columns."""
        return quoted(names(self.given.schema))


@dataclass(frozen=True, slots=True)
class _Join:
    """What the texts are made from."""

    node: StreamStreamJoin
    label: str
    left: _Side
    right: _Side
    retention: int
    headers: bool

    @property
    def waits(self) -> bool:
        """Whether rows of an outer side are held back."""
        return self.node.within.grace_ms is not None and (self.left.outer or self.right.outer)

    def name(self, suffix: str) -> str:
        """The quoted name of one of the relations."""
        return identifier(f"{self.label}_{suffix}")

    def rows(self, side: _Side) -> str:
        """The quoted name of the new rows of a side."""
        return self.name(f"{side.name}_rows")

    @property
    def sides(self) -> tuple[tuple[_Side, _Side], ...]:
        """Each side with the other one."""
        return ((self.left, self.right), (self.right, self.left))

    @property
    def tail(self) -> tuple[str, ...]:
        """The headers column, where there is one."""
        return (identifier(HEADERS),) if self.headers else ()


def compile_stream_stream_join(
    node: StreamStreamJoin, left: Part, right: Part, label: str, setting: Setting
) -> Part:
    """Every pair goes with the later of its two rows. Rows without a value or key are dropped."""
    join = _join(node, nested(left, setting), nested(right, setting), label, setting)
    pairs = "\nUNION ALL\n".join(_pairs_text(join, x, y) for x, y in join.sides)
    outer = tuple(x for x, _ in join.sides if x.outer)
    steps: tuple[Step, ...] = (*_arriving(join), Sql(f"{label}_pairs", pairs))
    selects = [f"SELECT * FROM {join.name('pairs')}"]
    writes: tuple[Step, ...] = ()
    tables: tuple[StateTable, ...] = ()
    if outer:
        steps = (*steps, Sql(f"{label}_alone", _alone_text(join, outer)))
        selects += [_padded_text(join, x) for x in outer]
    if join.waits:
        steps = (*steps, *_waiting(join))
        selects += [_released_text(join, x) for x in outer]
        writes = (Upsert(f"{label}_waiting", f"{label}_waiting_new"),)
        tables = (_waiting_table(join),)
    result = "\n  UNION ALL\n".join(selects)
    source = f"(\n  {result}\n)" if outer else join.name("pairs")
    ordered = f"row_number() OVER (ORDER BY {', '.join(_ORDER)}) - 1"
    return Part(
        schema=node.schema,
        source=source,
        meta=((SQ, ordered),),
        steps=(*left.steps, *right.steps, *steps),
        writes=(*left.writes, *right.writes, *_writes(join), *writes),
        tables=(*left.tables, *right.tables, *_tables(join), *tables),
        late=(*left.late, *right.late, f"{label}_clock_new"),
        problems=(*left.problems, *right.problems),
        upkeep=(*left.upkeep, *right.upkeep, *_upkeep(join)),
        traced=False,
        origin=ORIGIN,
    )


def _join(node: StreamStreamJoin, left: Part, right: Part, label: str, setting: Setting) -> _Join:
    before, after = node.within.before_ms, node.within.after_ms
    kind = node.join
    return _Join(
        node,
        label,
        _Side("left", "l", left, before, after, kind in (JoinKind.LEFT, JoinKind.FULL)),
        _Side("right", "r", right, after, before, kind in (JoinKind.RIGHT, JoinKind.FULL)),
        _retention(node.within),
        setting.headers,
    )


def _retention(within: Within) -> int:
    """For how long a side's rows are kept, counted from its newest one."""
    size = within.before_ms + within.after_ms
    return max(size, _DAY_MS) if within.grace_ms is None else size + within.grace_ms


def _bucket(join: _Join, time: str) -> str:
    return f"{time} // {max(join.node.within.before_ms + join.node.within.after_ms, 1)}"


# ---- rows as they come --------------------------------------------------------------------------


def _arriving(join: _Join) -> Iterator[Step]:
    label = join.label
    left, right = inputs = (f"{label}_left_input", f"{label}_right_input")
    rows = (f"{label}_left_rows", f"{label}_right_rows")
    clock, stored, line = f"{label}_clock", f"{label}_clock_stored", f"{label}_line"
    for (side, _), name in zip(join.sides, inputs, strict=True):
        yield Sql(name, _input_text(join, side))
    yield Sql(stored, f"SELECT * FROM {identifier(clock)}")
    ordered = arrivals.timeline(left, right, stored, join.retention)
    yield Call(line, "arrivals", ordered, (*inputs, stored))
    for which, (name, target) in enumerate(zip(inputs, rows, strict=True)):
        yield Call(target, "placed", arrivals.placed(name, line, which), (name, line))
        yield Call(f"{target}_kept", "kept", arrivals.kept(target), (target,))
    yield Call(f"{clock}_new", "clock", arrivals.clock_after(line), (line,))
    if join.waits:
        risen = arrivals.moments(left, right, line)
        yield Call(f"{label}_moments", "moments", risen, (*inputs, line))


def _input_text(join: _Join, side: _Side) -> str:
    part = side.given
    checks = (PRESENT, f"{RT} >= 0", *(f"{name} IS NOT NULL" for name in side.keys))
    where = " AND ".join(dict.fromkeys((*part.where, *checks)))
    origin = part.origin or SQ
    listed = [P, *side.columns, RT, SQ, f"{origin} AS {ORIGIN}", *join.tail]
    bucket = f"{_bucket(join, RT)} AS {BUCKET}"
    return f"SELECT {', '.join((*listed, bucket))}\nFROM {part.source}\nWHERE {where}"


def _tables(join: _Join) -> tuple[StateTable, ...]:
    clock = StateTable(
        f"{join.label}_clock", (), tuple((name, "BIGINT") for name in arrivals.CLOCK), plain=True
    )
    return (*(_buffer(join, side) for side, _ in join.sides), clock)


def _buffer(join: _Join, side: _Side) -> StateTable:
    schema = side.given.schema
    columns = [
        (name, duckdb_type(column.type))
        for column, name in zip(schema.columns, names(schema), strict=True)
    ]
    key = ((arrivals.ARRIVAL, "BIGINT"),)
    return StateTable(f"{join.label}_{side.name}", key, (*columns, ("$bucket", "BIGINT")))


def _waiting_table(join: _Join) -> StateTable:
    """The rows of outer sides that have no match and whose windows are open."""
    key = ((arrivals.ARRIVAL, "BIGINT"),)
    return StateTable(f"{join.label}_waiting", key, (("$side", "VARCHAR"),))


def _writes(join: _Join) -> tuple[Step, ...]:
    label = join.label
    buffers = (
        Upsert(f"{label}_{side.name}", f"{label}_{side.name}_rows_kept") for side, _ in join.sides
    )
    return (*buffers, Upsert(f"{label}_clock", f"{label}_clock_new"))


def _upkeep(join: _Join) -> tuple[str, ...]:
    clock = join.name("clock")
    return tuple(
        f"DELETE FROM {join.name(side.name)} t USING {clock} c\n"
        f"WHERE t.{P} = c.{P} AND t.{RT} < c.{identifier(side.name)} - {join.retention}"
        for side, _ in join.sides
    )


# ---- results ------------------------------------------------------------------------------------


def _columns(join: _Join, present: Iterable[_Side]) -> tuple[str, ...]:
    """Where each column of the result comes from when these sides are there: by name, the key from
    the first one."""
    sides = tuple(present)
    found = {
        name: f"{side.alias}.{text}"
        for side in reversed(sides)
        for name, text in zip(side.given.schema.names, side.columns, strict=True)
    }
    keys = zip(join.node.schema.key, sides[0].keys, strict=False)
    found |= {column.name: f"{sides[0].alias}.{key}" for column, key in keys}
    return tuple(
        f"{found.get(name, 'NULL')} AS {target}"
        for name, target in zip(
            join.node.schema.names, quoted(names(join.node.schema)), strict=True
        )
    )


def _select(
    join: _Join, present: Iterable[_Side], by: str, rowtime: str, order: tuple[str, ...]
) -> str:
    """One result row; `by`: the row that causes it, `order`: texts for `_ORDER`."""
    further = [f"{by}.{P}", f"{by}.{ORIGIN}", f"{rowtime} AS {RT}", f"1::TINYINT AS {DF}"]
    further += [f"{by}.{name}" for name in join.tail]
    further += [f"{text} AS {name}" for text, name in zip(order, _ORDER, strict=True)]
    return f"SELECT {', '.join((*_columns(join, present), *further))}"


def _pairs_text(join: _Join, late: _Side, early: _Side) -> str:
    """The new rows of one side with older rows of the other."""
    x, y = late.alias, early.alias
    first = _bucket(join, f"greatest({RT} - {late.back}, 0)")
    last = _bucket(join, f"({RT} + {late.ahead})")
    spread = (
        f"(SELECT * EXCLUDE ({BUCKET}), unnest(range({first}, {last} + 1)) AS {BUCKET} "
        f"FROM {join.rows(late)})"
    )
    same = [f"{x}.{name} = {y}.{name}" for name in (P, BUCKET)]
    same += [f"{x}.{a} = {y}.{b}" for a, b in zip(late.keys, early.keys, strict=True)]
    near = [
        f"{y}.{RT} >= {x}.{RT} - {late.back}",
        f"{y}.{RT} <= {x}.{RT} + {late.ahead}",
        f'{y}.{RT} >= {x}."$low"',
        f"{y}.{ARRIVAL} < {x}.{ARRIVAL}",
    ]
    order = (f"{x}.{ARRIVAL}", "TRUE", f"{y}.{RT}", f"{y}.{ARRIVAL}")
    later = f"greatest({x}.{RT}, {y}.{RT})"
    return (
        f"{_select(join, (join.left, join.right), x, later, order)}\n"
        f"FROM {spread} {x}\nJOIN {_known(join, early)} {y}\n"
        f"ON {' AND '.join((*same, *near))}"
    )


def _known(join: _Join, side: _Side) -> str:
    """The rows of a side, stored and new."""
    listed = ", ".join((P, *side.columns, RT, ARRIVAL, BUCKET))
    return (
        f"(SELECT {listed} FROM {join.name(side.name)}\n"
        f"  UNION ALL SELECT {listed} FROM {join.rows(side)})"
    )


def _alone_text(join: _Join, outer: Iterable[_Side]) -> str:
    """New rows of outer sides that find no match; `$open`: they may wait for one."""
    pairs = join.name("pairs")
    waits = "FALSE"
    if join.waits:
        waits = 'x.{time} + {ahead} >= x."$time"'
    return "\nUNION ALL\n".join(
        f"SELECT {P}, '{side.name}' AS \"$side\", {ARRIVAL}, {RT}, "
        f'{waits.format(time=RT, ahead=side.ahead)} AS "$open"\nFROM {join.rows(side)} x\n'
        f"WHERE NOT EXISTS (FROM {pairs} p WHERE p.{P} = x.{P} AND p.{ARRIVAL} = x.{ARRIVAL})"
        for side in outer
    )


def _padded_text(join: _Join, side: _Side) -> str:
    """Rows without a match that leave when they come."""
    x = side.alias
    order = (f"{x}.{ARRIVAL}", "TRUE", f"{x}.{RT}", f"{x}.{ARRIVAL}")
    return (
        f"{_select(join, (side,), x, f'{x}.{RT}', order)}\n  FROM {join.rows(side)} {x}\n"
        f'  SEMI JOIN (FROM {join.name("alone")} WHERE NOT "$open") USING ({P}, {ARRIVAL})'
    )


# ---- rows that wait -----------------------------------------------------------------------------


def _waiting(join: _Join) -> tuple[Step, ...]:
    """`fate`: the rows that wait, with the arrival that ends it: of a match, or of the row with
    which stream time passes the end of the window and the grace period (`$at`)."""
    ahead = f"CASE \"$side\" WHEN 'left' THEN {join.left.ahead} ELSE {join.right.ahead} END"
    listed = f'{P}, "$side", {ARRIVAL}, {RT}'
    waiting = (
        f'SELECT *, {RT} + {ahead} + {join.node.within.grace_ms} AS "$close" FROM (\n'
        f'    SELECT {listed}, TRUE AS "$stored" FROM {join.name("waiting")}\n'
        f'    UNION ALL SELECT {listed}, FALSE FROM {join.name("alone")} WHERE "$open")'
    )
    matched = (
        f'SELECT {P}, "$earlier", min({ARRIVAL}) AS "$first"\n'
        f"    FROM {join.name('pairs')} GROUP BY ALL"
    )
    released = f'm."$first" IS NULL OR y.{ARRIVAL} <= m."$first"'
    tail = "".join(f", y.{name}" for name in join.tail)
    fate = (
        f'SELECT w.{P}, w."$side", w.{ARRIVAL}, w.{RT}, w."$stored", y.{ORIGIN}{tail},\n'
        f'  CASE WHEN {released} THEN y.{ARRIVAL} END AS "$at",\n'
        f'  y.{ARRIVAL} IS NOT NULL OR m."$first" IS NOT NULL AS "$deleted"\n'
        f"FROM (\n  {waiting}\n) w\n"
        f'ASOF LEFT JOIN {join.name("moments")} y ON w.{P} = y.{P} AND w."$close" < y."$time"\n'
        f'LEFT JOIN (\n    {matched}\n) m ON w.{P} = m.{P} AND w.{ARRIVAL} = m."$earlier"'
    )
    changed = f'SELECT * FROM {join.name("fate")} WHERE "$stored" = "$deleted"'
    return (Sql(f"{join.label}_fate", fate), Sql(f"{join.label}_waiting_new", changed))


def _released_text(join: _Join, side: _Side) -> str:
    """Rows that have waited in vain."""
    x = side.alias
    order = ('f."$at"', "FALSE", f"{x}.{RT}", f"{x}.{ARRIVAL}")
    return (
        f"{_select(join, (side,), 'f', f'{x}.{RT}', order)}\n"
        f"  FROM {join.name('fate')} f JOIN {_known(join, side)} {x}\n"
        f'  ON f."$at" IS NOT NULL AND f.{P} = {x}.{P} AND f.{ARRIVAL} = {x}.{ARRIVAL}'
    )
