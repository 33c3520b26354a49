"""Readers share one consumer on a real broker, and read what each would read alone."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from millstream.log.kafka import fetchers
from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Appended, Reader, Topic
from tests.unit.log.suite import numbers_of_table, table_of

READERS = 50
PARTITIONS = 2


@pytest.fixture
def log(servers: str, kind: str) -> Iterator[KafkaLog]:
    """A log whose clients are of one kind."""
    opened = KafkaLog(servers)
    yield opened
    opened.close()
    assert opened.consumers == 0


@pytest.fixture
def topic(log: KafkaLog) -> Iterator[str]:
    name = f"shared-{uuid.uuid4().hex[:8]}"
    log.create_topic(Topic(name, PARTITIONS))
    yield name
    log.delete_topic(name)


class Caller:
    """A reader that reads all partitions of a topic on and on."""

    def __init__(self, log: KafkaLog, topic: str, *, alone: bool = False) -> None:
        self.reader: Reader[Any] = log.reader(alone=alone)
        self.topic = topic
        self.offsets = [0] * PARTITIONS
        self.found: list[list[int]] = [[] for _ in range(PARTITIONS)]

    def round(self, quota: int = 1000) -> None:
        """Read each partition once."""
        self.reader.begin()
        for partition, offset in enumerate(self.offsets):
            read = self.reader.read(self.topic, partition, offset, quota)
            self.found[partition] += numbers_of_table(read.batch)
            self.offsets[partition] = read.next_offset


def write(log: KafkaLog, topic: str, numbers: list[int]) -> None:
    writer = log.writer(topic)
    writer.append(
        [Appended(topic, part, table_of(numbers), len(numbers)) for part in range(PARTITIONS)]
    )
    writer.close()


def until_found(callers: list[Caller], numbers: list[int]) -> None:
    """Read until each has found exactly these in every partition."""
    while any(caller.found != [numbers] * PARTITIONS for caller in callers):
        for caller in callers:
            caller.round()
            assert all(found == numbers[: len(found)] for found in caller.found)


def until_consumers(log: KafkaLog, callers: list[Caller], count: int) -> None:
    while log.consumers != count:
        for caller in callers:
            caller.round()


@pytest.mark.timeout(120)
def test_fifty_readers_have_one_consumer(log: KafkaLog, topic: str) -> None:
    numbers = list(range(200))
    write(log, topic, numbers)
    first = Caller(log, topic)
    until_found([first], numbers)
    until_consumers(log, [first], 1)
    threads = threading.active_count()
    callers = [first, *(Caller(log, topic) for _ in range(READERS - 1))]
    until_found(callers, numbers)
    until_consumers(log, callers, 1)
    more = list(range(200, 300))
    write(log, topic, more)
    until_found(callers, numbers + more)
    assert log.consumers == 1
    assert threading.active_count() <= threads
    for caller in callers:
        caller.reader.close()
    until_consumers(log, [], 0)


@pytest.mark.timeout(120)
def test_a_late_reader_catches_up_and_joins(log: KafkaLog, topic: str) -> None:
    """Records keep arriving, so that both consumers move on meanwhile."""
    numbers = list(range(500))
    write(log, topic, numbers)
    early = Caller(log, topic)
    until_found([early], numbers)
    # It goes to the end, so that what it has read is dropped.
    early.round()
    late = Caller(log, topic)
    late.round()
    assert log.consumers >= 2
    for number in range(500, 520):
        write(log, topic, [number])
        numbers.append(number)
        early.round()
        late.round()
    until_found([early, late], numbers)
    until_consumers(log, [early, late], 1)
    write(log, topic, [1000])
    until_found([early, late], [*numbers, 1000])
    assert log.consumers == 1


@pytest.mark.timeout(120)
def test_a_slow_reader_goes_on_by_itself_and_comes_back(
    log: KafkaLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little room, it would stop the other one."""
    monkeypatch.setattr(fetchers, "_ROOM", 1 << 16)
    numbers = list(range(20_000))
    write(log, topic, numbers)
    slow, fast = Caller(log, topic), Caller(log, topic)
    while not all(slow.found):
        slow.round(1)
    until_found([fast], numbers)
    assert len(slow.found[0]) < len(numbers)
    until_found([slow], numbers)
    until_consumers(log, [fast, slow], 1)
    write(log, topic, [-1])
    until_found([fast, slow], [*numbers, -1])


@pytest.mark.timeout(120)
def test_a_reader_that_goes_back_disturbs_no_other(log: KafkaLog, topic: str) -> None:
    numbers = list(range(300))
    write(log, topic, numbers)
    staying, going_back = Caller(log, topic), Caller(log, topic)
    until_found([staying, going_back], numbers)
    for start in (0, 250, 10):
        going_back.offsets = [start] * PARTITIONS
        going_back.found = [numbers[:start] for _ in range(PARTITIONS)]
        numbers.append(len(numbers))
        write(log, topic, numbers[-1:])
        until_found([staying, going_back], numbers)
    until_consumers(log, [staying, going_back], 1)


@pytest.mark.timeout(120)
def test_a_reader_alone_has_a_consumer_while_it_is_open(log: KafkaLog, topic: str) -> None:
    write(log, topic, [1, 2])
    sharing, alone = Caller(log, topic), Caller(log, topic, alone=True)
    until_found([sharing, alone], [1, 2])
    until_consumers(log, [sharing, alone], 2)
    alone.reader.close()
    until_consumers(log, [sharing], 1)


@pytest.mark.timeout(120)
def test_a_deleted_topic_does_not_disturb_readers_of_others(log: KafkaLog, topic: str) -> None:
    other = f"{topic}-gone"
    log.create_topic(Topic(other, PARTITIONS))
    write(log, topic, [1])
    write(log, other, [1])
    staying, gone = Caller(log, topic), Caller(log, other)
    until_found([staying, gone], [1])
    log.delete_topic(other)
    gone.reader.close()
    log.create_topic(Topic(other, PARTITIONS))
    write(log, other, [2])
    write(log, topic, [2])
    anew = Caller(log, other)
    until_found([anew], [2])
    until_found([staying], [1, 2])
    until_consumers(log, [staying, anew], 1)
    log.delete_topic(other)


@pytest.mark.timeout(120)
def test_a_partition_left_alone_is_read_on_to_its_end(log: KafkaLog, topic: str) -> None:
    """It was paused meanwhile, and the consumer stays the same: the end is not that of before."""
    write(log, topic, [1])
    other = f"{topic}-other"
    log.create_topic(Topic(other, PARTITIONS))
    staying, closed = Caller(log, other), Caller(log, topic)
    until_found([closed], [1])
    while not all(closed.reader.read(topic, part, 2, 9).end for part in range(PARTITIONS)):
        pass
    staying.round()
    for numbers in ([1], [1, 2]):
        closed.reader.close()
        # Longer than the thread takes to pause it.
        for number in range(20):
            write(log, other, [number])
        if numbers[1:]:
            write(log, topic, numbers[1:])
        again = Caller(log, topic)
        again.offsets = [2] * PARTITIONS
        again.found = [[1] for _ in range(PARTITIONS)]
        found: set[int] = set()
        while len(found) < PARTITIONS:
            again.round()
            staying.round()
            ends = [again.reader.read(topic, p, again.offsets[p], 9) for p in range(PARTITIONS)]
            found |= {read.partition for read in ends if read.end and not read.count}
        assert again.found == [numbers] * PARTITIONS
        closed = again
    log.delete_topic(other)
