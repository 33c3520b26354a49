"""UNION ALL: the rows of two streams in the order of the records that caused them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from millstream.executor.executor import DuckDBExecutor
from millstream.functions.catalogue import builtin_catalogue
from millstream.model.expressions import ColumnRef
from millstream.model.schema import Schema, SourceKind
from millstream.model.types import INTEGER
from millstream.plan.nodes import JoinKind, Merge, Node, Project, Within
from millstream.state.store import Store
from millstream.testing.drawn import fetched, lines, raw, shown
from tests.properties.hosted import K, V, read, streams_joined, subtopology

CATALOGUE = builtin_catalogue()
ROWS = Schema((K, V))


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store.open(":memory:")
    yield store
    store.close()


def merged(store: Store, node: Node, drawn: Mapping[str, str]) -> list[str]:
    """The rows of a plan from the drawn rows of each topic, all in one run."""
    executor = DuckDBExecutor(store, "Q", subtopology(node), CATALOGUE, output_partitions=1)
    executor.open(0)
    batches = {topic: raw(lines(text), ["V"]) for topic, text in drawn.items()}
    inputs = [fetched(topic, 0, batch) for topic, batch in batches.items()]
    done = executor.run(inputs)
    executor.flush()
    executor.close()
    return shown(done.outputs)


def stream(name: str) -> Node:
    return read(name, SourceKind.STREAM)


def test_rows_are_ordered_by_time(store: Store) -> None:
    drawn = {"s": "+ a 1 @1\n+ a 3 @3", "t": "+ a 2 @2\n- b @4"}
    found = merged(store, Merge(stream("S"), stream("T"), ROWS), drawn)
    assert found == ["+ a 1 @1", "+ a 2 @2", "+ a 3 @3", "- b @4"]


def test_three_streams(store: Store) -> None:
    drawn = {"s": "+ a 3 @3", "t": "+ a 1 @1", "u": "+ a 2 @2"}
    both = Merge(stream("S"), stream("T"), ROWS)
    assert merged(store, Merge(both, stream("U"), ROWS), drawn) == [
        "+ a 1 @1",
        "+ a 2 @2",
        "+ a 3 @3",
    ]


def test_pairs_of_a_join_stand_where_their_record_stands(store: Store) -> None:
    pairs = streams_joined(JoinKind.INNER, Within(9, 9, None))
    left = Project(pairs, (ColumnRef("L_K", K.type), ColumnRef("R_V", INTEGER)), ROWS)
    drawn = {
        "s": "+ a 0 @1",
        "t": "+ a 2 @2\n+ a 3 @4\n+ a 6 @6",
        "u": "+ a 1 @1\n+ a 3 @3\n+ a 5 @5",
    }
    assert merged(store, Merge(left, stream("U"), ROWS), drawn) == [
        "+ a 1 @1",
        "+ a 2 @2",
        "+ a 3 @3",
        "+ a 3 @4",
        "+ a 5 @5",
        "+ a 6 @6",
    ]
