"""Of the records of a compacted topic, the newest ones of their keys stay."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from millstream.log import compaction, retention
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Fetched, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import UnavailableError
from tests.draws import draws

HOUR = 3_600_000
ALL = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "10"}
"""Everything but the last segment is compacted, which is closed after a few records."""
Record = tuple[bytes | None, bytes | None, int]
"""Its key, value and time."""


@dataclass
class Clock:
    now: int = 100 * HOUR

    def __call__(self) -> int:
        return self.now


@dataclass
class World:
    """A compacted topic, and all that was ever appended to it."""

    path: Path | str
    config: dict[str, str]
    parts: int = 1
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.appended: list[list[Record]] = [[] for _ in range(self.parts)]
        self.open()
        self.log.create_topic(Topic("t", self.parts, config=self.config))

    def open(self) -> None:
        self.log = EmbeddedLog.open(self.path, clock=self.clock, tail_bytes=0, compacting=False)

    def reopen(self) -> None:
        self.log.close()
        self.open()

    def add(self, part: int, *records: Record) -> None:
        self.log.send([Appended("t", part, raw_batch(records), len(records))])
        self.appended[part] += records

    def put(self, *keys: str, value: bytes | None = b"v") -> None:
        """Add a record for each key, each with a segment of its own."""
        for key in keys:
            self.clock.now += 10
            self.add(0, (key.encode(), value, self.clock.now))

    def left(self, part: int = 0) -> list[int]:
        """The offsets that are left, compared with what was appended."""
        position, end, offsets = self.log.start_offset("t", part), False, list[int]()
        while not end:
            found = self.log.read("t", part, position, 1_000_000)
            offsets += self.checked(part, found)
            position, end = found.next_offset, found.end
        assert position == len(self.appended[part])
        return offsets

    def checked(self, part: int, found: Fetched[pa.Table]) -> list[int]:
        """The offsets of a read whose records are those that were appended."""
        batch = found.records()
        offsets: list[int] = batch["offset"].to_pylist()
        columns = (batch[name].to_pylist() for name in ("key", "value", "timestamp"))
        got = list(zip(*columns, strict=True))
        assert got == [self.appended[part][offset] for offset in offsets]
        assert found.count == len(offsets)
        return offsets

    def closed(self, part: int = 0) -> int:
        """The offset before which segments are closed."""
        return self.log._contents.topics["t"].segments[-1].first[part]


def superseded(records: Sequence[Record]) -> set[int]:
    """The offsets of records whose key comes again, or that have none."""
    newest = {record[0]: offset for offset, record in enumerate(records)}
    return {
        offset for offset, (key, _, _) in enumerate(records) if key is None or newest[key] != offset
    }


def test_the_newest_record_of_each_key_stays() -> None:
    world = World(":memory:", ALL)
    world.put(*"abcabcabd")
    assert world.log.compact() > 0
    # d is the last segment.
    assert world.left() == [5, 6, 7, 8]
    assert world.log.compact() == 0, "there is nothing new"
    world.put(*"cce")
    assert world.log.compact() > 0
    assert world.left() == [6, 7, 8, 10, 11]
    world.log.close()


def test_what_is_not_in_a_closed_segment_supersedes_nothing() -> None:
    world = World(":memory:", ALL)
    world.put(*"aa")
    world.log.compact()
    assert world.left() == [0, 1]
    world.log.close()


def test_tombstones_leave_after_a_while() -> None:
    world = World(":memory:", {**ALL, "delete.retention.ms": str(HOUR)})
    world.put(*"abc")
    world.put("b", value=None)
    world.put("x")
    world.log.compact()
    assert world.left() == [0, 2, 3, 4], "the tombstone tells readers that are not so far"
    world.clock.now += HOUR + 1
    world.put("y")
    world.log.compact()
    assert world.left() == [0, 2, 4, 5]
    world.log.close()


def test_a_tombstone_stays_as_long_as_it_has_to_however_often_it_is_rewritten() -> None:
    world = World(":memory:", {**ALL, "delete.retention.ms": str(HOUR)})
    world.put("a", value=None)
    for number in range(8):
        world.put("x", "y")
        world.log.compact()
        assert (0 in world.left()) == (number < 5)
        world.clock.now += HOUR // 5
    world.log.close()


def test_records_without_a_key_leave() -> None:
    world = World(":memory:", ALL)
    world.put("a")
    world.clock.now += 10
    world.add(0, (None, b"v", world.clock.now))
    world.put("b", "c")
    world.log.compact()
    assert world.left() == [0, 2, 3]
    world.log.close()


def test_young_records_stay() -> None:
    world = World(":memory:", {**ALL, "min.compaction.lag.ms": str(HOUR)})
    world.put(*"aaa")
    world.clock.now += HOUR
    world.put(*"aaa")
    world.log.compact()
    assert world.left() == [2, 3, 4, 5]
    world.log.close()


def test_what_a_group_has_to_read_stays() -> None:
    world = World(":memory:", ALL)
    writer = world.log.writer("w")
    world.put(*"aaaaaa")
    writer.transact("slow", [], {("t", 0): 3})
    writer.transact("quick", [], {("t", 0): 6})
    world.log.compact()
    assert world.left() == [2, 3, 4, 5]
    world.log.forget_group("slow")
    world.log.compact()
    assert world.left() == [4, 5]
    world.log.close()


def test_it_waits_until_enough_is_new() -> None:
    world = World(":memory:", {**ALL, "min.cleanable.dirty.ratio": "0.5"})
    world.put(*"abcdefgh", "a")
    assert world.log.compact() > 0, "nothing was compacted before"
    assert len(world.left()) == 9
    world.put(*"abcd")
    assert world.log.compact() == 0
    world.put(*"efgh")
    assert world.log.compact() > 0
    assert len(world.left()) == 9
    world.log.close()


def test_old_segments_are_not_written_again_in_vain() -> None:
    world = World(":memory:", {**ALL, "segment.bytes": "1000"})
    world.put(*map(str, range(100)))
    world.log.compact()
    before = {segment.table for segment in world.log._contents.topics["t"].segments}
    world.put(*(["last"] * 5))
    world.log.compact()
    after = {segment.table for segment in world.log._contents.topics["t"].segments}
    assert len(before) == 4
    assert len(before & after) == 2, "those that were full and have lost nothing"
    world.log.close()


def test_a_topic_that_is_deleted_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(":memory:", ALL)
    world.put(*"aaaa")
    written = compaction.rewriting.rewrite

    def deleting(*arguments: object) -> object:
        new = written(*arguments)  # type: ignore[arg-type]
        world.log.delete_topic("t")
        world.log.create_topic(Topic("t", 1, config=ALL))
        return new

    monkeypatch.setattr(compaction.rewriting, "rewrite", deleting)
    assert world.log.compact() == 0
    monkeypatch.undo()
    world.appended = [[]]
    world.put(*"bb")
    assert world.left() == [0, 1]
    world.clock.now += 2 * compaction.KEPT_MS
    world.log.compact()
    assert len(tables(world.log)) == 2, "the one that was written for nothing is gone"
    world.log.close()


def tables(log: EmbeddedLog) -> list[str]:
    with log.connection.cursor() as cursor:
        found = cursor.execute(
            "SELECT table_name FROM duckdb_tables() WHERE starts_with(table_name, 'records_')"
        ).fetchall()
    return [name for (name,) in found]


def test_tables_of_an_exchange_that_was_not_finished(tmp_path: Path) -> None:
    world = World(tmp_path / "a.db", ALL)
    world.put(*"aaaa")
    world.log.compact()
    assert len(tables(world.log)) == 3 + 2, "readers may still have the old ones"
    with world.log.connection.cursor() as cursor:
        cursor.execute("CREATE TABLE log.records_1_7_9 (off BIGINT)")
    world.reopen()
    world.put("a")
    world.log.compact()
    world.clock.now += 2 * compaction.KEPT_MS
    world.log.compact()
    assert len(tables(world.log)) == len(world.log._contents.topics["t"].segments)
    assert world.left() == [3, 4]
    world.log.close()


@pytest.mark.parametrize("seed", range(draws(10)))
def test_whatever_happens(seed: int, tmp_path: Path) -> None:
    """Nothing leaves that is not superseded, and all that is does, from closed segments; each read
    finds just what is left."""
    draw = random.Random(seed)
    config = {**ALL, "segment.ms": str(draw.choice([10, 100])), "delete.retention.ms": "1000"}
    config |= {"segment.bytes": str(draw.choice([500, 5000, 1 << 20]))}
    world = World(tmp_path / "a.db", config, parts=2)
    for _ in range(30):
        world.clock.now += draw.choice([0, 5, 50, 700])
        match draw.choice(["add", "add", "add", "compact", "reopen"]):
            case "add":
                records = [drawn(draw, world.clock.now) for _ in range(draw.randint(1, 20))]
                world.add(draw.randrange(2), *records)
            case "compact":
                world.log.compact()
                for part in range(2):
                    check_left(world, part)
            case "reopen":
                world.reopen()
        for part in range(2):
            check_reads(world, part, draw)
    world.log.close()


def drawn(draw: random.Random, now: int) -> Record:
    key = draw.choice([None, *(b"k%d" % number for number in range(9))])
    return key, draw.choice([None, b"v%d" % draw.randrange(1000), b"w" * 90]), now


def check_left(world: World, part: int) -> None:
    left, all_ = set(world.left(part)), world.appended[part]
    closed = world.closed(part)
    gone = superseded(all_[:closed])
    tombstones = {offset for offset, (_, value, _) in enumerate(all_) if value is None}
    assert not left & gone
    missing = set(range(len(all_))) - left - gone
    assert missing <= tombstones
    assert all(offset < closed and all_[offset][2] < world.clock.now - 1000 for offset in missing)


def check_reads(world: World, part: int, draw: random.Random) -> None:
    left, end = world.left(part), len(world.appended[part])
    for _ in range(5):
        offset, most = draw.randint(0, end), draw.choice([1, 2, 5, 1000])
        wanted = [each for each in left if each >= offset][:most]
        found = world.log.read("t", part, offset, most)
        assert world.checked(part, found) == wanted[: found.count]
        assert found.count or found.end
        assert found.next_offset > offset or offset == end
    walk(world, part, draw, left)


def walk(world: World, part: int, draw: random.Random, left: list[int]) -> None:
    """A reader goes through all that is before an offset."""
    before = draw.choice([None, draw.randint(0, len(world.appended[part]))])
    got: list[int] = []
    # What a reader has in memory stays as it was.
    reader = world.log.reader()
    position, end = 0, False
    while not end:
        found = reader.read("t", part, position, draw.choice([1, 3, 50, 9000]), before)
        assert found.next_offset > position or found.end
        got += world.checked(part, found)
        position, end = found.next_offset, found.end
    assert got == [offset for offset in left if before is None or offset < before]


def test_readers_and_a_writer_go_on_meanwhile(tmp_path: Path) -> None:
    """Whatever is compacted while a reader goes through the log, it finds the newest values."""
    world = World(tmp_path / "a.db", {**ALL, "segment.ms": "200"})
    done = threading.Event()

    def write() -> None:
        draw = random.Random(1)
        for number in range(600):
            world.put(f"k{draw.randrange(20)}", value=b"%d" % number)
        done.set()

    def read() -> dict[bytes, bytes]:
        table, position, reader = dict[bytes, bytes](), 0, world.log.reader()
        while not done.is_set() or position < world.log.end_offset("t", 0):
            batch = reader.read("t", 0, position, 50)
            rows = batch.records()
            table.update(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))
            position = batch.next_offset
        return table

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        writing = pool.submit(write)
        compacted = 0
        while not done.is_set():
            compacted += world.log.compact()
        writing.result()
        newest = {key: value for key, value, _ in world.appended[0]}
        assert all(reader.result() == newest for reader in readers)
    assert compacted
    assert len(world.left()) < 100
    world.log.close()


def test_it_is_done_in_the_background_and_ends_with_the_log(tmp_path: Path) -> None:
    clock = Clock()
    log = EmbeddedLog.open(tmp_path / "a.db", clock=clock, tail_bytes=0)
    log.create_topic(Topic("t", 1, config=ALL))
    first, number = 0, 0
    while first == 0:
        clock.now += retention.CHECK_MS
        log.send([Appended("t", 0, raw_batch([(b"k", b"v", clock.now)]), 1)])
        number += 1
        (first,) = log.read("t", 0, 0, 1).records()["offset"].to_pylist()
    assert number > 2
    log.close()
    assert "millstream-compaction" not in {thread.name for thread in threading.enumerate()}


def test_what_cannot_be_compacted_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    clock, failing = Clock(), [True]
    real = compaction.Compaction.run

    def run(self: compaction.Compaction, goes_on: Callable[[], bool]) -> None:
        if failing[0]:
            raise UnavailableError("the disk is full")
        real(self, goes_on)

    monkeypatch.setattr(compaction.Compaction, "run", run)
    log = EmbeddedLog.open(tmp_path / "a.db", clock=clock, tail_bytes=0)
    log.create_topic(Topic("t", 1, config=ALL))

    def write(count: int) -> None:
        for _ in range(count):
            clock.now += retention.CHECK_MS
            log.send([Appended("t", 0, raw_batch([(b"k", b"v", clock.now)]), 1)])
            thread = log._upkeep._thread
            if thread is not None:
                thread.join()

    def told() -> list[str]:
        return [one.message for one in caplog.records if "compacted" in one.message]

    write(6)
    [message] = told()
    assert "the disk is full" in message and "tried again" in message
    failing[0] = False
    write(3)
    failing[0] = True
    write(6)
    assert len(told()) == 2
    log.close()


VERSION_2 = """
CREATE SCHEMA log;
CREATE TABLE log.about (version INTEGER, next_topic INTEGER, openings BIGINT);
CREATE TABLE log.topics (
    id INTEGER, name VARCHAR, partitions INTEGER, replicas INTEGER, config MAP(VARCHAR, VARCHAR),
    numbered BOOLEAN);
CREATE TABLE log.segments (topic INTEGER, number INTEGER, first BIGINT[], headers BOOLEAN);
CREATE TABLE log.starts (topic INTEGER, part INTEGER, first BIGINT);
CREATE TABLE log.positions (grp VARCHAR, topic VARCHAR, part INTEGER, position BIGINT);
CREATE TABLE log.writers (identity VARCHAR, epoch BIGINT);
INSERT INTO log.about VALUES (2, 2, 1);
INSERT INTO log.topics VALUES (1, 't', 1, 1, map(['cleanup.policy'], ['compact']), TRUE);
INSERT INTO log.segments VALUES (1, 0, [0], FALSE), (1, 1, [2], FALSE);
CREATE TABLE log.records_1_0 (
    part INTEGER, off BIGINT, ts BIGINT, key BLOB, value BLOB, arrival BIGINT);
CREATE TABLE log.records_1_1 AS FROM log.records_1_0;
INSERT INTO log.records_1_0 VALUES (0, 0, 5, 'k'::BLOB, 'v'::BLOB, 1), (0, 1, 6, 'k'::BLOB, 'w', 2);
INSERT INTO log.records_1_1 VALUES (0, 2, 7, 'x'::BLOB, 'y'::BLOB, 3);
"""


def test_a_file_of_the_format_before(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with duckdb.connect(path) as other:
        other.execute(VERSION_2)
    for _ in range(2):
        log = EmbeddedLog.open(path, tail_bytes=0, compacting=False)
        log.compact()
        assert log.read("t", 0, 0, 10).records()["value"].to_pylist() == [b"w"]
        assert log.read("t", 0, 2, 10).records()["value"].to_pylist() == [b"y"]
        log.close()


def test_what_was_replaced_leaves_although_nothing_is_written(tmp_path: Path) -> None:
    clock = Clock()
    log = EmbeddedLog.open(tmp_path / "a.db", clock=clock, tail_bytes=0)
    log.create_topic(Topic("t", 1, config=ALL))
    upkeep = log._upkeep
    while not upkeep.compaction.drops_at:
        clock.now += retention.CHECK_MS
        log.send([Appended("t", 0, raw_batch([(b"k", b"v", clock.now)]), 1)])
        if (thread := upkeep._thread) is not None:
            thread.join()
    assert len(tables(log)) > len(log._contents.topics["t"].segments)
    rounds = 0
    while upkeep.compaction.drops_at and rounds < 5:
        # What the timer does when it is time.
        assert upkeep._timer is not None
        upkeep._timer.cancel()
        clock.now = max(clock.now, upkeep._timer_at)
        upkeep._expired()
        if (thread := upkeep._thread) is not None:
            thread.join()
        rounds += 1
    assert len(tables(log)) == len(log._contents.topics["t"].segments)
    log.close()
