"""Windowed state: what expires leaves, and what EMIT FINAL has not shown stays hidden."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream.catalog.source import Format, Source
from millstream.executor.executor import DuckDBExecutor
from millstream.functions.catalogue import builtin_catalogue
from millstream.model.expressions import AggregateCall
from millstream.model.schema import Column, Role, Schema, SourceKind, WindowedKey, WindowKind
from millstream.model.types import BIGINT, STRING
from millstream.operators.view import table_view
from millstream.plan.nodes import Aggregate, Read, Window, Write
from millstream.state.store import Store
from millstream.testing.drawn import fetched, lines, raw
from millstream.topology.topology import SourceInput, SubTopology

KAFKA, JSON = Format("KAFKA"), Format("JSON")
K, V = Column("K", STRING, Role.KEY), Column("V", STRING)
BOUNDS = tuple(Column(name, BIGINT, Role.KEY) for name in ("WINDOWSTART", "WINDOWEND"))
SOURCE = Source("S", SourceKind.STREAM, Schema((K, V)), "s", KAFKA, JSON)
READ = Read(SOURCE, "", Schema((K, V)), ("K", "V"), SourceKind.STREAM)
COUNT = AggregateCall("COUNT", 0, (), (), BIGINT)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def windowed(kind: WindowKind, *, final: bool) -> SubTopology:
    window = Window(kind, 10, None, 5)
    schema = Schema((K, *BOUNDS, Column("C", BIGINT)))
    counted = Aggregate(READ, (("C", COUNT),), window, final, schema)
    key = WindowedKey(kind, None if kind is WindowKind.SESSION else 10)
    root = Write(counted, "O", "o", KAFKA, JSON, key, None)
    return SubTopology(0, (SourceInput(READ, "s"),), root, 2, "o", "changes")


def visible(store: Store, sub: SubTopology) -> list[tuple[object, ...]]:
    view = table_view(sub, builtin_catalogue(), lambda name: store.table("Q", 0, name))
    assert view is not None
    cursor = store.cursor()
    found = cursor.sql(f"SELECT K, WINDOWSTART, WINDOWEND, C FROM ({view.text}) ORDER BY ALL")
    rows = found.fetchall()
    cursor.close()
    return rows


def feed(executor: DuckDBExecutor, text: str, start: int, partition: int = 0) -> int:
    """One run and commit; how many rows it gave."""
    given = fetched("s", partition, raw(lines(text), ["V"]), start=start)
    outputs = executor.run([given]).outputs
    executor.flush()
    executor.commit({0: 0, 1: 0})
    return sum(item.count for item in outputs)


@pytest.mark.parametrize("kind", [WindowKind.TUMBLING, WindowKind.SESSION])
def test_expired_state_does_not_pile_up(store: Store, kind: WindowKind) -> None:
    sub = windowed(kind, final=False)
    executor = DuckDBExecutor(store, "Q", sub, builtin_catalogue())
    executor.open(0)
    for number in range(40):
        feed(executor, f"+ a x @{100 * number}", number)
    assert 1 <= len(visible(store, sub)) <= 20
    executor.close()


@pytest.mark.parametrize(
    ("kind", "closed"),
    [(WindowKind.TUMBLING, [("a", 0, 10, 1)]), (WindowKind.SESSION, [("a", 1, 1, 1)])],
)
def test_final_tables_show_closed_windows_only(
    store: Store, kind: WindowKind, closed: list[tuple[object, ...]]
) -> None:
    sub = windowed(kind, final=True)
    executor = DuckDBExecutor(store, "Q", sub, builtin_catalogue())
    executor.open(0), executor.open(1)
    assert feed(executor, "+ a x @1\n+ b x @14", 0) == 0
    assert visible(store, sub) == []
    assert feed(executor, "+ c x @20", 2) == 1
    assert visible(store, sub) == closed
    assert feed(executor, "+ d x @1", 0, partition=1) == 0
    assert visible(store, sub) == closed
    executor.close()


def test_windows_that_are_not_final_show_at_once(store: Store) -> None:
    sub = windowed(WindowKind.TUMBLING, final=False)
    executor = DuckDBExecutor(store, "Q", sub, builtin_catalogue())
    executor.open(0)
    feed(executor, "+ a x @1", 0)
    assert visible(store, sub) == [("a", 0, 10, 1)]
    executor.close()


def test_a_closed_session_outlives_a_later_one_that_begins_with_it(store: Store) -> None:
    """Gap 10, grace 5: a@40 is closed at 62; 50 belongs to the session of 62, and 40 then to
    that of 50, so that two sessions begin at 40."""
    sub = windowed(WindowKind.SESSION, final=True)
    executor = DuckDBExecutor(store, "Q", sub, builtin_catalogue())
    executor.open(0)
    assert feed(executor, "+ a x @40\n+ a x @62\n+ a x @52\n+ a x @42\n+ a x @40", 0) == 1
    assert [row[1:] for row in visible(store, sub)] == [(40, 40, 1)]


@pytest.mark.parametrize("kind", [WindowKind.TUMBLING, WindowKind.SESSION])
def test_all_windows_of_a_key_lie_in_one_partition(store: Store, kind: WindowKind) -> None:
    executor = DuckDBExecutor(
        store, "Q", windowed(kind, final=False), builtin_catalogue(), output_partitions=16
    )
    executor.open(0)
    text = "\n".join(f"+ a x @{1000 * number}" for number in range(20))
    outputs = executor.run([fetched("s", 0, raw(lines(text), ["V"]), start=0)]).outputs
    assert sum(item.count for item in outputs) == 20
    assert len({item.partition for item in outputs}) == 1
    executor.close()
