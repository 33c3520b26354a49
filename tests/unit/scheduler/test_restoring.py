"""The restoring thread: it follows the changes of another engine's query, and reports readiness."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from millstream.executor.executor import DuckDBExecutor
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.batches import TABLES
from millstream.log.log import Appended, Topic
from millstream.log.simulated import SimulatedLog
from millstream.model.batch import raw_batch
from millstream.runtime.runtime import ExecutorSpec, QuerySpec, Runtime, RuntimeSettings
from millstream.scheduler.restoring import Restoring
from millstream.state.store import Store
from tests.patience import PATIENCE_S
from tests.simulation.real import topology_of

SQL = """CREATE TABLE o WITH (KAFKA_TOPIC = 'out') AS SELECT k, COUNT(*) AS c FROM s GROUP BY k;"""
TOPOLOGY = topology_of(SQL, 2)
(SUB,) = TOPOLOGY.subtopologies
QUERY = TOPOLOGY.query_id
SETTINGS = RuntimeSettings(commit_interval_ms=1)


def log_of() -> SimulatedLog[Any]:
    log: SimulatedLog[Any] = SimulatedLog(TABLES)
    for name in ("in", "out", str(SUB.changelog)):
        log.create_topic(Topic(name, 2))
    return log


def process(log: SimulatedLog[Any], store: Store, instance: Runtime[Any]) -> None:
    """Another ten records, processed and committed by an instance of its own."""
    rows = [(str(key).encode(), b'{"G": 1, "N": 1}', 1) for key in range(10)]
    log.writer("producer").append([Appended("in", 1, raw_batch(rows), 10)])
    for now in range(60):
        instance.step(now * 10)
    assert not any(instance.query_status(QUERY).lag.values())


def instance_of(log: SimulatedLog[Any], store: Store, restorer: Any = None) -> Runtime[Any]:
    executor = DuckDBExecutor(store, QUERY, SUB, builtin_catalogue())
    instance: Runtime[Any] = Runtime(log, SETTINGS, restorer=restorer)
    spec = ExecutorSpec(executor, ("in",), 2, SUB.changelog, ("out",))
    instance.add_query(QuerySpec(QUERY, QUERY, (spec,)))
    return instance


def counts(store: Store) -> list[Any]:
    cursor = store.cursor()
    tables = cursor.sql("SELECT table_name FROM duckdb_tables() WHERE schema_name <> 'main'")
    (table,) = (name for (name,) in tables.fetchall() if name != "$marks")
    found = cursor.sql(f"FROM {store.table(QUERY, 0, table)} ORDER BY ALL").fetchall()
    cursor.close()
    return found


def test_a_standby_in_a_thread_takes_over(tmp_path: Path) -> None:
    log = log_of()
    first, second = Store.open(tmp_path / "a"), Store.open(tmp_path / "b")
    active = instance_of(log, first)
    process(log, first, active)
    ready = threading.Event()
    restoring = Restoring(log, lambda: 0, SETTINGS, lambda _query_id: ready.set())
    restoring.add_query(second, TOPOLOGY, builtin_catalogue())
    restoring.start()
    while restoring.prepare(QUERY, frozenset({0, 1})) != {0, 1}:
        assert ready.wait(PATIENCE_S)
        ready.clear()
    assert restoring.retry_errors() == {}
    active.close()
    successor = instance_of(log, second, restoring)
    process(log, second, successor)
    assert len(counts(second)) == 10
    assert {row[2] for row in counts(second)} == {2}
    successor.close()
    restoring.remove_query(QUERY)
    restoring.close()
    restoring.close()
    first.close()
    second.close()


def test_without_a_thread_it_replays_when_asked() -> None:
    log = log_of()
    with Store.open(":memory:") as first, Store.open(":memory:") as second:
        active = instance_of(log, first)
        process(log, first, active)
        restoring = Restoring(log, lambda: 0, SETTINGS, lambda _query_id: None)
        restoring.add_query(second, TOPOLOGY, builtin_catalogue())
        restoring.standby(QUERY, frozenset({1}))
        assert restoring.run_until_idle()
        assert not restoring.run_until_idle()
        assert counts(second) == counts(first)
        assert [one.lag for one in restoring.progress()] == [0]
        assert restoring.ready(QUERY) == {1}
        (told,) = restoring.completed(active.status({}))
        assert told.metrics.restored == log.end_offset(str(SUB.changelog), 1) > 0
        restoring.close()
        active.close()


def test_without_a_thread_too_nothing_is_opened_before_a_poll() -> None:
    both = frozenset({0, 1})
    with Store.open(":memory:") as store:
        restoring = Restoring(log_of(), lambda: 0, SETTINGS, lambda _query_id: None)
        restoring.add_query(store, TOPOLOGY, builtin_catalogue())
        restoring.standby(QUERY, both)
        assert restoring.run_until_idle()
        restoring.catch_up_gate.follow()
        assert restoring.prepare(QUERY, both) == restoring.prepare(QUERY, both) == frozenset()
        restoring.catch_up_gate.end_poll(restoring.catch_up_gate.begin_poll())
        assert restoring.prepare(QUERY, both) == both
        restoring.close()
