"""Partitions that others write are read together only up to what cannot be preceded any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from millstream.log.kafka import stable_offsets as horizon_module
from millstream.log.kafka.partition_buffer import PartitionBuffer
from millstream.log.kafka.stable_offsets import StableOffsets
from millstream.log.log import TopicPartition
from millstream.model.batch import raw_batch

LEFT, RIGHT = ("t", 0), ("t", 1)
Ends = Mapping[TopicPartition, int]


class Brokers:
    """Holds back the responses to looks until the test releases them."""

    def __init__(self) -> None:
        self.asked: list[Callable[[Ends], None]] = []
        self.committed: list[bool] = []

    def look(self, _: object, answered: Callable[[Ends], None], committed: bool) -> None:
        self.asked.append(answered)
        self.committed.append(committed)

    def answer(self, left: int, right: int) -> None:
        self.asked.pop()({LEFT: left, RIGHT: right})


def filled(first: int, count: int) -> PartitionBuffer:
    feed = PartitionBuffer(first)
    add(feed, count)
    return feed


def add(feed: PartitionBuffer, count: int) -> None:
    batch = raw_batch([(None, b"", 0)] * count)
    offsets = [feed.next + number for number in range(count)]
    feed.add(batch.set_column(0, "offset", [offsets]))


def ended(at: int) -> PartitionBuffer:
    feed = PartitionBuffer(at)
    feed.reach(at)
    return feed


def opened() -> tuple[Brokers, StableOffsets]:
    brokers = Brokers()
    return brokers, StableOffsets(brokers.look, lambda topic_partition: True)


def test_without_an_end_nothing_is_asked_and_all_may_be_read() -> None:
    brokers, horizon = opened()
    feeds = {LEFT: filled(0, 5), RIGHT: filled(0, 5)}
    horizon.begin(feeds)
    assert [horizon.bound(topic_partition, feed) for topic_partition, feed in feeds.items()] == [
        None,
        None,
    ]
    assert not brokers.asked


def test_an_end_counts_after_a_look_and_for_what_had_come_before_it() -> None:
    brokers, horizon = opened()
    feeds = {LEFT: filled(0, 5), RIGHT: ended(3)}
    horizon.begin(feeds)
    assert horizon.bound(LEFT, feeds[LEFT]) == 0
    assert not horizon.at_end(RIGHT, feeds[RIGHT])
    horizon.ask(feeds)
    add(feeds[LEFT], 2)
    brokers.answer(7, 3)
    horizon.begin(feeds)
    assert horizon.bound(LEFT, feeds[LEFT]) == 5
    assert horizon.at_end(RIGHT, feeds[RIGHT])


def test_an_end_does_not_count_once_more_was_read_of_another_partition() -> None:
    brokers, horizon = opened()
    feeds = {LEFT: filled(0, 5), RIGHT: filled(0, 3)}
    horizon.begin(feeds)
    assert horizon.bound(LEFT, feeds[LEFT]) is None
    feeds[RIGHT].pass_to(3)
    feeds[RIGHT].reach(3)
    assert not horizon.at_end(RIGHT, feeds[RIGHT])
    horizon.ask(feeds)
    assert len(brokers.asked) == 1


def lacking() -> tuple[Brokers, StableOffsets, dict[TopicPartition, PartitionBuffer]]:
    """One record on the brokers has not been fetched."""
    brokers, horizon = opened()
    feeds = {LEFT: filled(0, 5), RIGHT: ended(3)}
    horizon.ask(feeds)
    brokers.answer(5, 4)
    horizon.begin(feeds)
    assert not horizon.at_end(RIGHT, feeds[RIGHT])
    return brokers, horizon, feeds


def test_what_is_written_but_has_not_come_is_waited_for() -> None:
    brokers, horizon, feeds = lacking()
    horizon.ask(feeds)
    assert not brokers.asked
    add(feeds[RIGHT], 1)
    feeds[RIGHT].reach(4)
    horizon.begin(feeds)
    assert horizon.at_end(RIGHT, feeds[RIGHT])


@pytest.mark.parametrize("committed", [3, 4])
def test_what_does_not_come_for_long_is_waited_for_unless_a_transaction_is_open(
    monkeypatch: pytest.MonkeyPatch, committed: int
) -> None:
    monkeypatch.setattr(horizon_module, "OPEN_SECONDS", 0.0)
    brokers, horizon, feeds = lacking()
    assert not horizon.at_end(RIGHT, feeds[RIGHT])
    horizon.ask(feeds)
    assert brokers.committed == [False, True]
    brokers.answer(5, committed)
    horizon.begin(feeds)
    assert horizon.at_end(RIGHT, feeds[RIGHT]) == (committed == 3)


def test_an_answer_counts_from_the_next_beginning_on() -> None:
    brokers, horizon = opened()
    feeds = {LEFT: filled(0, 5), RIGHT: ended(3)}
    horizon.begin(feeds)
    horizon.ask(feeds)
    brokers.answer(5, 3)
    assert not horizon.at_end(RIGHT, feeds[RIGHT])
    assert horizon.bound(LEFT, feeds[LEFT]) == 0


def test_one_look_at_a_time_and_none_while_nothing_comes() -> None:
    brokers, horizon = opened()
    feeds = {LEFT: filled(0, 5), RIGHT: ended(3)}
    horizon.ask(feeds)
    horizon.ask(feeds)
    assert len(brokers.asked) == 1
    brokers.answer(5, 3)
    horizon.begin(feeds)
    horizon.ask(feeds)
    assert not brokers.asked


def test_partitions_of_this_process_are_left_alone() -> None:
    brokers = Brokers()
    horizon = StableOffsets(brokers.look, lambda topic_partition: False)
    feeds = {LEFT: filled(0, 5), RIGHT: ended(3)}
    horizon.begin(feeds)
    assert horizon.bound(LEFT, feeds[LEFT]) is None
    assert horizon.at_end(RIGHT, feeds[RIGHT])
    horizon.ask(feeds)
    assert not brokers.asked
