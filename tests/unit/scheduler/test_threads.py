"""Queries in several threads; no test depends on the clock, events determine the order."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import millstream
from millstream import Database, MillstreamError, StatementError
from millstream.model.settings import EngineSettings
from millstream.scheduler import driver
from millstream.service import engine
from tests.patience import PATIENCE_S, until

SOURCES = (
    "CREATE STREAM a (k STRING KEY, v INT) WITH (KAFKA_TOPIC='a', PARTITIONS=2,"
    " VALUE_FORMAT='JSON');"
    "CREATE STREAM b (k STRING KEY, v INT) WITH (KAFKA_TOPIC='b', PARTITIONS=2,"
    " VALUE_FORMAT='JSON');"
)
FAST = "CREATE TABLE fast AS SELECT k, COUNT(*) AS n FROM a GROUP BY k;"
SLOW = "CREATE STREAM slow AS SELECT k, HANG(v) AS v FROM b;"
pytestmark = pytest.mark.timeout(PATIENCE_S)


class Gate:
    """A function that hangs until it is released."""

    def __init__(self) -> None:
        self.entered, self.released = threading.Event(), threading.Event()

    def hang(self, value: int) -> int:
        self.entered.set()
        self.released.wait()
        return value


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.released.set()


def connect(gate: Gate, threads: int = 2) -> Database:
    return millstream.connect(
        properties={"auto.offset.reset": "earliest", "processing.threads": str(threads)},
        functions=(millstream.udf("HANG", "INTEGER -> INTEGER", gate.hang),),
    )


def insert(db: Database, stream: str, count: int = 3) -> None:
    for number in range(count):
        db.execute(f"INSERT INTO {stream} VALUES ('{stream}', {number});")


def hanging(db: Database, gate: Gate) -> None:
    """Have the query with the slow function hang in one thread."""
    db.execute(SOURCES + SLOW)
    insert(db, "b")
    assert gate.entered.wait(PATIENCE_S)


def wait_for(db: Database, row: tuple[object, ...]) -> None:
    """Until a pull query of the fast table returns a row; it waits for new rows itself."""
    while list(db.execute("SELECT * FROM fast;")) != [row]:
        pass


def test_a_query_goes_on_while_another_ones_function_hangs(gate: Gate) -> None:
    with connect(gate) as db:
        hanging(db, gate)
        db.execute(FAST)
        insert(db, "a")
        wait_for(db, ("a", 3))
        assert not list(db.execute("SELECT * FROM slow;"))
        gate.released.set()
        db.wait()
        assert len(list(db.execute("SELECT * FROM slow;"))) == 3


def test_queries_go_on_while_the_functions_of_many_hang(gate: Gate) -> None:
    """More of them than there are threads of either kind."""
    with connect(gate) as db:
        hanging(db, gate)
        for number in range(4):
            db.execute(f"CREATE STREAM slow{number} AS SELECT k, HANG(v) AS v FROM b;")
        insert(db, "b", 1)
        db.execute(FAST)
        insert(db, "a")
        wait_for(db, ("a", 3))
        gate.released.set()
        db.wait()
        assert [len(list(db.execute(f"SELECT * FROM slow{n};"))) for n in range(4)] == [4] * 4


def test_a_query_with_functions_goes_on_while_that_of_another_one_hangs(gate: Gate) -> None:
    functions = (
        millstream.udf("HANG", "INTEGER -> INTEGER", gate.hang),
        millstream.udf("SAME", "INTEGER -> INTEGER", lambda value: value),
    )
    properties = {"auto.offset.reset": "earliest"}
    with millstream.connect(properties=properties, functions=functions) as db:
        hanging(db, gate)
        db.execute("CREATE TABLE fast AS SELECT k, COUNT(SAME(v)) AS n FROM a GROUP BY k;")
        insert(db, "a")
        wait_for(db, ("a", 3))
        gate.released.set()


def test_there_is_a_thread_for_functions() -> None:
    with pytest.raises(StatementError, match="at least one thread for functions, not 0"):
        millstream.connect(settings=EngineSettings(function_threads=0))


def test_a_push_query_goes_on_too(gate: Gate) -> None:
    with connect(gate) as db:
        hanging(db, gate)
        with db.execute("SELECT v FROM a EMIT CHANGES LIMIT 2;") as stream:  # type: ignore[union-attr]
            insert(db, "a", 1)
            insert(db, "a", 1)
            assert [row[0] for row in stream] == [0, 0]
        gate.released.set()


def test_statements_go_on_while_a_function_hangs(gate: Gate) -> None:
    with connect(gate) as db:
        hanging(db, gate)
        db.execute(
            "CREATE SOURCE TABLE t (k STRING PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='a',"
            " VALUE_FORMAT='JSON');"
        )
        db.execute(FAST + "DROP TABLE fast;")
        assert any(status.state.value == "RUNNING" for status in db.engine.statuses())
        gate.released.set()


def test_queries_are_removed_while_they_work() -> None:
    with connect(Gate(), threads=3) as db:
        db.execute(SOURCES)
        for number in range(12):
            made = db.execute(f"CREATE STREAM s{number} AS SELECT k, v FROM a;")
            insert(db, "a", 2)
            if number % 3:
                db.execute(f"PAUSE {made.query_id}; RESUME {made.query_id};")  # type: ignore[union-attr]
            if number % 2:
                db.execute(f"DROP STREAM s{number};")
        db.wait()
        assert len(list(db.execute("SELECT * FROM s10;"))) == 24
        assert all(status.state.value == "RUNNING" for status in db.engine.statuses())
        assert db.engine.driver.failure is None


def test_a_query_whose_function_hangs_can_be_ended(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "REMOVE_SECONDS", 0.1)
    with connect(gate) as db:
        hanging(db, gate)
        with pytest.raises(MillstreamError, match=r"Query CSAS_SLOW\w+ did not stop"):
            db.execute("DROP STREAM slow;")
        assert not db.engine.statuses()
        db.execute(FAST)
        insert(db, "a")
        wait_for(db, ("a", 3))
        gate.released.set()


def test_a_fault_stops_its_query_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(Gate()) as db:
        db.execute(SOURCES + FAST + "CREATE STREAM other AS SELECT k, v FROM b;")
        db.wait()
        instance, advance = db.engine.runtime, db.engine.runtime.advance
        failing = next(name for name in instance.query_ids() if "OTHER" in name)

        def broken(query_id: str, now: int, **options: bool) -> object:
            if query_id == failing:
                raise SystemExit("a fault of the program")
            return advance(query_id, now, **options)

        monkeypatch.setattr(instance, "advance", broken)
        insert(db, "a")
        insert(db, "b")
        wait_for(db, ("a", 3))
        states = {status.query_id: status for status in db.engine.statuses()}
        monkeypatch.undo()
        assert db.engine.driver.failure is None
        assert states[failing].state.value == "ERROR"
        assert "SystemExit" in states[failing].error
        db.execute(f"RESUME {failing};")
        db.wait()
        assert len(list(db.execute("SELECT * FROM other;"))) == 3


def test_a_paused_query_processes_nothing_that_arrives_after_the_statement(gate: Gate) -> None:
    """The statement waits for the step that is under way: it might read once more."""
    with connect(gate) as db:
        hanging(db, gate)
        query_id = next(iter(db.engine.runtime.query_ids()))
        pausing = threading.Thread(target=db.execute, args=("PAUSE ALL;",))
        pausing.start()
        until(lambda: db.engine.driver.workers.requested(query_id))
        gate.released.set()
        pausing.join()
        before = len(list(db.execute("SELECT * FROM slow;")))
        insert(db, "b")
        db.wait()
        assert [status.state.value for status in db.engine.statuses()] == ["PAUSED"]
        assert len(list(db.execute("SELECT * FROM slow;"))) == before <= 3
        db.execute("RESUME ALL;")
        db.wait()
        assert len(list(db.execute("SELECT * FROM slow;"))) == 6


def test_a_query_whose_function_hangs_pauses_when_it_returns(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "REMOVE_SECONDS", 0.1)
    with connect(gate) as db:
        hanging(db, gate)
        db.execute("PAUSE ALL;")
        gate.released.set()
        until(lambda: db.engine.statuses()[0].state.value == "PAUSED")


def test_closing_reports_what_did_not_stop(
    gate: Gate, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CLOSE_SECONDS", 0.2)
    path = f"{tmp_path}/x.db"
    properties = {"auto.offset.reset": "earliest"}
    hang = (millstream.udf("HANG", "INTEGER -> INTEGER", gate.hang),)
    db = millstream.connect(path, properties=properties, functions=hang)
    hanging(db, gate)
    db.execute(FAST)
    insert(db, "a")
    wait_for(db, ("a", 3))
    released, release = threading.Event(), db.engine.log.close

    def closed() -> None:
        release()
        released.set()

    monkeypatch.setattr(db.engine.log, "close", closed)
    with pytest.raises(MillstreamError, match=r"CSAS_SLOW\w+ did not stop"):
        db.close()
    db.close()
    gate.released.set()
    assert released.wait(PATIENCE_S), "the last one out releases the file"
    with millstream.connect(path, properties=properties, functions=hang) as again:
        again.wait()
        assert list(again.execute("SELECT * FROM fast;")) == [("a", 3)]
        assert len(list(again.execute("SELECT * FROM slow;"))) >= 3


def test_the_number_of_threads() -> None:
    for name in ("processing.threads", "ksql.streams.num.stream.threads"):
        before = set(threading.enumerate())
        with millstream.connect(properties={name: "3"}) as db:
            names = [thread.name for thread in threading.enumerate() if thread not in before]
            assert sum(name.startswith("millstream-processing") for name in names) == 3
            assert db.engine.settings.processing_threads == 3
    with pytest.raises(StatementError, match="at least one"):
        millstream.connect(properties={"processing.threads": "0"})


def test_one_thread_is_enough() -> None:
    with connect(Gate(), threads=1) as db:
        db.execute(SOURCES + FAST + "CREATE STREAM other AS SELECT k, v FROM a;")
        insert(db, "a")
        wait_for(db, ("a", 3))


def test_an_idle_database_waits_for_nothing(gate: Gate) -> None:
    with connect(gate) as db:
        db.execute(SOURCES + FAST + "CREATE STREAM again AS SELECT * FROM a EMIT CHANGES;")
        insert(db, "a")
        db.wait()
        queue = db.engine.driver._scheduler._queue
        assert (queue.ready, queue.next_at()) == (False, None), "no time at which anyone looks"
        insert(db, "a")
        db.wait()
        assert list(db.execute("SELECT n FROM fast WHERE k = 'a';")) == [(6,)]


def test_a_deleted_topic_wakes_the_query_that_reads_it(gate: Gate) -> None:
    with connect(gate) as db:
        db.execute(SOURCES + FAST)
        db.wait()
        db.engine.log.delete_topic("a")
        db.wait()
        (query,) = db.metrics().queries
        assert query.state == "ERROR"
