"""Replaying changelogs beside an executor that works on the same tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from millstream.executor.compaction import Pace
from millstream.executor.executor import DuckDBExecutor
from millstream.executor.replica import DuckReplica
from millstream.executor.upkeep import Upkeep
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.batches import TABLES
from millstream.log.log import Appended, Topic
from millstream.log.simulated import SimulatedLog
from millstream.model.batch import raw_batch
from millstream.model.errors import UnavailableError
from millstream.operators.program import Expiry, StateTable
from millstream.runtime.ports import Executor, Replica
from millstream.runtime.restoration import FollowSpec, Restoration
from millstream.runtime.runtime import ExecutorSpec, QuerySpec, Runtime, RuntimeSettings
from millstream.state.store import Store
from tests.simulation.real import topology_of

QUERIES = {
    "counted": "SELECT k, COUNT(*) AS c, LATEST_BY_OFFSET(n) AS p FROM s GROUP BY k",
    "windowed": "SELECT k, COUNT(*) AS c FROM s WINDOW TUMBLING (SIZE 10 MILLISECONDS,"
    " RETENTION 20 MILLISECONDS, GRACE PERIOD 0 MILLISECONDS) GROUP BY k",
    "sessions": "SELECT k, COUNT(*) AS c FROM s WINDOW SESSION (3 MILLISECONDS) GROUP BY k",
}
SETTINGS = RuntimeSettings(commit_interval_ms=1, max_batch_records=7)
PACE = Pace(fewest=20, piece=8)


@pytest.fixture(params=sorted(QUERIES))
def sub(request: pytest.FixtureRequest) -> Any:
    sql = f"CREATE TABLE o WITH (KAFKA_TOPIC = 'out') AS {QUERIES[request.param]};"
    (only,) = topology_of(sql, 2).subtopologies
    return only


class Bench:
    """A log with a query's topics; databases that could be of several instances."""

    def __init__(self, sub: Any) -> None:
        self.sub = sub
        self.log: SimulatedLog[Any] = SimulatedLog(TABLES, markers=True)
        for name in ("in", "out", sub.changelog):
            self.log.create_topic(Topic(name, 2))
        self.producer = self.log.writer("producer")
        self.stores = [Store.open(":memory:") for _ in range(3)]
        self.rnd = Random(7)
        self.sent = self.now = 0

    def executor(self, store: int) -> DuckDBExecutor:
        catalogue = builtin_catalogue()
        return DuckDBExecutor(self.stores[store], "Q", self.sub, catalogue, pace=PACE)

    def replica(self, store: int) -> DuckReplica:
        return DuckReplica(self.stores[store], "Q", self.sub, builtin_catalogue())

    def send(self, count: int, partition: int) -> None:
        rows = []
        for _ in range(count):
            self.sent += 1
            key = 2 * self.rnd.randrange(5) + partition
            value = json.dumps({"G": key, "N": self.sent}).encode()
            rows.append((json.dumps(key).encode(), value, 1000 + self.sent))
        self.producer.append([Appended("in", partition, raw_batch(rows), count)])

    def process(self, store: int) -> None:
        """Start a process, let it do all there is to do, and stop it."""
        executor = self.executor(store)
        instance: Runtime[Any] = Runtime(self.log, SETTINGS)
        spec = ExecutorSpec(executor, ("in",), 2, self.sub.changelog, ("out",))
        instance.add_query(QuerySpec("Q", "Q", (spec,)))
        for _ in range(200):
            self.now += 2
            instance.step(self.now)
        assert instance.query_status("Q").error == ""
        assert not any(instance.query_status("Q").lag.values())
        instance.close(self.now)

    def follow(self, store: int) -> None:
        """Follow all partitions to their ends."""
        replica = self.replica(store)
        restoration: Restoration[Any] = Restoration(self.log, SETTINGS)
        restoration.add_query("Q", (FollowSpec(0, replica, self.sub.changelog, 2),))
        restoration.standby("Q", frozenset({0, 1}))
        while restoration.step(self.now).progress:
            pass
        assert restoration.retry_errors() == {}
        restoration.close()

    def rows(self, store: int) -> dict[str, list[Any]]:
        cursor = self.stores[store].cursor()
        found = cursor.sql(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'state'"
            " AND schema_name <> 'main'"
        ).fetchall()
        rows = {
            name: cursor.sql(f'FROM state."{schema}"."{name}" ORDER BY ALL').fetchall()
            for schema, name in found
        }
        cursor.close()
        return rows

    def stored(self, store: int) -> list[Any]:
        """The stored positions."""
        cursor = self.stores[store].cursor()
        found = cursor.sql('FROM state.main."$positions" ORDER BY ALL').fetchall()
        cursor.close()
        return found

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.fixture
def bench(sub: Any) -> Iterator[Bench]:
    opened = Bench(sub)
    yield opened
    opened.close()


def test_a_replica_holds_what_the_executor_holds(bench: Bench) -> None:
    for _ in range(3):
        bench.send(15, 0)
        bench.send(9, 1)
        bench.process(0)
        bench.follow(1)
    held = bench.rows(1)
    assert any(held.values())
    live = bench.rows(0)
    for name, rows in live.items():
        # Expired rows are dropped at other times here and there.
        assert set(rows) <= set(held[name]), name


def test_a_task_moves_from_replica_to_executor_and_back(bench: Bench) -> None:
    """Instances alternate, and each has followed the other's changes."""
    for turn in range(4):
        bench.send(10, turn % 2)
        bench.process(turn % 2)
        bench.follow(1 - turn % 2)
    alone = Bench(bench.sub)
    for turn in range(4):
        alone.send(10, turn % 2)
        alone.process(0)
    for partition in range(2):
        out = [b.log.read("out", partition, 0, 1 << 20).batch for b in (bench, alone)]
        assert out[0]["value"].to_pylist() == out[1]["value"].to_pylist()
    alone.close()


def test_executor_and_replica_restore_alike(bench: Bench) -> None:
    bench.send(30, 1)
    bench.process(0)
    places = ((1, bench.executor(1)), (2, bench.replica(2)))
    told = []
    for store, state in places:
        restore(bench, state)
        cursor = bench.stores[store].cursor()
        positions = cursor.sql('FROM state.main."$positions" ORDER BY ALL').fetchall()
        cursor.close()
        told.append((positions, bench.rows(store)))
        state.close()
    assert told[0] == told[1]


def restore(bench: Bench, state: Executor[Any] | Replica[Any]) -> int:
    """Replay what there is of partition 1, three records at a time."""
    position = state.open(1)
    start = bench.log.start_offset(bench.sub.changelog, 1)
    if position < start:
        state.clear(1, start)
    position = max(position, start)
    while True:
        fetched = bench.log.read(bench.sub.changelog, 1, position, 3)
        if fetched.next_offset == position:
            return position
        state.restore(1, fetched)
        state.commit({1: fetched.next_offset})
        position = fetched.next_offset


def test_an_open_transaction_of_the_executor_does_not_meet_the_replica(bench: Bench) -> None:
    bench.send(30, 1)
    bench.process(0)
    executor, replica = bench.executor(1), bench.replica(1)
    assert executor.open(0) == 0
    bench.send(5, 0)
    executor.run([bench.log.read("in", 0, 0, 100)])
    flushed = executor.flush()
    position = restore(bench, replica)
    executor.commit({0: len(flushed)})
    assert replica.open(1) == position
    assert {row[0] for rows in bench.rows(1).values() for row in rows} == {0, 1}
    executor.close()
    replica.close()


def test_how_far_the_stored_state_is_changes_nothing(bench: Bench) -> None:
    bench.send(30, 1)
    bench.process(0)
    replica = bench.replica(1)
    before = bench.stored(1)
    assert replica.position(1) == 0
    assert bench.stored(1) == before == []
    position = restore(bench, replica)
    assert replica.position(1) == position > 0
    replica.close()


def test_what_is_not_committed_is_forgotten(bench: Bench) -> None:
    bench.send(30, 1)
    bench.process(0)
    replica = bench.replica(1)
    assert replica.open(1) == 0
    start = bench.log.start_offset(bench.sub.changelog, 1)
    replica.restore(1, bench.log.read(bench.sub.changelog, 1, start, 1000))
    replica.discard()
    assert replica.open(1) == 0
    assert not any(bench.rows(1).values())
    replica.close()


COUNTS = StateTable("counts", (("K", "BIGINT"),), (("C", "BIGINT"),), plain=True)
LISTS = StateTable("lists", (("K", "BIGINT[]"),), (("C", "BIGINT"),), plain=True)


def counts(part: int, keys: list[int], value: int) -> pa.Table:
    size = len(keys)
    return pa.table(
        {
            "$part": pa.array([part] * size, pa.int32()),
            "K": pa.array(keys, pa.int64()),
            "C": pa.array([value] * size, pa.int64()),
        }
    )


def lists(part: int, keys: list[int], value: int) -> pa.Table:
    rows = counts(part, keys, value)
    return rows.set_column(1, "K", pa.array([[key] for key in keys], pa.list_(pa.int64())))


def test_upkeep_leaves_the_rows_of_others_alone() -> None:
    """DuckDB would let one transaction delete what another one replaces, and lose both."""
    clock = StateTable("clock", (), (("C", "BIGINT"),), plain=True)
    counted = replace(COUNTS, expiry=Expiry("C", "clock", "C", 5))
    with Store.open(":memory:") as store:
        processing, following = (store.session("Q", 0, (counted, clock)) for _ in range(2))
        times = pa.table({"$part": pa.array([0, 1], pa.int32()), "C": [10, 10]})
        processing.upsert("clock", times)
        following.upsert("counts", counts(1, [1], 1))
        following.commit({1: 1})
        upkeep = Upkeep(processing)
        processing.upsert("counts", counts(0, [2], 2))
        upkeep.before_commit(50_000, {0})
        following.upsert("counts", counts(1, [1], 9))
        following.commit({1: 2})
        processing.commit({0: 1})
        found = following.connection.sql("FROM counts").fetchall()
        processing.close()
        following.close()
    assert found == [(1, 1, 9)]


def test_writers_of_different_partitions_never_conflict(tmp_path: Path) -> None:
    """Long transactions of one, short ones of two others, into tables with and without a key."""
    store = Store.open(tmp_path / "state.db")
    failures: list[BaseException] = []
    ends: dict[int, int] = {}

    def write(part: int, commits: int, pieces: int) -> None:
        session = store.session("Q", 0, (COUNTS, LISTS))
        rnd = Random(part)
        try:
            for number in range(1, commits + 1):
                for _ in range(pieces):
                    keys = rnd.sample(range(400), 150)
                    session.upsert("counts", counts(part, keys, number))
                    session.upsert("lists", lists(part, keys, number))
                    removed = counts(part, keys[:40], 0)
                    gone = pa.array([True] * 40)
                    session.upsert("counts", removed.append_column("$deleted", gone))
                session.commit({part: number})
            reached = session.position(part)
            ends[part] = reached.at if reached else 0
        except BaseException as failure:
            failures.append(failure)
        finally:
            session.close()

    store.session("Q", 0, (COUNTS, LISTS)).close()
    plans = ((0, 4, 8), (1, 20, 1), (2, 20, 1))
    threads = [threading.Thread(target=write, args=plan) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    assert failures == []
    assert ends == {part: commits for part, commits, _ in plans}


def test_rows_that_the_store_refuses_are_tried_again(bench: Bench) -> None:
    bench.send(3, 1)
    bench.process(0)
    replica = bench.replica(1)
    replica.open(1)
    bench.stores[1].drop_query("Q")
    with pytest.raises(UnavailableError, match="could not be applied"):
        replica.restore(1, bench.log.read(bench.sub.changelog, 1, 0, 10))
    replica.close()
