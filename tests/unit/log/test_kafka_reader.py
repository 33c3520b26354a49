"""A consumer that stalls is replaced; one that has reached the end is not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, TopicPartition

from millstream.log.kafka import fetcher
from millstream.log.kafka.fetcher import Fetcher
from millstream.log.kafka.intake import News, PartitionChunk
from millstream.log.kafka.reader import KafkaReader, ReaderContext
from millstream.log.kafka.shared_looks import SharedLooks
from millstream.log.kafka.single_reads import SingleReads
from millstream.log.log import Fetched
from millstream.log.log import TopicPartition as Place
from millstream.model.batch import raw_batch
from millstream.model.errors import UnavailableError

PLACE = ("t", 0)
END = KafkaError(KafkaError._PARTITION_EOF)


class Given:
    """An intake that returns its given records after the assignment, and nothing afterwards."""

    def __init__(self, *pieces: pa.Table | News) -> None:
        self.consumer: Any = None
        self.assigned: list[int] = []
        self.closed = False
        self.takes = 0
        self._pieces = list(pieces)
        self._pause = threading.Event()

    def give(self, *pieces: pa.Table | News) -> None:
        self._pieces += pieces

    def assign(self, topic_partitions: Sequence[TopicPartition]) -> None:
        self.assigned += [topic_partition.offset for topic_partition in topic_partitions]

    def take(self, _seconds: float) -> Sequence[PartitionChunk]:
        self.takes += 1
        self._pause.wait(0.001)
        pieces, self._pieces = self._pieces if self.assigned else [], []
        return [(PLACE, piece) for piece in pieces]

    def close(self) -> None:
        self.closed = True


class Known:
    """Topics that are as they should be."""

    def check(self, _place: Place) -> None:
        return

    def look(self, *_args: Any, **_more: Any) -> None:
        return


def records(*offsets: int) -> pa.Table:
    table = raw_batch([(None, b"{}", 1000) for _ in offsets])
    return table.set_column(0, "offset", pa.array(offsets, pa.int64()))


class Reads:
    """A reader of a fetcher, and single reads of it."""

    def __init__(self, fetcher: Fetcher, written: int) -> None:
        topics: Any = Known()
        looks = SharedLooks(topics.look, lambda _: None)
        context = ReaderContext(topics, {PLACE: written}, looks, lambda _: False)
        self.fetcher = fetcher
        self._reader = KafkaReader(context, None, lambda: fetcher)
        self._single = SingleReads(context, fetcher)

    def read(self, *given: Any) -> Fetched[pa.Table]:
        return self._reader.read(*given)

    def wait_and_read(self, topic: str, partition: int, *given: int) -> Fetched[pa.Table]:
        return self._single.read((topic, partition), *given)

    def close(self) -> None:
        self.fetcher.close()
        self.fetcher.join()


Opened = Callable[..., Reads]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens a reader over some intakes, with known records before the offset `written`."""
    made: list[Reads] = []

    def opening(*intakes: Given, written: int) -> Reads:
        monkeypatch.setattr(fetcher, "open_intake", lambda _config, left=[*intakes]: left.pop(0))
        monkeypatch.setattr(fetcher, "STALL_SECONDS", 0.05)
        made.append(Reads(Fetcher({}, lambda _: None, lambda: 1 << 20), written))
        return made[-1]

    yield opening
    for each in made:
        each.close()


def test_another_consumer_is_tried(opened: Opened) -> None:
    still, other = Given(records(5), News(END, 6)), Given(records(6, 7), News(END, 8))
    made = opened(still, other, written=8)
    assert made.wait_and_read(*PLACE, 5, 1).batch["offset"].to_pylist() == [5]
    assert made.wait_and_read(*PLACE, 6, 9).batch["offset"].to_pylist() == [6, 7]
    assert (still.assigned, still.closed, other.assigned) == ([5], True, [6])


def test_what_is_asked_for_without_waiting_comes_too(opened: Opened) -> None:
    made = opened(Given(News(END, 6)), Given(records(6), News(END, 7)), written=7)
    fetched = made.read(*PLACE, 6, 9)
    while fetched.awaited:
        fetched = made.read(*PLACE, 6, 9)
    assert fetched.batch["offset"].to_pylist() == [6]


def test_a_consumer_at_the_end_is_not_replaced(opened: Opened) -> None:
    only = Given(records(5), News(END, 6))
    made = opened(only, written=6)
    assert made.wait_and_read(*PLACE, 5, 9).end
    before = only.takes
    while only.takes < before + 100:
        assert made.read(*PLACE, 6, 9).end
    assert not only.closed


@pytest.mark.parametrize(
    ("before", "offsets", "following"),
    [(6, [5], 6), (7, [5], 7), (8, [5, 7], 8), (9, [5, 7], 9)],
)
def test_a_partition_ends_where_it_is_said_to_end(
    opened: Opened, before: int, offsets: list[int], following: int
) -> None:
    made = opened(Given(records(5, 7), News(END, 9)), written=9)
    while (fetched := made.read(*PLACE, 5, 9, before)).awaited:
        pass
    assert fetched.batch["offset"].to_pylist() == offsets
    assert (fetched.next_offset, fetched.end) == (following, True)
    again = made.read(*PLACE, before, 9, before)
    assert (again.count, again.next_offset, again.end) == (0, before, True)


def test_what_has_yet_to_come_before_the_end_is_awaited(opened: Opened) -> None:
    """The client's end is older than the requested one."""
    given = Given(records(5), News(END, 6))
    made = opened(given, written=6)
    while (fetched := made.read(*PLACE, 5, 9, 8)).awaited:
        pass
    assert (fetched.count, fetched.next_offset, fetched.end) == (1, 6, False)
    assert made.read(*PLACE, 6, 9, 8).awaited
    given.give(records(7, 8), News(END, 9))
    while (fetched := made.read(*PLACE, 6, 9, 8)).awaited:
        pass
    assert fetched.batch["offset"].to_pylist() == [7]
    assert (fetched.next_offset, fetched.end) == (8, True)


def test_two_threads_read_a_partition_from_different_places(opened: Opened) -> None:
    first, other = Given(), Given(records(5), News(END, 6))
    made = opened(first, other, written=6)
    found: dict[int, list[int]] = {}

    def reading(offset: int) -> None:
        batch = made.wait_and_read(*PLACE, offset, 9).batch
        found[offset] = batch["offset"].to_pylist()

    condition: Any = made.fetcher.lock
    threads = [threading.Thread(target=reading, args=(offset,)) for offset in (0, 5)]
    for count, thread in enumerate(threads, 1):
        thread.start()
        while len(condition._waiters) < count:
            first._pause.wait(0.001)
    first.give(records(0, 5), News(END, 6))
    for thread in threads:
        thread.join()
    assert found == {0: [0, 5], 5: [5]}


class Broken(Given):
    """Fails as no client does."""

    def take(self, _seconds: float) -> Sequence[PartitionChunk]:
        raise RuntimeError("a fault of the program")


def test_a_fault_in_the_polling_thread_is_told_to_readers(opened: Opened) -> None:
    made = opened(Broken(), Given(records(5), News(END, 6)), written=6)
    with pytest.raises(UnavailableError) as raised:
        made.wait_and_read(*PLACE, 5, 1)
    assert "a fault of the program" in str(raised.value.detail)
    # The next read starts another thread.
    assert made.wait_and_read(*PLACE, 5, 1).batch["offset"].to_pylist() == [5]
