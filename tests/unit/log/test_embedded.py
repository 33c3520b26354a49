"""What only the embedded log promises: one file, one process, full disks, settings."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from millstream.log import duckfile, starts
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Outcome, Topic
from millstream.log.logfile import STATE_BLOCK_BYTES, LogFile, in_doubt
from millstream.log.policy import policy_of
from millstream.log.stored import Segment, Stored, plan_insertion
from millstream.model.batch import NUMBERED_SCHEMA, raw_batch
from millstream.model.errors import (
    ConflictError,
    CorruptionError,
    StatementError,
    UnavailableError,
)
from tests.patience import PATIENCE_S
from tests.unit.log.suite import run

KILOBYTE = b"x" * 1000
IN_ANOTHER_PROCESS = """
import sys
from millstream.log.embedded import EmbeddedLog
from millstream.model.errors import UnavailableError
try:
    EmbeddedLog.open(sys.argv[1])
except UnavailableError as error:
    print(error.code, error)
"""
WITH_A_SIZE_LIMIT = """
import resource, sys
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import UnavailableError

log = EmbeddedLog.open(sys.argv[1])
log.create_topic(Topic("t", 1))
writer = log.writer("w")
batch = raw_batch([(b"k", b"x" * 1000, 0)] * 200)
appended = [Appended("t", 0, batch, 200)]
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
done = 0
try:
    while done < 100:
        writer.transact("g", appended, {("t", 0): done + 1})
        done += 1
except UnavailableError as error:
    print(error.code)
assert 0 < done < 100
assert log.end_offset("t", 0) == done * 200 and log.positions("g") == {("t", 0): done}
assert log.read("t", 0, 0, 10**6).count == done * 200
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.transact("g", appended, {("t", 0): done + 1})
log.close()
log = EmbeddedLog.open(sys.argv[1])
assert log.end_offset("t", 0) == (done + 1) * 200
assert log.positions("g") == {("t", 0): done + 1}
print("again")
"""
WITH_NO_ROOM_FOR_A_CHECKPOINT = """
import os, resource, sys
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import UnavailableError

log = EmbeddedLog.open(sys.argv[1], tail_bytes=0)
log.create_topic(Topic("t", 1))
writer = log.writer("w")
batch = raw_batch([(b"k", os.urandom(100_000), 0)] * 10)
resource.setrlimit(resource.RLIMIT_FSIZE, (69_000_000, resource.RLIM_INFINITY))
done = 0
try:
    while done < 100:
        writer.transact("g", [Appended("t", 0, batch, 10)], {("t", 0): done + 1})
        done += 1
        assert not log.maintain()
except UnavailableError as error:
    print(error.code)
appended = [Appended("t", 0, batch, 10)]
for call in (lambda: log.read("t", 0, 0, 1), lambda: log.writer("w").append(appended)):
    try:
        call()
    except UnavailableError as error:
        print(error.code)
log.close()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log = EmbeddedLog.open(sys.argv[1])
assert log.end_offset("t", 0) == done * 10 and log.positions("g") == {("t", 0): done}
log.writer("w").transact("g", [Appended("t", 0, batch, 10)], {("t", 0): done + 1})
log.close()
"""


def records(count: int, value: bytes = b"v") -> pa.Table:
    return raw_batch([(b"k", value, 0)] * count)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = EmbeddedLog.open(path)
    told = run(IN_ANOTHER_PROCESS, path)
    assert told.startswith("E-LOG-LOCKED")
    assert str(path) in told
    assert "open in another process" in told
    for threads in (1, 2):
        with pytest.raises(ConflictError, match="open in this process"):
            EmbeddedLog.open(path, threads=threads)
    log.create_topic(Topic("t", 1))
    log.close()
    again = EmbeddedLog.open(path, threads=2)
    assert again.topic("t") == Topic("t", 1)
    again.close()
    assert run(IN_ANOTHER_PROCESS, path) == ""


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"no log at all" * 1000)
    with pytest.raises(CorruptionError, match="cannot be read as a log"):
        EmbeddedLog.open(path)
    with pytest.raises(UnavailableError, match="folder"):
        EmbeddedLog.open(tmp_path / "missing" / "a.log")


def test_a_file_of_a_later_version(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    EmbeddedLog.open(path).close()
    with duckdb.connect(path) as other:
        other.execute("UPDATE log.about SET version = 99")
    with pytest.raises(UnavailableError, match="format 99"):
        EmbeddedLog.open(path)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    assert run(WITH_A_SIZE_LIMIT, tmp_path / "a.log").split() == ["E-LOG-FULL", "again"]


def test_a_checkpoint_without_room_loses_nothing(tmp_path: Path) -> None:
    told = run(WITH_NO_ROOM_FOR_A_CHECKPOINT, tmp_path / "a.log")
    assert told.split() == ["E-LOG-BROKEN"] * 3


def test_missing_records_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = EmbeddedLog.open(path)
    log.create_topic(Topic("t", 1))
    log.writer("w").append([Appended("t", 0, records(10), 10)])
    log.close()
    with duckdb.connect(path) as other:
        other.execute("DELETE FROM log.records_1_0 WHERE off = 4")
    with pytest.raises(CorruptionError, match="9 records where"):
        EmbeddedLog.open(path)


@pytest.mark.parametrize("tail_bytes", [0, 1 << 20])
def test_headers(tmp_path: Path, tail_bytes: int) -> None:
    log = EmbeddedLog.open(tmp_path / "a.log", tail_bytes=tail_bytes)
    log.create_topic(Topic("t", 1))
    writer = log.writer("w")
    given = [[{"key": "a", "value": b"\xff"}, {"key": "a", "value": None}], None, []]
    with_headers = raw_batch([(None, None, -5), (b"", b"", 0), (b"k", b"v", 1)], given)
    writer.append([Appended("t", 0, records(2), 2)])
    assert log.read("t", 0, 0, 9).batch["headers"].null_count == 2
    writer.append([Appended("t", 0, with_headers, 3)])
    writer.append([Appended("t", 0, records(1), 1)])
    for _ in range(2):
        batch = log.read("t", 0, 0, 9).batch
        assert batch.schema == NUMBERED_SCHEMA
        assert batch["headers"].to_pylist() == [None, None, *given, None]
        assert batch["key"].to_pylist() == [b"k", b"k", None, b"", b"k", b"k"]
        assert batch["timestamp"].to_pylist() == [0, 0, -5, 0, 1, 0]
        log.close()
        log = EmbeddedLog.open(tmp_path / "a.log", tail_bytes=tail_bytes)
    log.close()


def test_large_records_fill_segments_that_are_dropped_when_truncated(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = EmbeddedLog.open(path, tail_bytes=0)
    log.create_topic(Topic("t", 2))
    writer = log.writer("w")
    large = records(4, b"x" * (2 << 20))
    for _ in range(9):
        writer.append([Appended("t", 0, large, 4), Appended("t", 1, records(1), 1)])
    assert log.read("t", 0, 14, 6).count == 6

    def segments() -> list[tuple[int]]:
        sql = "SELECT number FROM log.segments ORDER BY 1"
        return log.connection.cursor().execute(sql).fetchall()

    assert segments() == [(0,), (1,), (2,)]
    assert log.maintain()
    log.truncate("t", 0, 21)
    log.maintain()
    assert segments() == [(0,), (1,), (2,)]
    log.truncate("t", 1, 6)
    log.maintain()
    assert segments() == [(1,), (2,)]
    log.close()
    log = EmbeddedLog.open(path)
    assert [log.start_offset("t", p) for p in (0, 1)] == [21, 6]
    assert [log.end_offset("t", p) for p in (0, 1)] == [36, 9]
    assert log.read("t", 0, 21, 99).count == 15
    assert log.read("t", 1, 6, 99).count == 3
    log.close()


def test_the_rows_of_truncations_do_not_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "SPARE_ROWS", 10)
    path = tmp_path / "a.log"
    log = EmbeddedLog.open(path)
    for name in ("gone", "t"):
        log.create_topic(Topic(name, 3))
    writer = log.writer("w")
    places = [(name, part) for name in ("gone", "t") for part in (0, 1)]
    writer.append([Appended(name, part, records(100), 100) for name, part in places])
    rows: list[tuple[int]] = []
    for number in range(1, 60):
        log.truncate("t", number % 2, number)
        if number < 40:
            log.truncate("gone", 0, number)
        if number == 40:
            log.delete_topic("gone")
        writer.transact("g", [], {("t", 0): number})
        with log.connection.cursor() as cursor:
            rows += cursor.execute("SELECT count(*) FROM log.starts").fetchall()
    assert max(rows)[0] <= 10 + 3
    # As after a crash: nothing is closed.
    shutil.copy(path, tmp_path / "b.log")
    shutil.copy(f"{path}.wal", tmp_path / "b.log.wal")
    found = EmbeddedLog.open(tmp_path / "b.log")
    assert [found.start_offset("t", part) for part in range(3)] == [58, 59, 0]
    found.close()
    log.close()


def test_a_truncation_is_written_with_the_next_transaction(tmp_path: Path) -> None:
    """So it costs none of its own, and nothing that follows it is durable without it."""
    log = EmbeddedLog.open(tmp_path / "a.log")
    log.create_topic(Topic("t", 2))
    writer = log.writer("w")
    writer.append([Appended("t", part, records(5), 5) for part in (0, 1)])
    crashes = iter(range(9))

    def after_a_crash() -> list[int]:
        folder = tmp_path / f"crash{next(crashes)}"
        folder.mkdir()
        for file in tmp_path.glob("a.log*"):
            shutil.copy(file, folder)
        found = EmbeddedLog.open(folder / "a.log")
        starts = [found.start_offset("t", part) for part in (0, 1)]
        found.close()
        return starts

    size = (tmp_path / "a.log.wal").stat().st_size
    log.truncate("t", 0, 2)
    log.truncate("t", 0, 3)
    log.truncate("t", 1, 4)
    assert (tmp_path / "a.log.wal").stat().st_size == size
    assert [log.start_offset("t", part) for part in (0, 1)] == [3, 4]
    assert after_a_crash() == [0, 0]
    with pytest.raises(StatementError):
        writer.append([Appended("absent", 0, records(1), 1)])
    writer.transact("g", [], {("t", 0): 3})
    assert after_a_crash() == [3, 4]
    log.truncate("t", 0, 5)
    log.delete_topic("t")
    log.create_topic(Topic("t", 2))
    assert after_a_crash() == [0, 0], "it was of another topic"
    writer.append([Appended("t", 0, records(5), 5)])
    log.truncate("t", 0, 1)
    log.close()
    assert after_a_crash() == [1, 0]


def test_a_truncation_outlives_a_transaction_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EmbeddedLog.open(tmp_path / "a.log")
    log.create_topic(Topic("t", 1))
    writer = log.writer("w")
    writer.append([Appended("t", 0, records(5), 5)])
    log.truncate("t", 0, 3)

    def lost(_self: LogFile, cursor: duckdb.DuckDBPyConnection) -> None:
        cursor.rollback()
        log._file.doubt = True
        raise in_doubt(log.path)

    with monkeypatch.context() as patched:
        patched.setattr(LogFile, "_commit", lost)
        assert writer.transact("g", [], {("t", 0): 3}) is Outcome.UNKNOWN
    log.writer("w").append([Appended("t", 0, records(1), 1)])
    assert log.start_offset("t", 0) == 3
    assert log.positions("g") == {}
    log.close()
    log = EmbeddedLog.open(tmp_path / "a.log")
    assert log.start_offset("t", 0) == 3
    assert log.read("t", 0, 3, 9).count == 3
    log.close()


def test_a_truncated_segment_is_dropped_when_the_next_one_is_opened(tmp_path: Path) -> None:
    log = EmbeddedLog.open(tmp_path / "a.log", tail_bytes=0)
    log.create_topic(Topic("t", 1))
    writer = log.writer("w")
    large = records(4, b"x" * (2 << 20))

    def segments() -> list[tuple[int]]:
        sql = "SELECT number FROM log.segments ORDER BY 1"
        return log.connection.cursor().execute(sql).fetchall()

    for _ in range(4):
        writer.append([Appended("t", 0, large, 4)])
    assert segments() == [(0,)]
    log.truncate("t", 0, 16)
    log.maintain()
    assert segments() == [(0,)], "records may still be appended to it"
    writer.append([Appended("t", 0, large, 4)])
    log.maintain()
    assert segments() == [(1,)]
    log.close()


def test_appends_of_all_sizes_and_schemas_take_turns(tmp_path: Path) -> None:
    """The names of the rows to insert stay bound between transactions, also after a failed one."""
    log = EmbeddedLog.open(tmp_path / "a.log", tail_bytes=0)
    log.create_topic(Topic("t", 1))
    writer = log.writer("w")
    headed = records(7)
    headed = headed.set_column(
        headed.column_names.index("headers"),
        "headers",
        pa.array([[{"key": "h", "value": b"v"}]] * 7, headed["headers"].type),
    )
    written = 0
    for batch in (records(7), records(1), records(2000), headed, records(8), headed, records(9)):
        writer.append([Appended("t", 0, batch, batch.num_rows)])
        written += batch.num_rows
        with pytest.raises(UnavailableError), log._change() as (cursor, rows):
            with rows.named(batch.slice(0, 5).drop_columns(["headers"])) as name:
                assert len(cursor.execute(f"FROM {name}").fetchall()) == min(5, batch.num_rows)
            cursor.execute("SELECT * FROM absent")
    found = log.read("t", 0, 0, 9999).batch
    assert found.num_rows == written
    assert found["headers"].null_count == written - 14
    log.close()


def test_segments_of_an_offset_range() -> None:
    topic = Topic("t", 2)
    segments = (Segment(0, (0, 0)), Segment(1, (10, 0)), Segment(2, (10, 7)))
    stored = Stored(1, topic, segments, starts=(0, 0), ends=(20, 9), policy=policy_of({}))

    def numbers(partition: int, first: int, stop: int) -> list[int]:
        return [s.number for s in stored.segments_between(partition, first, stop)]

    assert numbers(0, 0, 10) == [0]
    assert numbers(0, 9, 11) == [0, 2]
    assert numbers(1, 0, 7) == [1]
    assert numbers(1, 6, 9) == [1, 2]
    assert stored.dead_segments() == ()
    dead = replace(stored, starts=(10, 3)).dead_segments()
    assert [segment.number for segment in dead] == [0]


def test_rows_of_an_insertion_carry_no_empty_headers() -> None:
    stored = Stored(1, Topic("t", 2), (Segment(0, (0, 0)),), (0, 0), (0, 5), policy_of({}))
    appended = [Appended("t", 1, records(2), 2), Appended("t", 0, records(1), 1)]
    insertion = plan_insertion(stored, [*appended, Appended("t", 1, records(1), 1)])
    assert insertion.rows.column_names == ["part", "offset", "timestamp", "key", "value"]
    assert insertion.rows["offset"].to_pylist() == [5, 6, 0, 7]
    assert insertion.after.ends == (1, 8)


def test_callbacks_follow_appends(tmp_path: Path) -> None:
    log = EmbeddedLog.open(":memory:")
    log.create_topic(Topic("t", 1))
    writer = log.writer("w")
    woken = threading.Event()
    cancel = log.on_news(lambda _news: woken.set())
    writer.transact("g", [], {("t", 0): 0})
    assert not woken.is_set()
    writer.append([Appended("t", 0, records(1), 1)])
    assert woken.is_set()
    woken.clear()
    cancel()
    writer.append([Appended("t", 0, records(1), 1)])
    assert not woken.is_set()
    log.close()


def test_threads_append_and_read_at_once(tmp_path: Path) -> None:
    log = EmbeddedLog.open(tmp_path / "a.log", tail_bytes=0)
    log.create_topic(Topic("t", 1))

    def write(identity: str) -> None:
        writer = log.writer(identity)
        for i in range(20):
            writer.transact(identity, [Appended("t", 0, records(5), 5)], {("t", 0): i})

    def follow() -> None:
        offset = 0
        while offset < 300:
            offset = log.read("t", 0, offset, 50).next_offset

    threads = [threading.Thread(target=write, args=(str(i),)) for i in range(3)]
    threads.append(threading.Thread(target=follow, daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)
    assert log.end_offset("t", 0) == 300
    assert log.positions("2") == {("t", 0): 19}
    log.close()


def test_a_locked_instance_reaches_no_other_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    log = EmbeddedLog.open(tmp_path / "a.log", threads=2, memory_limit="1GB")
    log.attach_state(tmp_path / "it's state.duckdb")
    log.lock()
    cursor = log.connection.cursor()
    cursor.execute("CREATE TABLE millstream_state.t AS SELECT 1 AS a")
    cursor.execute("CHECKPOINT millstream_state")
    in_scope = pa.table({"a": [1]})
    assert in_scope.num_rows == 1
    for sql in (
        f"SELECT * FROM read_csv('{secret}')",
        f"COPY millstream_state.t TO '{tmp_path}/out.csv'",
        f"ATTACH '{tmp_path}/other.duckdb'",
        "SELECT * FROM in_scope",
        "SET memory_limit = '10GB'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "SELECT getenv('HOME')",
    ):
        with pytest.raises(duckdb.Error):
            cursor.execute(sql)
    log.create_topic(Topic("t", 1))
    assert log.writer("w").transact("g", [], {("t", 0): 1}) is Outcome.COMMITTED
    log.close()
    log = EmbeddedLog.open(tmp_path / "a.log")
    log.attach_state(tmp_path / "it's state.duckdb")
    assert log.connection.cursor().execute("SELECT a FROM millstream_state.t").fetchall() == [(1,)]
    log.close()


def test_a_closed_log_says_so(tmp_path: Path) -> None:
    log = EmbeddedLog.open(":memory:")
    writer = log.writer("w")
    log.close()
    for call in (log.topics, lambda: log.positions("g"), lambda: writer.append([])):
        with pytest.raises(UnavailableError, match="closed"):
            call()
    assert log.maintain() is False


def block_sizes(log: EmbeddedLog) -> dict[str, int]:
    sql = "SELECT database_name, block_size FROM pragma_database_size()"
    return dict(log.connection.cursor().execute(sql).fetchall())


def test_the_indexes_of_small_tables_take_little_memory(tmp_path: Path) -> None:
    log = EmbeddedLog.open(tmp_path / "a.log")
    log.attach_state(tmp_path / "a.state")
    assert block_sizes(log)["millstream_state"] == STATE_BLOCK_BYTES
    cursor = log.connection.cursor()
    for number in range(50):
        cursor.execute(f"CREATE TABLE millstream_state.t{number} (k BIGINT PRIMARY KEY)")
        cursor.execute(f"INSERT INTO millstream_state.t{number} VALUES (1)")
    sql = "SELECT memory_usage_bytes FROM duckdb_memory() WHERE tag = 'ART_INDEX'"
    ((used,),) = cursor.execute(sql).fetchall()
    assert 0 < used <= 50 * STATE_BLOCK_BYTES
    log.close()


def test_a_state_of_larger_blocks_is_opened_as_it_is(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "a.state", config={"default_block_size": 262_144}) as made:
        made.execute("CREATE TABLE t AS SELECT 7 AS n")
    log = EmbeddedLog.open(tmp_path / "a.log")
    log.attach_state(tmp_path / "a.state")
    assert block_sizes(log)["millstream_state"] == 262_144
    assert log.connection.cursor().execute("SELECT n FROM millstream_state.t").fetchall() == [(7,)]
    log.close()


def test_a_file_that_another_process_makes_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes that open one new file see that it does not exist, both of them."""
    path = tmp_path / "a.db"
    first = EmbeddedLog.open(path)
    first.create_topic(Topic("t", 1))
    first.close()
    made = path.stat().st_ino
    monkeypatch.setattr(duckfile.Path, "exists", lambda self: False)
    second = EmbeddedLog.open(path)
    monkeypatch.undo()
    assert second.topic("t") is not None
    second.close()
    assert path.stat().st_ino == made
    assert {file.name for file in tmp_path.iterdir()} <= {"a.db", "a.db.mark"}


def test_unfinished_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    old, young = (tmp_path / f"a.db.{digit * 32}.new" for digit in "0f")
    others = [tmp_path / name for name in ("a.db.new", "a.db.x.new", f"b.db.{'0' * 32}.new")]
    for file in (old, young, *others):
        file.write_bytes(b"")
    for file in (old, *others):
        os.utime(file, (0, 0))
    for _ in range(2):
        EmbeddedLog.open(tmp_path / "a.db").close()
    assert not old.exists(), "the process that was creating it has died"
    assert young.exists(), "another process may still be creating it"
    assert all(file.exists() for file in others), "not ours"


def test_upkeep_does_not_wait_for_a_log_in_use(tmp_path: Path) -> None:
    """A thread that has processed a query goes on with the next one while another one commits."""
    with closing(EmbeddedLog.open(tmp_path / "a.db")) as log:
        held, done = threading.Event(), threading.Event()

        def commit() -> None:
            with log._lock:
                held.set()
                done.wait(PATIENCE_S)

        thread = threading.Thread(target=commit)
        thread.start()
        assert held.wait(PATIENCE_S)
        assert log.maintain() is False
        assert thread.is_alive()
        done.set()
        thread.join()
