"""Sliding windows: each row to the windows around it, with the earlier rows of new windows.

Steps: number the rows, and leave out those that are too late for any window; fetch the stored rows
of their keys; decide which row goes into which window (`sliding_plan`); join the rows to that. What
follows is an aggregation like any other by key and start of a window, in the order of arrival.
"""

from __future__ import annotations

from dataclasses import dataclass

from millstream.model.batch import DIFF, PART, ROWTIME, SEQ
from millstream.model.physical import duckdb_type
from millstream.operators.accumulators import Accumulator
from millstream.operators.grouping import END, START
from millstream.operators.program import Call, Expiry, Sql, StateTable, Step, Upsert
from millstream.operators.relation import quoted
from millstream.operators.sliding_plan import ARRIVAL, PAIRS, sliding_plan
from millstream.operators.sql import identifier

AT = '"$at"'
"""The number of the row whose arrival changes the result of a window; NULL for rows that were there
before the window was."""
P, SQ, RT, DF = (identifier(name) for name in (PART, SEQ, ROWTIME, DIFF))
A = identifier(ARRIVAL)
_NONE = ", ".join(f"NULL::BIGINT AS {name}" for name in quoted(PAIRS.names))
_SHOWN = f"SELECT {_NONE} WHERE FALSE"


@dataclass(frozen=True, slots=True)
class Sliding:
    """The names that the texts are made from. `keys`: the state columns of the key, with their
    types; `carried`: quoted columns that a result has from the row that changes it."""

    label: str
    keys: tuple[tuple[str, str], ...]
    items: tuple[Accumulator, ...]
    size: int
    grace: int
    carried: tuple[str, ...]

    def name(self, suffix: str) -> str:
        """The quoted name of one of the relations."""
        return identifier(f"{self.label}_{suffix}")

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The columns of the key and of the arguments of all aggregates, with their types."""
        arguments = (
            (name, duckdb_type(argument.type))
            for item in self.items
            for name, argument in zip(item.arguments, item.call.arguments, strict=True)
        )
        return (*self.keys, *arguments)

    @property
    def kept(self) -> tuple[str, ...]:
        """The quoted columns of a row that its windows need."""
        return (P, *quoted(name for name, _ in self.columns), RT)


def sliding_steps(sliding: Sliding) -> tuple[Step, ...]:
    """From the timed rows to the pairs of rows and windows."""
    label = sliding.label
    rows, near, pairs = f"{label}_kept", f"{label}_near", f"{label}_pairs"
    return (
        Sql(rows, _rows_text(sliding)),
        Sql(near, _near_text(sliding)),
        Call(
            pairs,
            f"sliding_plan(size {sliding.size} ms, grace {sliding.grace} ms)",
            sliding_plan(rows, near, sliding.size, sliding.grace),
            (rows, near),
            _SHOWN,
            stub=True,
        ),
        Sql(
            f"{label}_arrivals_new",
            f'SELECT {P}, max({A}) AS "count"\nFROM {sliding.name("kept")}\nGROUP BY {P}',
        ),
    )


def paired_rows(sliding: Sliding) -> str:
    """The rows to aggregate, as a subquery: in the order of arrival, each once for each window that
    it is added to."""
    listed = [f"b.{name}" for name in sliding.kept]
    listed += [f"b.{A} AS {SQ}", f"1::TINYINT AS {DF}", f"p.{AT}"]
    listed += [f"p.{START}", f"p.{START} + {sliding.size} AS {END}"]
    listed += [f"c.{name}" for name in sliding.carried]
    columns = ", ".join((*sliding.kept, A))
    both = " UNION ALL ".join(
        f'SELECT "$group", {columns} FROM {sliding.name(name)}' for name in ("kept", "near")
    )
    return (
        f"(\n  SELECT {', '.join(listed)}\n  FROM {sliding.name('pairs')} p\n"
        f'  JOIN ({both}) b USING ("$group", {A})\n'
        f"  LEFT JOIN {sliding.name('kept')} c ON c.{SQ} = p.{AT}\n)"
    )


def sliding_writes(sliding: Sliding) -> tuple[Upsert, ...]:
    """What is stored besides windows and their clock."""
    label = sliding.label
    return (
        Upsert(f"{label}_recent", f"{label}_kept", fresh=True),
        Upsert(f"{label}_arrivals", f"{label}_arrivals_new"),
    )


def sliding_tables(sliding: Sliding) -> tuple[StateTable, ...]:
    """The rows that later windows may need, and how many rows have come."""
    label, arrival = sliding.label, ((ARRIVAL, "BIGINT"),)
    # No open window can have a row that is older.
    expiry = Expiry(ROWTIME, f"{label}_clock", "time", sliding.grace + sliding.size + 1)
    return (
        StateTable(f"{label}_recent", arrival, sliding.columns, appended=True, expiry=expiry),
        StateTable(f"{label}_arrivals", (), (("count", "BIGINT"),), plain=True),
    )


def too_late(sliding: Sliding) -> str:
    """Whether a row can be in no open window, not even in the one right behind it."""
    return f'{RT} + {sliding.size + 1 + sliding.grace} < "$time"'


def _rows_text(sliding: Sliding) -> str:
    keys = quoted(name for name, _ in sliding.keys)
    group = f"dense_rank() OVER (ORDER BY {', '.join((P, *keys))}) - 1"
    arrival = f'coalesce(c."count", 0) + row_number() OVER (PARTITION BY t.{P} ORDER BY {SQ})'
    return (
        f'SELECT t.*, {group} AS "$group", {arrival} AS {A}\n'
        f"FROM {sliding.name('timed')} t LEFT JOIN {sliding.name('arrivals')} c USING ({P})\n"
        f"WHERE NOT ({too_late(sliding)})\nORDER BY {SQ}"
    )


def _near_text(sliding: Sliding) -> str:
    keys = quoted(name for name, _ in sliding.keys)
    same = " AND ".join(f"r.{name} IS NOT DISTINCT FROM g.{name}" for name in (P, *keys))
    listed = ", ".join(f"r.{name}" for name in (*sliding.kept, A))
    return (
        f'SELECT g."$group", {listed}\n'
        f'FROM (SELECT DISTINCT "$group", {", ".join((P, *keys))} FROM {sliding.name("kept")}) g\n'
        f"JOIN {sliding.name('recent')} r ON {same}\n"
        f"WHERE r.{RT} >= (SELECT min({RT}) FROM {sliding.name('kept')}) - {sliding.size + 1}"
    )
