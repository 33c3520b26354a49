"""Records leave an embedded log when they are too old, or too many."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream.log import policy, retention
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import CorruptionError, StatementError
from millstream.model.settings import EngineSettings
from tests.draws import draws

HOUR = 3_600_000
DAY = {"retention.ms": str(24 * HOUR)}


@dataclass
class Clock:
    """A clock that is set by hand; each time it is, the next transaction looks for old records."""

    now: int = 100 * HOUR

    def __call__(self) -> int:
        return self.now

    def wait(self, ms: int) -> None:
        self.now += max(ms, retention.CHECK_MS)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def opened(path: Any, clock: Clock, *topics: Topic) -> EmbeddedLog:
    log = EmbeddedLog.open(path, clock=clock, tail_bytes=0)
    for topic in topics:
        log.create_topic(topic)
    return log


def add(log: EmbeddedLog, topic: str, part: int, *times: int, value: bytes = b"v") -> None:
    batch = raw_batch([(b"k", value, time) for time in times])
    log.send([Appended(topic, part, batch, len(times))])


def starts(log: EmbeddedLog, topic: str = "t", parts: int = 2) -> list[int]:
    return [log.start_offset(topic, part) for part in range(parts)]


def segments(log: EmbeddedLog) -> int:
    with log.connection.cursor() as cursor:
        ((found,),) = cursor.execute("SELECT count(*) FROM log.segments").fetchall()
    return int(found)


def test_old_segments_leave(clock: Clock, tmp_path: Path) -> None:
    log = opened(tmp_path / "a.db", clock, Topic("t", 2, config=DAY), Topic("for ever", 1))
    for _ in range(12):
        for part in (0, 1):
            add(log, "t", part, clock.now, clock.now)
        add(log, "for ever", 0, clock.now)
        clock.wait(6 * HOUR)
    # Records of a segment are less than 6 hours apart: each round has its own.
    add(log, "for ever", 0, clock.now)
    assert starts(log) == [16, 16], "the records of 4 rounds are not older than a day"
    assert segments(log) == 4 + 1
    assert log.start_offset("for ever", 0) == 0
    assert log.read("t", 0, 16, 100).count == 8
    with pytest.raises(CorruptionError, match="15 records are lost"):
        log.read("t", 0, 1, 1)
    log.close()
    clock.wait(12 * HOUR)
    again = opened(tmp_path / "a.db", clock)
    assert starts(again) == [16, 16]
    add(again, "for ever", 0, clock.now)
    assert starts(again) == [20, 20], "after the file was opened again, too"
    again.close()


def test_the_last_segment_leaves_when_nothing_comes_any_more(clock: Clock) -> None:
    log = opened(":memory:", clock, Topic("t", 2, config=DAY), Topic("other", 1))
    add(log, "t", 0, clock.now, clock.now + 5)
    for _ in range(3):
        clock.wait(12 * HOUR)
        add(log, "other", 0, clock.now)
    assert starts(log) == [2, 0]
    add(log, "t", 0, clock.now)
    assert log.read("t", 0, 2, 10).count == 1
    log.close()


def test_what_a_group_has_to_read_stays(clock: Clock) -> None:
    log = opened(":memory:", clock, Topic("t", 1, config=DAY))
    writer = log.writer("w")
    writer.transact("slow", [], {("t", 0): 7})
    for _ in range(4):
        add(log, "t", 0, *[clock.now] * 10)
        clock.wait(12 * HOUR)
    clock.wait(HOUR)
    writer.transact("quick", [], {("t", 0): 40})
    assert starts(log, parts=1) == [7]
    log.forget_group("slow")
    clock.wait(HOUR)
    add(log, "t", 0, clock.now)
    assert starts(log, parts=1) == [30]
    log.close()


def test_more_bytes_than_are_kept_leave(clock: Clock) -> None:
    config = {"retention.bytes": str(40 << 20)}
    log = opened(":memory:", clock, Topic("t", 1, config=config))
    value = b"x" * (1 << 20)
    for _ in range(16):
        add(log, "t", 0, *[clock.now] * 10, value=value)
        clock.wait(1)
    kept = log.end_offset("t", 0) - log.start_offset("t", 0)
    # A segment of such records has some 32 MB.
    assert 40 <= kept <= 40 + 2 * 40
    log.close()


@pytest.mark.parametrize(
    "config",
    [
        {**DAY, "cleanup.policy": "compact"},
        {"retention.ms": "-1"},
        {"retention.ms": "soon"},
        {},
    ],
)
def test_topics_that_keep_all(clock: Clock, config: dict[str, str]) -> None:
    log = opened(":memory:", clock, Topic("t", 1, config=config))
    for _ in range(9):
        add(log, "t", 0, clock.now)
        clock.wait(24 * HOUR)
    assert starts(log, parts=1) == [0]
    log.close()


@pytest.mark.parametrize("seed", range(draws(12)))
def test_nothing_younger_leaves_and_nothing_much_older_stays(seed: int, clock: Clock) -> None:
    rng = random.Random(seed)
    kept_ms = rng.choice([4, 24, 100]) * HOUR
    topic = Topic("t", 3, config={"retention.ms": str(kept_ms)})
    log = opened(":memory:", clock, topic, Topic("other", 1))
    times: list[list[int]] = [[], [], []]
    for _ in range(60):
        for part in rng.sample(range(3), rng.randint(0, 3)):
            made = [clock.now - rng.randint(0, HOUR // 2) for _ in range(rng.randint(1, 5))]
            add(log, "t", part, *made)
            times[part] += made
        clock.wait(rng.randint(0, kept_ms // 3))
        add(log, "other", 0, clock.now)
        for part, own in enumerate(times):
            start = log.start_offset("t", part)
            assert all(time < clock.now - kept_ms for time in own[:start])
            found = log.read("t", part, start, 10_000)
            assert found.records()["timestamp"].to_pylist() == own[start:]
            # The segment that follows the oldest one that is kept ends at the latest a quarter
            # later; in a segment records of others may come later than its own.
            limit = clock.now - kept_ms - kept_ms // 4 - HOUR - kept_ms // 3
            assert all(time >= limit for time in own[start:])
    log.close()


def test_the_space_of_what_has_left_is_used_again(clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    log = opened(path, clock, Topic("t", 1, config=DAY))
    sizes = []
    for _ in range(40):
        add(log, "t", 0, *[clock.now] * 8, value=random.Random(1).randbytes(1 << 20))
        clock.wait(12 * HOUR)
        with log.connection.cursor() as cursor:
            cursor.execute("CHECKPOINT")
        sizes.append(path.stat().st_size)
    assert max(sizes[20:]) <= max(sizes[:20]) < 80 << 20
    log.close()


def test_of_a_statement(tmp_path: Path) -> None:
    with millstream.connect(tmp_path / "a.db") as db:
        db.execute(
            "CREATE STREAM s (n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON',"
            " RETENTION_MS=86400000);"
            "CREATE STREAM t WITH (RETENTION_MS=3600000) AS SELECT * FROM s;"
        )
        found = {name: db.engine.log.topic(name) for name in ("s", "T")}
        assert [topic and topic.config.get("retention.ms") for topic in found.values()] == [
            *("86400000", "3600000"),
        ]


def test_limits_that_are_changed_count_for_what_is_there(clock: Clock, tmp_path: Path) -> None:
    log = opened(tmp_path / "a.db", clock, Topic("t", 2))
    add(log, "t", 0, 99 * HOUR, 99 * HOUR)
    clock.wait(HOUR)
    log.maintain()
    log.configure_topic("t", {"retention.ms": str(HOUR)})
    log.maintain()
    clock.wait(0)
    log.maintain()
    assert starts(log) == [2, 0]
    add(log, "t", 0, clock.now)
    log.configure_topic("t", {"retention.ms": None})
    clock.wait(99 * HOUR)
    for _ in range(3):
        clock.wait(0)
        log.maintain()
    assert starts(log) == [2, 0]
    log.close()
    with pytest.raises(StatementError, match=r"is no retention\.ms of a topic"):
        opened(tmp_path / "a.db", clock).configure_topic("t", {"retention.ms": "soon"})


@pytest.mark.parametrize("text", ["9" * 30, "9" * 5000, "٣", "-5", "", "1.5"])
def test_no_setting_of_an_older_file_stops_the_log(clock: Clock, tmp_path: Path, text: str) -> None:
    """Those that are given when a topic is created are not checked, as was so before."""
    config = dict.fromkeys((*policy.SETTINGS,), text) | {"cleanup.policy": "compact,delete"}
    log = opened(tmp_path / "a.db", clock, Topic("t", 2, 1, config))
    for _ in range(3):
        add(log, "t", 0, clock.now)
        clock.wait(HOUR)
        log.maintain()
        log.usage(["t"])
    assert starts(log) in ([0, 0], [2, 0], [3, 0])
    log.close()


class Timers:
    """Stands in for `threading.Timer`: what was started last, and is not cancelled."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.call: Callable[[], None] | None = None

    def __call__(self, seconds: float, call: Callable[[], None]) -> Timers:
        self.waits.append(seconds)
        self.next = call
        return self

    def start(self) -> None:
        self.call = self.next

    def cancel(self) -> None:
        self.call = None

    def fire(self) -> None:
        call, self.call = self.call, None
        assert call is not None
        call()


def test_records_of_an_idle_database_leave(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else happens than that a timer fires, and none is there when nothing can expire."""
    timers = Timers()
    monkeypatch.setattr("millstream.log.upkeep.threading.Timer", timers)
    log = EmbeddedLog.open(tmp_path / "a.db", clock=clock, tail_bytes=0)
    log.maintain()
    log.create_topic(Topic("t", 1, config=DAY))
    add(log, "t", 0, clock.now, clock.now)
    log.maintain()
    assert timers.waits == [60], "the look before knows nothing of these records"
    clock.now += 60_000
    timers.fire()
    assert timers.waits == [60, 24 * 3600], "what has grown counts as new"
    assert log.start_offset("t", 0) == 0
    clock.now += 24 * HOUR
    timers.fire()
    assert log.start_offset("t", 0) == 2
    assert timers.call is None, "nothing is left that could be too old"
    log.close()
    again = EmbeddedLog.open(tmp_path / "a.db", clock=clock, tail_bytes=0)
    assert again.start_offset("t", 0) == 2
    again.close()


def test_a_closed_log_waits_for_nothing(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers()
    monkeypatch.setattr("millstream.log.upkeep.threading.Timer", timers)
    log = opened(tmp_path / "a.db", clock, Topic("t", 1, config=DAY))
    add(log, "t", 0, clock.now)
    log.maintain()
    assert timers.call is not None
    log.close()
    assert timers.call is None
    timers.next()
    assert timers.call is None


def test_settings_for_all_topics(tmp_path: Path) -> None:
    """For those that statements make, of streams and of tables; a statement may say otherwise."""
    settings = EngineSettings(topic_settings={"retention.ms": "1000", "segment.bytes": "4096"})
    with millstream.connect(tmp_path / "a.db", settings=settings) as db:
        db.execute(
            "CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, "
            "VALUE_FORMAT='JSON'); CREATE STREAM kept (k STRING KEY, n INT) WITH (KAFKA_TOPIC="
            "'kept', PARTITIONS=1, VALUE_FORMAT='JSON', RETENTION_MS=5000);"
            "CREATE TABLE t AS SELECT k, COUNT(*) AS c FROM s GROUP BY k;"
        )
        topics = {topic.name: dict(topic.config) for topic in db.engine.log.topics()}
    assert topics["s"] == {
        "cleanup.policy": "delete",
        "retention.ms": "1000",
        "segment.bytes": "4096",
    }
    assert topics["kept"]["retention.ms"] == "5000"
    assert topics["T"]["segment.bytes"] == "4096"
    assert topics["T"]["cleanup.policy"] == "compact"
    internal = [config for name, config in topics.items() if name.startswith("_millstream")]
    assert internal and not any("segment.bytes" in config for config in internal)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("retention", "1", "has no setting 'retention'"),
        ("retention.ms", "day", "'day' is no retention.ms"),
        ("cleanup.policy", "compact", "streams delete, tables compact"),
    ],
)
def test_settings_for_all_topics_that_mean_nothing(
    tmp_path: Path, name: str, value: str, told: str
) -> None:
    settings = EngineSettings(topic_settings={name: value})
    with pytest.raises(StatementError, match=told):
        millstream.connect(tmp_path / "a.db", settings=settings)


def test_what_is_truncated_gives_its_space_back(clock: Clock, tmp_path: Path) -> None:
    """A changelog is truncated behind each snapshot: what is left of it is a few MB, however much
    has passed it."""
    path = tmp_path / "a.db"
    log = opened(path, clock, Topic("t", 2, config={"retention.ms": "-1"}))
    value = bytes(random.Random(1).randrange(256) for _ in range(50_000))
    most = 0
    for _ in range(80):
        for part in (0, 1):
            add(log, "t", part, *[clock.now] * 10, value=value)
            log.truncate("t", part, log.end_offset("t", part) - 10)
        log.maintain()
        most = max(most, segments(log))
    assert log.end_offset("t", 0) == 800
    assert most <= 3
    with log.connection.cursor() as cursor:
        tables = cursor.execute(
            "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'records_%'"
        ).fetchall()
        sizes = [
            cursor.execute(f'SELECT sum(octet_length(value)) FROM log."{name}"').fetchall()[0][0]
            for (name,) in tables
        ]
    assert sum(size or 0 for size in sizes) < 8 << 20
    usage = log.usage(["t"])["t"]
    assert (usage.records, usage.bytes) == (20, 20 * 50_021)
    offsets = log.read("t", 1, 790, 100).batch["offset"].to_pylist()
    assert offsets == list(range(790, 800))
    log.close()
    assert path.stat().st_size < 40 << 20, "80 MB have passed"


def test_segment_ms_closes_segments_without_a_retention_time(clock: Clock) -> None:
    log = opened(":memory:", clock, Topic("t", 1, config={"segment.ms": "1000"}))
    for number in range(5):
        add(log, "t", 0, clock.now - 9 * HOUR + 1000 * number)
    assert segments(log) == 5
    log.configure_topic("t", {"retention.ms": str(8 * HOUR)})
    for _ in range(2):
        # The last segment is known not to grow only at the second look.
        clock.wait(0)
        log.maintain()
    assert starts(log, parts=1) == [5]
    log.close()
