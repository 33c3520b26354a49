"""WINDOWSTART and WINDOWEND: where a query may name them, of which side, and what is said if not.

The rule (reference sql-statements §4, §8, §10; RUNNER.md 11.1 and 11.5): bounds are columns of
windowed sources, of each side of a join, in every clause; unqualified they are ambiguous where both
sides have them, and a persistent query renames them. Over other sources they exist in the SELECT
list of a windowed aggregation alone, of no alias but the first, outside of aggregates. Windowed
rows stay on their partition: a join on a bound, and PARTITION BY, would move them.

`outcome` implements this for each clause, source and way of naming a bound, independently of the
engine.
"""

from __future__ import annotations

from itertools import product

import pytest

from millstream.model.errors import StatementError
from tests.unit.plan.planning import planned

FROM = {
    "one windowed": "hop l",
    "one": "s l",
    "both windowed": "hop l JOIN hop4 r WITHIN 1 HOUR ON l.k = r.k",
    "both": "s l JOIN line r WITHIN 1 HOUR ON l.k = r.k",
}
CLAUSES = {
    "SELECT": "SELECT l.k AS k, {} AS x FROM {}",
    "SELECT, expression": "SELECT l.k AS k, ABS({} / 2) AS x FROM {}",
    "SELECT, bare": "SELECT l.k AS k, {} FROM {}",
    "SELECT, reserved alias": "SELECT l.k AS k, {} AS rowtime FROM {}",
    "WHERE": "SELECT l.k AS k, l.v AS v FROM {1} WHERE {0} > 1",
    "GROUP BY": "SELECT l.k AS k, {0} AS x, COUNT(*) AS c FROM {1} GROUP BY l.k, {0}",
    "aggregate": "SELECT l.k AS k, MAX({}) AS x FROM {} GROUP BY l.k",
    "HAVING": "SELECT l.k AS k, COUNT(*) AS c FROM {1} GROUP BY l.k HAVING MAX({0}) > 1",
    "PARTITION BY": "SELECT {0} AS x, l.k AS k FROM {1} PARTITION BY {0}",
}
MOVED = "Implicit repartitioning of windowed sources is not supported."


def outcome(clause: str, source: str, side: str, bound: str) -> str | None:
    """What the message holds, None where the query is accepted."""
    windowed, joined = source.endswith("windowed"), source.startswith("both")
    if clause == "SELECT, reserved alias":
        return "`ROWTIME` is a reserved column name. You cannot use it as an alias for a column."
    if joined and windowed and not side:
        return f"Column '{bound}' is ambiguous. Could be L.{bound} or R.{bound}."
    if clause == "SELECT, bare" and not (joined and windowed):
        return f"Reserved column name in select: `{bound}`. Please remove or alias the column."
    if not windowed:  # the list is read before the clauses of groups and keys
        where = "WHERE" if clause == "WHERE" else "HAVING" if clause == "HAVING" else "SELECT"
        return f"{where} column '{side}{bound}' cannot be resolved."
    return MOVED if clause == "PARTITION BY" else None


@pytest.mark.parametrize("source", FROM)
@pytest.mark.parametrize("clause", CLAUSES)
def test_sources(clause: str, source: str) -> None:
    sides = ("", "L.", "R.") if source.startswith("both") else ("", "L.")
    for side, bound in product(sides, ("WINDOWSTART", "WINDOWEND")):
        kind = "TABLE" if "GROUP BY" in CLAUSES[clause] else "STREAM"
        query = CLAUSES[clause].format(side + bound, FROM[source])
        message = outcome(clause, source, side, bound)
        if message is None:
            schema = planned(f"CREATE {kind} o AS {query};").node.schema
            shown = f"{side[0]}_{bound}" if clause == "SELECT, bare" else "X"
            assert (shown in schema.names) == ("x" in query or clause == "SELECT, bare"), query
            continue
        with pytest.raises(StatementError) as caught:
            planned(f"CREATE {kind} o AS {query};")
        assert message in caught.value.message, query


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("SELECT l.k AS k, {} AS x, COUNT(*) AS c FROM {} WINDOW {} GROUP BY l.k", None),
        ("SELECT l.k AS k, {} / 2 + COUNT(*) AS x FROM {} WINDOW {} GROUP BY l.k", None),
        ("SELECT l.k AS k, MAX({}) AS x FROM {} WINDOW {} GROUP BY l.k", "{column}"),
        ("SELECT l.k AS k, COUNT(*) AS x FROM {1} WINDOW {2} GROUP BY l.k, {0}", "{column}"),
        ("SELECT l.k AS k, COUNT(*) AS x FROM {1} WINDOW {2} GROUP BY l.k, ABS({0})", "{column}"),
        ("SELECT l.k AS k, COUNT(*) AS x FROM {1} WINDOW {2} GROUP BY l.k HAVING {0} > 1",
         "{column}"),
        ("SELECT l.k AS k, COUNT(*) AS x FROM {1} WINDOW {2} WHERE {0} > 1 GROUP BY l.k",
         "Error in WHERE expression: Unknown column {bound}."),
        ("SELECT l.k AS k, {} AS x FROM {} WINDOW {}", "WINDOW clause requires a GROUP BY clause."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("source", ["one", "both"])
def test_windowed_aggregations(clause: str, message: str | None, source: str) -> None:
    only = (
        "Window bounds column {bound} can only be used in the SELECT clause of windowed "
        "aggregations and can not be passed to aggregate functions.\n"
        "See https://github.com/confluentinc/ksql/issues/4397"
    )
    for side, bound in product(("", "L."), ("WINDOWSTART", "WINDOWEND")):
        query = clause.format(side + bound, FROM[source], "TUMBLING (SIZE 1 SECOND)")
        sql = f"CREATE TABLE o AS {query};"
        if message is None:
            planned(sql)
            continue
        with pytest.raises(StatementError) as caught:
            planned(sql)
        expected = message.replace("{column}", only).format(bound=bound)
        assert expected in caught.value.message, query


@pytest.mark.parametrize("kind", ["", "LEFT ", "RIGHT ", "FULL "])
@pytest.mark.parametrize("bound", ["WINDOWSTART", "WINDOWEND"])
def test_joins_on_bounds(kind: str, bound: str) -> None:
    sql = f"CREATE STREAM o AS SELECT * FROM {{}} l {kind}JOIN {{}} r WITHIN 1 HOUR ON {{}};"
    for condition in (f"l.{bound} = r.{bound}", f"l.{bound} + 1 = r.{bound} + 1"):
        with pytest.raises(StatementError, match=MOVED):
            planned(sql.format("hop", "hop4", condition))
        with pytest.raises(StatementError, match=f"JOIN ON column 'L.{bound}' cannot be resolved"):
            planned(sql.format("s", "hop", condition))
        with pytest.raises(StatementError, match=f"JOIN ON column 'R.{bound}' cannot be resolved"):
            planned(sql.format("hop", "s", condition))
