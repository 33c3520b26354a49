"""The file of an embedded log gives back the space of what has left it."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from millstream.log import compaction, moving, retention, shrinking
from millstream.log.embedded import EmbeddedLog
from millstream.log.examination import examine_log
from millstream.log.log import Appended, Topic
from millstream.model import file_space
from millstream.model.batch import raw_batch
from tests.draws import draws

MB = 1 << 20
BLOCK = 262_144
SEGMENT = {"segment.bytes": str(MB)}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_space, "SPARE_BYTES", MB)
    monkeypatch.setattr(shrinking, "_BETWEEN", MB)
    monkeypatch.setattr(shrinking, "LARGE_SEGMENT_BYTES", MB // 4)


class World:
    """A log, and all that was ever appended to its topics."""

    def __init__(self, path: Path, seed: int = 0, *, background: bool = False) -> None:
        self.path, self.background, self.now = path, background, 0
        self.rng = random.Random(seed)
        self.appended: dict[str, list[bytes]] = {}
        self.open()

    def open(self) -> None:
        self.log = EmbeddedLog.open(
            self.path, clock=lambda: self.now, tail_bytes=0, compacting=self.background
        )

    def reopen(self) -> None:
        self.log.close()
        assert not examine_log(str(self.path)).damages
        self.open()

    def create(self, *names: str) -> None:
        for name in names:
            self.log.create_topic(Topic(name, 1, config=SEGMENT))
            self.appended[name] = []

    def add(self, name: str, size: int, value_bytes: int = 50_000) -> None:
        """Append about so many bytes, which do not become less by compression."""
        values = [self.rng.randbytes(value_bytes) for _ in range(max(1, size // value_bytes))]
        batch = raw_batch([(b"k", value, 0) for value in values])
        self.log.send([Appended(name, 0, batch, len(values))])
        self.appended[name] += values

    def check(self, name: str) -> None:
        position, found = self.log.start_offset(name, 0), list[bytes]()
        first, end = position, False
        while not end:
            read = self.log.read(name, 0, position, 1000)
            found += read.records()["value"].to_pylist()
            position, end = read.next_offset, read.end
        assert found == self.appended[name][first:]

    def check_all(self) -> None:
        for name in self.appended:
            self.check(name)

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def assert_small(self) -> None:
        """The file has little that is not in use, and little is in use but the bytes of segments;
        each of them and the log's own tables have some blocks that are not full."""
        segments = [
            each for stored in self.log._contents.topics.values() for each in stored.segments
        ]
        with self.log._file.cursor() as cursor:
            space = moving.space(cursor)
        used = space.used_blocks * space.block_bytes
        assert self.size <= 1.5 * used + MB + BLOCK
        assert used <= sum(each.bytes for each in segments) + BLOCK * (2 * len(segments) + 8)


def filled(path: Path, *, background: bool = False) -> World:
    """Two topics whose segments alternate in the file, one of them large; and a small one that was
    written last."""
    world = World(path, background=background)
    world.create("large", "small", "last")
    for number in range(12):
        world.add("large", MB)
        if number % 4 == 3:
            world.add("small", MB // 3)
        world.log.maintain()
    world.add("last", 20_000)
    world.log._file.checkpoint()
    assert world.size > 12 * MB
    return world


def test_a_deleted_topic_gives_its_space_back(tmp_path: Path) -> None:
    world = filled(tmp_path / "a.db")
    world.log.delete_topic("large")
    del world.appended["large"]
    assert world.log.shrink() > 0
    world.assert_small()
    world.check_all()
    world.reopen()
    world.check_all()
    world.log.close()


def test_truncated_records_give_their_space_back(tmp_path: Path) -> None:
    world = filled(tmp_path / "a.db")
    world.log.truncate("large", 0, len(world.appended["large"]) - 10)
    world.now += retention.CHECK_MS
    world.add("small", 1000)
    world.log.maintain()
    assert world.log.shrink() > 0
    world.assert_small()
    world.check_all()
    world.log.close()


def test_nothing_is_moved_while_most_is_in_use(tmp_path: Path) -> None:
    world = filled(tmp_path / "a.db")
    world.log.truncate("large", 0, len(world.appended["large"]) // 4)
    world.now += retention.CHECK_MS
    world.add("small", 1000)
    world.log.maintain()
    before = world.size
    assert world.log.shrink() == 0
    assert world.size >= before
    world.log.close()


def test_it_is_looked_for_only_when_something_has_left(tmp_path: Path) -> None:
    world = filled(tmp_path / "a.db")
    work = world.log._upkeep.shrinking
    assert work.waiting, "what was dropped before it was opened is not known"
    world.log.shrink()
    assert not work.waiting
    world.add("small", MB)
    assert not work.waiting
    world.log.delete_topic("large")
    assert work.waiting
    world.log.close()


def test_a_small_file_is_left_alone(tmp_path: Path) -> None:
    world = World(tmp_path / "a.db")
    world.create("t")
    world.add("t", MB)
    world.log.delete_topic("t")
    assert not world.log._upkeep.shrinking.waiting
    world.log.close()
    memory = EmbeddedLog.open(":memory:")
    assert not memory._upkeep.shrinking.waiting
    memory.close()


def test_it_happens_in_the_background(tmp_path: Path) -> None:
    world = filled(tmp_path / "a.db", background=True)
    world.log.delete_topic("large")
    del world.appended["large"]
    world.now += retention.CHECK_MS
    world.add("small", 1000)
    world.log.maintain()
    thread = world.log._upkeep._thread
    if thread is not None:
        thread.join()
    world.assert_small()
    world.check_all()
    world.log.close()


def test_it_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    world = filled(tmp_path / "a.db")
    world.log.delete_topic("large")
    del world.appended["large"]
    work, answers = world.log._upkeep.shrinking, iter([True, True, False])
    assert work.run(lambda: next(answers)) <= 2
    assert work.waiting
    world.log.shrink()
    world.assert_small()
    world.check_all()
    world.log.close()


@pytest.mark.parametrize("when", ["before the copy", "after it"])
def test_a_topic_that_is_deleted_meanwhile_is_not_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    world = filled(tmp_path / "a.db")
    world.log.delete_topic("large")
    del world.appended["large"]
    copy, deleted = moving.copy, list[str]()

    def deleting(cursor: duckdb.DuckDBPyConnection, relation: str) -> bool:
        copied = when == "after it" and copy(cursor, relation)
        if not deleted and relation.startswith("log.records_"):
            for name, stored in dict(world.log._contents.topics).items():
                if any(stored.relation(segment) == relation for segment in stored.segments[:-1]):
                    deleted.append(name)
                    world.log.delete_topic(name)
                    del world.appended[name]
        return copied or (when == "before the copy" and copy(cursor, relation))

    monkeypatch.setattr(moving, "copy", deleting)
    world.log.shrink()
    assert deleted
    monkeypatch.undo()
    world.log.shrink()
    world.check_all()
    world.log.close()


def test_an_open_read_only_delays_it(tmp_path: Path) -> None:
    world = filled(tmp_path / "a.db")
    with world.log.connection.cursor() as cursor:
        cursor.begin()
        cursor.execute("SELECT count(*) FROM log.topics").fetchall()
        world.log.delete_topic("large")
        del world.appended["large"]
        world.log.shrink()
        world.check_all()
        cursor.rollback()
    assert world.log._upkeep.shrinking.waiting
    world.log.shrink()
    world.assert_small()
    world.check_all()
    world.log.close()


@pytest.mark.parametrize("call", (1, 2, 3, 5, 8))
@pytest.mark.parametrize("part", ["copy", "exchange"])
def test_a_failure_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, call: int
) -> None:
    world = filled(tmp_path / "a.db")
    world.log.delete_topic("large")
    del world.appended["large"]
    original, calls = getattr(moving, part), 0

    def failing(cursor: duckdb.DuckDBPyConnection, relation: str) -> object:
        nonlocal calls
        calls += 1
        done = original(cursor, relation)
        if calls == call:
            raise duckdb.IOException("no space left on device")
        return done

    monkeypatch.setattr(moving, part, failing)
    try:
        world.log.shrink()
    except Exception as error:
        assert "no space left" in str(error) or "No space" in str(error.__cause__)
        assert world.log._upkeep.shrinking.waiting
    assert calls >= min(call, 3)
    world.check_all()
    world.add("small", 1000)
    world.log.shrink()
    world.assert_small()
    world.reopen()
    world.check_all()
    with world.log.connection.cursor() as cursor:
        assert not [
            name
            for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            if name.endswith("_moved")
        ]
    world.log.close()


def test_a_backup_reads_what_was_there_when_it_began(tmp_path: Path) -> None:
    world = filled(tmp_path / "a.db")

    def held() -> dict[str, list[pa.Table]]:
        return {
            stored.topic.name: [
                pa.Table.from_batches(snapshot.rows(stored, each)) for each in stored.segments
            ]
            for stored in snapshot.contents.topics
        }

    with world.log.snapshot() as snapshot:
        before = held()
        world.log.delete_topic("large")
        world.log.shrink()
        assert held() == before
    del world.appended["large"]
    world.log.shrink()
    world.assert_small()
    world.check_all()
    world.log.close()


def test_what_a_kill_leaves_is_dropped(tmp_path: Path) -> None:
    world = filled(tmp_path / "a.db")
    segment = world.log._contents.topics["small"].segments[0]
    relation = world.log._contents.topics["small"].relation(segment)
    with world.log.connection.cursor() as cursor:
        moving.copy(cursor, relation)
    world.log.close()
    world.now = compaction.KEPT_MS
    world.open()
    world.log.compact()
    with world.log.connection.cursor() as cursor:
        names = cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    assert not [name for (name,) in names if name.endswith("_moved")]
    world.check_all()
    world.log.close()


@pytest.mark.parametrize("seed", range(draws(6)))
def test_any_history_leaves_a_small_file(tmp_path: Path, seed: int) -> None:
    """Topics come and go and are truncated, while readers go on and the file is shrunk."""
    world = World(tmp_path / "a.db", seed)
    rng, stopping = world.rng, threading.Event()

    def shrink() -> None:
        while not stopping.is_set():
            world.log.shrink()
            stopping.wait(0.002)

    with ThreadPoolExecutor() as pool:
        done = pool.submit(shrink)
        for step in range(60):
            names = list(world.appended)
            if len(names) < 4:
                world.create(f"t{step}")
                names.append(f"t{step}")
            name = rng.choice(names)
            match rng.randrange(8):
                case 0 if len(names) > 2:
                    world.log.delete_topic(name)
                    del world.appended[name]
                case 1 | 2:
                    first = world.log.start_offset(name, 0)
                    world.log.truncate(name, 0, rng.randint(first, len(world.appended[name])))
                case 3:
                    world.check(name)
                case _:
                    world.add(name, rng.choice((1000, 100_000, 2 * MB)))
            world.now += retention.CHECK_MS
            world.log.maintain()
        stopping.set()
        done.result()
    world.check_all()
    world.add(next(iter(world.appended)), 1000)
    world.log.maintain()
    world.log.shrink()
    world.assert_small()
    for name in list(world.appended)[:-1]:
        world.log.delete_topic(name)
        del world.appended[name]
    world.log.shrink()
    world.assert_small()
    world.reopen()
    world.check_all()
    world.log.close()


def test_the_settings_of_topics_move_with_them(tmp_path: Path) -> None:
    """The log's own tables are moved, too, with their columns' defaults and order."""
    world = filled(tmp_path / "a.db")

    def own() -> dict[str, pa.Table]:
        names = ("about", "topics", "segments", "starts", "positions", "writers")
        with world.log.connection.cursor() as cursor:
            return {name: cursor.sql(f"FROM log.{name}").to_arrow_table() for name in names}

    world.log.writer("w")
    world.log.delete_topic("large")
    before = own()
    world.log.shrink()
    after = own()
    del before["segments"], after["segments"]
    assert before == after
    world.log.close()
