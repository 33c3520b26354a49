"""JOIN: which chains can be joined, and where their filters go."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from millstream.dsl.expressions import Expr, condition
from millstream.dsl.inlining import ALL, qualified
from millstream.dsl.queries import conjunction
from millstream.dsl.windows import Length, duration, optional
from millstream.model.errors import StatementError
from millstream_parser import statements as s

Within = Length | tuple[Length, Length]
"""How far two records of a join may be apart; as a pair, how much earlier and later the other one
may be."""
_CUT = "Write that side into a stream or table of its own with .through('a name'), and join it."


def joined(
    kind: str, left: s.Query, right: s.Query, on: Expr, within: s.Within | None = None
) -> s.Query:
    """The query of a join. A filter of one side becomes part of WHERE, which is behind the join, so
    it is refused where that is something else."""
    for query in (left, right):
        if query.items != ALL or query.partition_by:
            raise _refused(query, "select and select_key come behind a join")
    if right.joins:
        raise _refused(right, "what is joined to a query is one source")
    if right.where is not None and kind != "INNER":
        raise _refused(right, f"a filter of it cannot be behind a {_shown(kind)} join")
    if left.where is not None and kind == "FULL":
        raise _refused(left, f"a filter of it cannot be behind a {_shown(kind)} join")
    name = name_of(right.source)
    if name in (name_of(left.source), *(name_of(join.source) for join in left.joins)):
        raise StatementError(
            f"{name} is joined twice", hint=f"Give one of them an alias: .alias('{name[0]}2')."
        )
    where = left.where
    if where is not None and not left.joins:
        where = qualified(where, name_of(left.source))
    if right.where is not None:
        where = conjunction(where, qualified(right.where, name))
    join = s.Join(kind, right.source, _condition(on), within)
    return replace(left, joins=(*left.joins, join), where=where)


def within_of(within: Within, grace: Length | None) -> s.Within:
    """The WITHIN clause."""
    pair = within if isinstance(within, tuple) else (within, within)
    if len(pair) != 2:
        raise ValueError(f"within is a length of time or a pair of them, not {within!r}")
    before, after = (duration(length, zero=True) for length in pair)
    return s.Within(before, after, optional(grace, zero=True))


def name_of(source: s.AliasedSource) -> str:
    """The name by which columns refer to a source."""
    return source.alias or source.name


def _condition(on: Expr) -> exp.Expression:
    if isinstance(on, bool):
        raise TypeError(
            "on is a comparison of expressions, such as orders['customer'] == customers['id'],"
            f" not {on}"
        )
    return condition(on, "on")


def _shown(kind: str) -> str:
    return {"LEFT": "left", "FULL": "full outer"}[kind]


def _refused(query: s.Query, why: str) -> StatementError:
    return StatementError(f"{name_of(query.source)} cannot be joined: {why}", hint=_CUT)
