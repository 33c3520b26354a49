"""A record of a repartition topic holds many rows, and a join may take only some of them."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millstream.catalog.source import Format, Source
from millstream.executor import exchange_read
from millstream.executor.compaction import Pace
from millstream.executor.executor import DuckDBExecutor
from millstream.formats.ipc import unpack
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.log import Appended
from millstream.model.batch import ROWTIME, raw_batch
from millstream.model.expressions import ColumnRef
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.types import INTEGER, STRING
from millstream.plan.nodes import JoinKind, Named, Read, Repartition, StreamTableJoin, Write
from millstream.state.store import Store
from millstream.testing.drawn import Line, fetched, raw
from millstream.topology.topology import RepartitionInput, SourceInput, SubTopology
from tests.draws import draws

KAFKA, JSON = Format("KAFKA"), Format("JSON")
K, V, G = Column("K", STRING, Role.KEY), Column("V", INTEGER), Column("G", STRING)
MOVED = Schema((Column("G", STRING, Role.KEY), V))
STREAM = Read(
    Source("S", SourceKind.STREAM, Schema((K, G, V)), "s", KAFKA, JSON),
    "",
    Schema((K, G, V)),
    ("K", "G", "V"),
    SourceKind.STREAM,
)
TABLE = Read(
    Source("T", SourceKind.TABLE, Schema((K, V)), "t", KAFKA, JSON),
    "R_",
    Schema((Column("R_K", STRING, Role.KEY), Column("R_V", INTEGER))),
    ("K", "V"),
    SourceKind.TABLE,
)
MOVING = Repartition(STREAM, (Named("G", ColumnRef("G", STRING)),), KAFKA, MOVED, True)
UPSTREAM = SubTopology(0, (SourceInput(STREAM, "s"),), MOVING, 1, "moved", None)
JOINED = StreamTableJoin(
    MOVING,
    TABLE,
    JoinKind.LEFT,
    Schema((Column("G", STRING, Role.KEY), V, Column("R_V", INTEGER))),
)
DOWNSTREAM = SubTopology(
    1,
    (RepartitionInput(MOVING, "moved", MOVED), SourceInput(TABLE, "t")),
    Write(JOINED, "O", "o", KAFKA, JSON, None, None),
    1,
    "o",
    "changes",
)


class Host:
    """An executor that can lose its state but for the changelog."""

    def __init__(self, sub: SubTopology) -> None:
        self.sub = sub
        self.changelog: list[pa.Table] = []
        self.start()

    def start(self) -> None:
        self.store = Store.open(":memory:")
        self.executor = DuckDBExecutor(
            self.store, "Q", self.sub, builtin_catalogue(), pace=Pace(fewest=3, piece=2)
        )
        self.executor.open(0)
        for offset, batch in enumerate(self.changelog):
            self.executor.restore(0, fetched("changes", 0, batch, start=offset))

    def commit(self) -> None:
        self.changelog += [item.batch for item in self.executor.flush() if item.topic == "changes"]
        self.executor.commit({0: len(self.changelog)})

    def restart(self) -> None:
        self.close()
        self.start()

    def close(self) -> None:
        self.executor.close()
        self.store.close()


def moved(batches: list[list[Line]]) -> list[pa.Table]:
    """Records of the repartition topic, one for each batch that is small."""
    host = Host(UPSTREAM)
    records, at = [], 0
    for batch in batches:
        outputs = host.executor.run([fetched("s", 0, raw(batch, ["G", "V"]), start=at)]).outputs
        records += [item.batch for item in outputs]
        at += len(batch)
    host.close()
    return records


def rows_of(outputs: tuple[Appended[Any], ...]) -> list[tuple[Any, ...]]:
    return [
        (row["key"].decode(), *json.loads(row["value"]).values(), row["timestamp"])
        for item in outputs
        for row in item.batch.to_pylist()
    ]


def left(records: list[pa.Table], at: int, upto: int, *, end: bool) -> Any:
    chosen = records[at:upto] or [raw_batch([])]
    return fetched("moved", 0, pa.concat_tables(chosen), start=at, end=end)


def test_no_record_of_moved_rows_is_larger_than_brokers_take() -> None:
    lines = [Line("k", (secrets.token_hex(2_000), n), n) for n in range(1_000)]
    records = moved([lines])
    assert len(records) > 4
    blobs = [row["value"] for record in records for row in record.to_pylist()]
    assert max(map(len, blobs)) < 1 << 20
    rows = pa.concat_tables(map(unpack, blobs))
    assert rows[ROWTIME].to_pylist() == list(range(1_000))


def test_rows_of_one_record_wait_for_the_table_and_outlive_a_restart() -> None:
    records = moved([[Line("k", ("a", n), 10 * n) for n in range(1, 6)]])
    table = [Line("a", (7,), 15), Line("a", (8,), 35)]
    host = Host(DOWNSTREAM)
    first = host.executor.run(
        [
            left(records, 0, 1, end=True),
            fetched("t", 0, raw(table[:1], ["V"]), end=False),
        ]
    )
    assert rows_of(first.outputs) == [("a", 1, None, 10)]
    assert first.consumed[("moved", 0)] == 0
    host.commit()
    host.restart()
    second = host.executor.run(
        [
            left(records, 0, 1, end=True),
            fetched("t", 0, raw(table[1:], ["V"]), start=1, end=True),
        ]
    )
    assert rows_of(second.outputs) == [
        ("a", 2, 7, 20),
        ("a", 3, 7, 30),
        ("a", 4, 8, 40),
        ("a", 5, 8, 50),
    ]
    assert second.consumed[("moved", 0)] == 1
    host.close()


def test_what_was_held_back_is_unpacked_but_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(exchange_read, "unpack", lambda blob: (calls.append(blob), unpack(blob))[1])
    records = moved([[Line("k", ("a", n), 10 * n) for n in range(1, 6)]])
    host = Host(DOWNSTREAM)
    outputs: list[Any] = []
    for upto in range(6):
        table = raw([Line("a", (upto,), 10 * upto + 5)], ["V"])
        inputs = [
            left(records, 0, 1, end=True),
            fetched("t", 0, table, start=upto, end=upto == 5),
        ]
        outputs += host.executor.run(inputs).outputs
    assert rows_of(tuple(outputs)) == [("a", n, n - 1, 10 * n) for n in range(1, 6)]
    assert len(calls) == 1
    host.executor.run([left(records, 1, 1, end=True), fetched("t", 0, raw_batch([]), start=6)])
    assert len(calls) == 1
    host.close()


def test_headers_go_through_a_repartition_and_a_join() -> None:
    batch = raw([Line("k", ("a", 1), 10), Line("k", ("a", 2), 20)], ["G", "V"])
    header = [{"key": "h", "value": b"1"}]
    column = pa.array([header, None], batch.schema.field("headers").type)
    batch = batch.set_column(batch.column_names.index("headers"), "headers", column)
    upstream, downstream = Host(UPSTREAM), Host(DOWNSTREAM)
    records = [item.batch for item in upstream.executor.run([fetched("s", 0, batch)]).outputs]
    table = fetched("t", 0, raw([Line("a", (7,), 5)], ["V"]))
    (output,) = downstream.executor.run([left(records, 0, 1, end=True), table]).outputs
    assert [row["headers"] or None for row in output.batch.to_pylist()] == [header, None]
    upstream.close()
    downstream.close()


lefts = st.lists(
    st.lists(
        st.builds(
            Line,
            st.just("k"),
            st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9)),
            st.integers(0, 60),
        ),
        min_size=1,
        max_size=6,
    ),
    max_size=4,
)
tables = st.lists(
    st.builds(
        Line,
        st.sampled_from(["a", "b"]),
        st.none() | st.tuples(st.integers(0, 9)),
        st.integers(0, 60),
    ),
    max_size=8,
)
reads = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 8), st.sampled_from(["", "commit", "restart"])),
    max_size=5,
)


@settings(max_examples=draws(40), database=None)
@example(
    batches=[[Line("k", ("a", 0), 0), Line("k", ("a", 0), 1)]],
    table=[Line("a", None, time) for time in (0, 0, 0, 0, 1, 0)],
    reads=[(1, 5, ""), (0, 0, "")],
)
@given(batches=lefts, table=tables, reads=reads)
def test_any_reads_and_restarts_give_the_same_join(
    batches: list[list[Line]], table: list[Line], reads: list[tuple[int, int, str]]
) -> None:
    records = moved(batches)
    whole = joined(records, table, [])
    assert joined(records, table, reads) == whole


def joined(
    records: list[pa.Table], table: list[Line], reads: list[tuple[int, int, str]]
) -> list[tuple[Any, ...]]:
    host = Host(DOWNSTREAM)
    positions = {("moved", 0): 0, ("t", 0): 0}
    found: list[tuple[Any, ...]] = []
    everything = (len(records), len(table), "commit")
    for more_left, more_right, then in [*reads, *[everything] * 3]:
        a, b = positions.values()
        upto_left, upto_right = min(a + more_left, len(records)), min(b + more_right, len(table))
        result = host.executor.run(
            [
                left(records, a, upto_left, end=upto_left == len(records)),
                fetched(
                    "t",
                    0,
                    raw(table[b:upto_right], ["V"]),
                    start=b,
                    end=upto_right == len(table),
                ),
            ]
        )
        positions |= result.consumed
        found += rows_of(result.outputs)
        if then:
            host.commit()
        if then == "restart":
            host.restart()
    host.close()
    assert list(positions.values()) == [len(records), len(table)]
    return found
