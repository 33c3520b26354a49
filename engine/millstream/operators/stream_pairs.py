"""The pairs of a stream-stream join: new rows of each side with older rows of the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from millstream.model.batch import DIFF, PART, ROWTIME
from millstream.operators import arrival_sequence
from millstream.operators.relation import ORIGIN, SelectFragment, names, quoted
from millstream.operators.sql import identifier
from millstream.operators.versions import key_names
from millstream.plan.nodes import StreamStreamJoin

P, RT, DF = (identifier(name) for name in (PART, ROWTIME, DIFF))
ARRIVAL = identifier(arrival_sequence.ARRIVAL)
BUCKET = '"$bucket"'
"""Rows that are near in time are in the same or in neighbouring buckets. Without buckets every row
of a busy key would be compared with all its stored rows."""
ORDER = (ARRIVAL, '"$matched"', '"$near"', '"$earlier"')
"""The output of a row: first the releases, then its pairs, each by the time of the other row."""


@dataclass(frozen=True, slots=True)
class Side:
    """One input. Its rows match rows of the other one from `back` before to `ahead` after them;
    `outer`: rows without a match are emitted."""

    name: str
    alias: str
    given: SelectFragment
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
class Join:
    """The names that the texts are made from. `closing`: see `closing.py`."""

    node: StreamStreamJoin
    label: str
    left: Side
    right: Side
    retention: int
    carried: tuple[str, ...]
    closing: bool

    @property
    def waits(self) -> bool:
        """Whether rows of an outer side are held back."""
        return self.node.within.grace_ms is not None and (self.left.outer or self.right.outer)

    def name(self, suffix: str) -> str:
        """The quoted name of one of the relations."""
        return identifier(f"{self.label}_{suffix}")

    def rows(self, side: Side) -> str:
        """The quoted name of the new rows of a side."""
        return self.name(f"{side.name}_rows")

    @property
    def sides(self) -> tuple[tuple[Side, Side], ...]:
        """Each side with the other one."""
        return ((self.left, self.right), (self.right, self.left))

    @property
    def tail(self) -> tuple[str, ...]:
        """The quoted columns that a pair carries of the row that causes it."""
        return quoted(self.carried)


def bucket(join: Join, time: str) -> str:
    """The number of the bucket that a time falls into."""
    return f"{time} // {max(join.node.within.before_ms + join.node.within.after_ms, 1)}"


def _columns(join: Join, present: Iterable[Side]) -> tuple[str, ...]:
    """The origin of each column of the result when these sides are present: by name, the key from
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


def select(
    join: Join, present: Iterable[Side], by: str, rowtime: str, order: tuple[str, ...]
) -> str:
    """One result row; `by`: the row that causes it, `order`: texts for `ORDER`."""
    further = [f"{by}.{P}", f"{by}.{ORIGIN}", f"{rowtime} AS {RT}", f"1::TINYINT AS {DF}"]
    further += [f"{by}.{name}" for name in join.tail]
    further += [f"{text} AS {name}" for text, name in zip(order, ORDER, strict=True)]
    return f"SELECT {', '.join((*_columns(join, present), *further))}"


def pairs_text(join: Join, late: Side, early: Side) -> str:
    """The new rows of one side with older rows of the other."""
    x, y = late.alias, early.alias
    first = bucket(join, f"greatest({RT} - {late.back}, 0)")
    last = bucket(join, f"({RT} + {late.ahead})")
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
        f"{select(join, (join.left, join.right), x, later, order)}\n"
        f"FROM {spread} {x}\nJOIN {known(join, early)} {y}\n"
        f"ON {' AND '.join((*same, *near))}"
    )


def known(join: Join, side: Side) -> str:
    """The rows of a side, stored and new."""
    listed = ", ".join((P, *side.columns, RT, ARRIVAL, BUCKET))
    return (
        f"(SELECT {listed} FROM {join.name(side.name)}\n"
        f"  UNION ALL SELECT {listed} FROM {join.rows(side)})"
    )
