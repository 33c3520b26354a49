"""The log in one file drops the records that a broker drops because of their age."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from millstream.log import retention
from millstream.log.embedded import EmbeddedLog
from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.clock import now_ms
from tests.kafka.run import cluster

HOUR = 3_600_000
TOPICS = 24
SEGMENT_MS = 1000
"""Records that are further apart are in segments of their own, in both logs."""
LOOKING = ("--set", "log.retention.check.interval.ms=300")


@pytest.fixture
def kafka(servers: str) -> Iterator[KafkaLog]:
    """A log on a broker of its own, which looks for old records all the time."""
    with cluster(1, *LOOKING) as (address, _):
        log = KafkaLog(address)
        yield log
        log.close()


def drawn(seed: int, now: int) -> list[tuple[int, int]]:
    """How many records come at which times; some are beyond the retention time of an hour, none is
    near it. Mostly in the order of time, so that whole segments leave."""
    rng = random.Random(seed)
    old = sorted(now - rng.randint(2 * HOUR, 9 * HOUR) for _ in range(rng.randrange(8)))
    young = sorted(now - rng.randint(0, HOUR // 2) for _ in range(rng.randrange(5)))
    times = [*old, *young]
    if rng.random() < 0.4:
        rng.shuffle(times)
    return [(rng.randint(1, 5), time) for time in times]


@pytest.mark.timeout(300)
def test_the_same_records_are_left(kafka: KafkaLog) -> None:
    now, clock_ms = now_ms(), [0]
    own = EmbeddedLog.open(":memory:", tail_bytes=0, clock=lambda: now + clock_ms[0])
    config = {"retention.ms": str(HOUR), "segment.ms": str(SEGMENT_MS)}
    names = [f"old-{number}" for number in range(TOPICS)]
    for number, name in enumerate(names):
        policy = {"cleanup.policy": "compact"} if number % 6 == 5 else {}
        # Otherwise some of it would leave before all is there.
        topic = Topic(name, 1, config={**config, **policy, "retention.ms": "-1"})
        for log in (kafka, own):
            log.create_topic(topic)
        for count, time in drawn(number, now):
            records = [(b"k%d" % n, b"v", time) for n in range(count)]
            for log in (kafka, own):
                log.send([Appended(name, 0, raw_batch(records), count)])
        for log in (kafka, own):
            log.configure_topic(name, {"retention.ms": str(HOUR)})
    clock_ms[0] = retention.CHECK_MS
    own.maintain()
    wanted = {name: own.start_offset(name, 0) for name in names}
    assert len(set(wanted.values())) > 6
    assert any(wanted[name] == own.end_offset(name, 0) > 0 for name in names), "also the last one"
    assert any(0 < wanted[name] < own.end_offset(name, 0) for name in names)
    # The broker looks now and then, and removes what it finds later than that.
    while {name: kafka.start_offset(name, 0) for name in names} != wanted:
        assert all(kafka.start_offset(name, 0) <= start for name, start in wanted.items())
    assert {name: kafka.end_offset(name, 0) for name in names} == {
        name: own.end_offset(name, 0) for name in names
    }
    own.close()
