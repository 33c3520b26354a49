"""The executor against its contract: commit, restore, discard, failing rows, repartitioning."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from millstream.catalog.source import Format, Source
from millstream.executor.executor import DuckDBExecutor
from millstream.formats.ipc import unpack
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.log import Appended, Fetched
from millstream.model.batch import DIFF, HEADER_TYPE, HEADERS, ROWTIME, SEQ
from millstream.model.expressions import AggregateCall, ColumnRef, Expression
from millstream.model.expressions import Cast as CastTo
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.types import BIGINT, INTEGER, STRING
from millstream.plan.nodes import Aggregate, Named, Node, Project, Read, Repartition, Write
from millstream.state.store import Store
from millstream.testing.drawn import fetched, lines, raw, shown
from millstream.topology.topology import RepartitionInput, SourceInput, SubTopology

KAFKA, JSON = Format("KAFKA"), Format("JSON")
K, V = Column("K", STRING, Role.KEY), Column("V", STRING)
READ = Read(
    Source("S", SourceKind.STREAM, Schema((K, V)), "s", KAFKA, JSON),
    "",
    Schema((K, V)),
    ("K", "V"),
    SourceKind.STREAM,
)
COUNT = AggregateCall("COUNT", 0, (), (), BIGINT)


def counted(given: Node, key: Column = K) -> Aggregate:
    return Aggregate(given, (("C", COUNT),), None, False, Schema((key, Column("C", BIGINT))))


def counted_with_highest(given: Node) -> Aggregate:
    highest = AggregateCall("MAX", 0, (ColumnRef("N", INTEGER),), (), INTEGER)
    schema = Schema((K, Column("C", BIGINT), Column("M", INTEGER)))
    return Aggregate(given, (("C", COUNT), ("M", highest)), None, False, schema)


def written(node: Node, *, changelog: str | None = "changes") -> SubTopology:
    root = Write(node, "O", "o", KAFKA, JSON, None, None)
    return SubTopology(0, (SourceInput(READ, "s"),), root, 1, "o", changelog)


def records(text: str, start: int = 0, partition: int = 0) -> Fetched[object]:
    return fetched("s", partition, raw(lines(text), ["V"]), start=start)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def executor(store: Store, sub: SubTopology, **options: object) -> DuckDBExecutor:
    made = DuckDBExecutor(store, "Q", sub, builtin_catalogue(), **options)  # type: ignore[arg-type]
    made.open(0)
    return made


def test_a_run_reports_how_far_it_came(store: Store) -> None:
    result = executor(store, written(READ, changelog=None)).run([records("+ a x @1\n+ b y @2", 7)])
    assert result.consumed == {("s", 0): 9}
    assert shown(result.outputs) == ["+ a x @1", "+ b y @2"]


def test_the_changelog_rebuilds_the_state(store: Store) -> None:
    first = executor(store, written(counted(READ)))
    first.run([records("+ a x @1\n+ b x @2\n+ a x @3")])
    first.run([records("+ b x @4", 3)])
    changes = [item for item in first.flush() if item.topic == "changes"]
    assert [item.count for item in changes] == [1]
    with Store.open(":memory:") as other:
        second = executor(other, written(counted(READ)))
        for item in changes:
            second.restore(0, fetched("changes", 0, item.batch))
        assert shown(second.run([records("+ a x @5\n+ b x @6", 4)]).outputs) == [
            "+ a 3 @5",
            "+ b 3 @6",
        ]
        second.close()


def test_no_record_of_a_changelog_is_larger_than_brokers_take(store: Store) -> None:
    made = executor(store, written(counted(READ)))
    keys = [f"{number:04}{secrets.token_hex(2_000)}" for number in range(1_000)]
    made.run([records("\n".join(f"+ {key} x @1" for key in keys))])
    changes = [item for item in made.flush() if item.topic == "changes"]
    assert len(changes) > 4
    assert max(item.bytes for item in changes) < 1 << 20
    with Store.open(":memory:") as other:
        second = executor(other, written(counted(READ)))
        second.restore(0, fetched("changes", 0, pa.concat_tables(item.batch for item in changes)))
        again = second.run([records("\n".join(f"+ {key} x @2" for key in keys), 4)])
        assert shown(again.outputs) == [f"+ {key} 2 @2" for key in keys]
        second.close()


def test_discarding_forgets_what_was_not_committed(store: Store) -> None:
    made = executor(store, written(counted(READ)))
    made.run([records("+ a x @1")])
    made.flush()
    made.commit({0: 5})
    made.run([records("+ a x @2")])
    made.discard()
    assert made.open(0) == 5
    assert shown(made.run([records("+ a x @3")]).outputs) == ["+ a 2 @3"]


def test_a_partition_without_a_position_starts_empty(store: Store) -> None:
    made = executor(store, written(counted(READ)))
    made.run([records("+ a x @1")])
    made.commit({})
    made.discard()
    assert made.open(0) == 0
    assert shown(made.run([records("+ a x @3")]).outputs) == ["+ a 1 @3"]


def test_a_failing_value_is_null_and_reported(store: Store) -> None:
    number: Expression = CastTo(ColumnRef("V", STRING), INTEGER)
    columns = Schema((K, Column("N", INTEGER)))
    made = executor(store, written(Project(READ, (ColumnRef("K", STRING), number), columns)))
    result = made.run([records("+ a 1 @1\n+ b x @2\n+ c 3 @3", 10)])
    assert shown(result.outputs) == ["+ a 1 @1", "+ b _ @2", "+ c 3 @3"]
    assert [(p.kind, p.topic, p.offset) for p in result.problems] == [("EXPRESSION", "s", 11)]


def test_a_failure_keeps_what_earlier_runs_of_the_commit_did(store: Store) -> None:
    number: Expression = CastTo(ColumnRef("V", STRING), INTEGER)
    columns = Schema((K, Column("N", INTEGER)))
    project = Project(READ, (ColumnRef("K", STRING), number), columns)
    made = executor(store, written(counted_with_highest(project)))
    made.run([records("+ a 1 @1\n+ b 1 @2")])
    top = made.run([records("+ a x @3\n+ b 1 @4", 2)])
    assert [problem.kind for problem in top.problems] == ["EXPRESSION"]
    assert shown(top.outputs) == ["+ a 2 1 @3", "+ b 2 1 @4"]


def test_a_failure_keeps_what_was_restored(store: Store) -> None:
    number: Expression = CastTo(ColumnRef("V", STRING), INTEGER)
    project = Project(READ, (ColumnRef("K", STRING), number), Schema((K, Column("N", INTEGER))))
    first = executor(store, written(counted_with_highest(project)))
    first.run([records("+ a 1 @1\n+ b 1 @2")])
    changes = [item.batch for item in first.flush() if item.topic == "changes"]
    with Store.open(":memory:") as other:
        second = executor(other, written(counted_with_highest(project)))
        for batch in changes:
            second.restore(0, fetched("changes", 0, batch))
        assert shown(second.run([records("+ a x @3", 2)]).outputs) == ["+ a 2 1 @3"]
        second.close()


def test_cached_changes_leave_with_the_flush_once_for_each_key(store: Store) -> None:
    made = executor(store, written(counted(READ)), cached=True)
    assert made.run([records("+ a x @1\n+ b x @2\n+ a x @3")]).outputs == ()
    assert made.run([records("+ a x @4", 3)]).outputs == ()
    assert shown(item for item in made.flush() if item.topic == "o") == ["+ b 1 @2", "+ a 3 @4"]


def test_rows_move_to_the_partition_of_their_key_and_are_counted_there(store: Store) -> None:
    key = Column("V", STRING, Role.KEY)
    moving = Repartition(READ, (Named("V", ColumnRef("V", STRING)),), KAFKA, Schema((key,)), True)
    first = SubTopology(0, (SourceInput(READ, "s"),), moving, 2, "moved", None)
    root = Write(counted(moving, key), "O", "o", KAFKA, JSON, None, None)
    reader = RepartitionInput(moving, "moved", moving.schema)
    second = SubTopology(1, (reader,), root, 2, "o", "changes")
    upstream = executor(store, first, output_partitions=2)
    downstream = executor(store, second, output_partitions=2)
    upstream.open(1), downstream.open(1)
    moved = upstream.run(
        [records("+ a x @1\n+ a y @5\n+ a _ @6"), records("+ b y @2\n+ b x @3", 0, 1)]
    )
    assert sum(item.count for item in moved.outputs) == len(moved.outputs) <= 2
    inputs = []
    for partition in (0, 1):
        own = [item.batch for item in moved.outputs if item.partition == partition]
        empty = moved.outputs[0].batch.slice(0, 0)
        inputs.append(fetched("moved", partition, own[0] if own else empty))
    found = shown(downstream.run(inputs).outputs)
    assert sorted(line.split(" /")[0] for line in found) == [
        "+ x 1 @1",
        "+ x 2 @3",
        "+ y 1 @2",
        "+ y 2 @5",
    ]
    upstream.close()


def rekeyed(kind: SourceKind) -> SubTopology:
    """Rows move by V, those of a table as pairs."""
    read = replace(READ, kind=kind, materialised=kind is SourceKind.TABLE)
    schema = Schema((Column("V", STRING, Role.KEY), K))
    moving = Repartition(read, (Named("V", ColumnRef("V", STRING)),), KAFKA, schema, True)
    return SubTopology(0, (SourceInput(read, "s"),), moving, 1, "moved", "changes")


def content(outputs: Iterable[Appended[pa.Table]]) -> list[tuple[int, pa.Table]]:
    """By partition, the rows of each record."""
    return [
        (item.partition, unpack(row["value"])) for item in outputs for row in item.batch.to_pylist()
    ]


def test_moved_rows_are_kept_for_the_commit_if_unreadable_before(store: Store) -> None:
    sub = rekeyed(SourceKind.STREAM)
    made = executor(store, sub, output_partitions=4, held=True)
    first = made.run([records("+ a x @3\n+ b y @4")])
    second = made.run([records("+ c x @1\n+ d x @2", 2)])
    assert not first.outputs and not second.outputs
    assert first.kept and second.kept
    found = content(made.flush())
    assert len({partition for partition, _ in found}) == len(found) == 2
    assert sorted(rows[ROWTIME].to_pylist() for _, rows in found) == [[3, 1, 2], [4]]
    assert not made.flush()


def test_pairs_of_several_runs_stay_pairs(store: Store) -> None:
    made = executor(store, rekeyed(SourceKind.TABLE), held=True)
    for offset, value in enumerate("xyz"):
        made.run([records(f"+ a {value} @{offset}", offset)])
    moved = [item for item in made.flush() if item.topic == "moved"]
    ((_, rows),) = content(moved)
    assert rows[DIFF].to_pylist() == [1, -1, 1, -1, 1]
    assert rows[SEQ].to_pylist() == [0, 1, 1, 2, 2]


def test_what_is_discarded_does_not_move(store: Store) -> None:
    made = executor(store, rekeyed(SourceKind.STREAM), held=True)
    made.run([records("+ a x @3")])
    made.discard()
    made.open(0)
    assert not made.flush()


def test_rows_with_headers_and_without_are_kept_apart(store: Store) -> None:
    made = executor(store, rekeyed(SourceKind.STREAM), held=True)
    made.run([records("+ a x @1")])
    batch = records("+ b x @2", 1)
    column = pa.array([[{"key": "h", "value": b"1"}]], HEADER_TYPE)
    at = batch.batch.column_names.index("headers")
    made.run([replace(batch, batch=batch.batch.set_column(at, "headers", column))])
    made.run([records("+ c x @3", 2)])
    found = content(made.flush())
    assert [rows[ROWTIME].to_pylist() for _, rows in found] == [[1], [2], [3]]
    assert [HEADERS in rows.column_names for _, rows in found] == [False, True, False]
