"""Joins of tables: what each change of either side brings, however the batch is cut."""

from __future__ import annotations

import pytest

from millstream.catalog.source import Format, Source
from millstream.executor.executor import DuckDBExecutor
from millstream.functions.catalogue import builtin_catalogue
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.types import STRING
from millstream.plan.nodes import JoinKind, Node, Read, TableTableJoin, Write
from millstream.state.store import Store
from millstream.testing.drawn import fetched, lines, raw, shown
from millstream.topology.topology import SourceInput, SubTopology

KAFKA, JSON = Format("KAFKA"), Format("JSON")
K = Column("K", STRING, Role.KEY)


def table(name: str, *, materialised: bool = False) -> Read:
    schema = Schema((K, Column(name, STRING)))
    source = Source(name, SourceKind.TABLE, schema, name.lower(), KAFKA, JSON)
    return Read(source, "", schema, schema.names, SourceKind.TABLE, materialised)


def joined(left: Node, right: Node, kind: JoinKind) -> TableTableJoin:
    return TableTableJoin(left, right, kind, Schema(left.schema.columns + right.schema.value))


def run(node: Node, reads: tuple[Read, ...], drawn: str, size: int) -> list[str]:
    """The outputs for records drawn as `L + a 1 @1`, `size` of them at a time."""
    inputs = tuple(SourceInput(read, read.source.topic) for read in reads)
    root = Write(node, "O", "o", KAFKA, JSON, None, None)
    taken = {read.source.topic: 0 for read in reads}
    rows = [line.split(maxsplit=1) for line in drawn.splitlines() if line.strip()]
    found: list[str] = []
    with Store.open(":memory:") as store:
        sub = SubTopology(0, inputs, root, 1, "o", "changes")
        executor = DuckDBExecutor(store, "Q", sub, builtin_catalogue())
        executor.open(0)
        for begin in range(0, len(rows), size):
            given = []
            for read in reads:
                topic = read.source.topic
                own = [
                    text for name, text in rows[begin : begin + size] if name == read.source.name
                ]
                batch = raw(lines("\n".join(own)), [read.source.name])
                given.append(fetched(topic, 0, batch, start=taken[topic]))
                taken[topic] += len(own)
            found += shown(executor.run(given).outputs)
        executor.close()
    return found


STORY = """
L + a 1 @1
R + a x @2
R - b @3
L + a 2 @4
R - a @5
L - a @6
L - a @7
R + a y @8
"""
TOLD = {
    JoinKind.INNER: ["+ a 1 x @2", "+ a 2 x @4", "- a @5"],
    JoinKind.LEFT: ["+ a 1 _ @1", "+ a 1 x @2", "+ a 2 x @4", "+ a 2 _ @5", "- a @6"],
    JoinKind.RIGHT: ["+ a 1 x @2", "+ a 2 x @4", "- a @5", "+ a _ y @8"],
    JoinKind.FULL: [
        "+ a 1 _ @1",
        "+ a 1 x @2",
        "+ a 2 x @4",
        "+ a 2 _ @5",
        "- a @6",
        "+ a _ y @8",
    ],
}


@pytest.mark.parametrize("kind", JoinKind)
@pytest.mark.parametrize("size", [1, 3, 8])
def test_every_change_of_either_side_renews_the_row(kind: JoinKind, size: int) -> None:
    left, right = table("L"), table("R")
    assert run(joined(left, right, kind), (left, right), STORY, size) == TOLD[kind]


def test_pairs_of_materialised_tables_are_taken_as_one_change() -> None:
    left, right = table("L", materialised=True), table("R", materialised=True)
    found = run(joined(left, right, JoinKind.LEFT), (left, right), STORY, 8)
    assert found == TOLD[JoinKind.LEFT]


def test_a_row_has_the_later_time_of_both_sides() -> None:
    left, right = table("L"), table("R")
    drawn = "R + a x @9\nL + a 1 @3\nL + a 2 @4"
    node = joined(left, right, JoinKind.INNER)
    assert run(node, (left, right), drawn, 1) == ["+ a 1 x @9", "+ a 2 x @9"]


def test_three_tables_give_one_change_for_one_record() -> None:
    left, middle, right = table("L"), table("M"), table("R")
    both = joined(left, middle, JoinKind.LEFT)
    drawn = "L + a 1 @1\nM + a x @2\nR + a y @3\nL + a 2 @4\nM - a @5\nR - a @6"
    for size in (1, 2, 6):
        found = run(joined(both, right, JoinKind.INNER), (left, middle, right), drawn, size)
        assert found == ["+ a 1 x y @3", "+ a 2 x y @4", "+ a 2 _ y @5", "- a @6"]
