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
    buffer = PartitionBuffer(first)
    add(buffer, count)
    return buffer


def add(buffer: PartitionBuffer, count: int) -> None:
    batch = raw_batch([(None, b"", 0)] * count)
    offsets = [buffer.next + number for number in range(count)]
    buffer.add(batch.set_column(0, "offset", [offsets]))


def ended(at: int) -> PartitionBuffer:
    buffer = PartitionBuffer(at)
    buffer.reach(at)
    return buffer


def opened() -> tuple[Brokers, StableOffsets]:
    brokers = Brokers()
    return brokers, StableOffsets(brokers.look, lambda topic_partition: True)


def test_without_an_end_nothing_is_asked_and_all_may_be_read() -> None:
    brokers, stable_offsets = opened()
    buffers = {LEFT: filled(0, 5), RIGHT: filled(0, 5)}
    stable_offsets.begin(buffers)
    assert [
        stable_offsets.bound(topic_partition, buffer) for topic_partition, buffer in buffers.items()
    ] == [
        None,
        None,
    ]
    assert not brokers.asked


def test_an_end_counts_after_a_look_and_for_what_had_come_before_it() -> None:
    brokers, stable_offsets = opened()
    buffers = {LEFT: filled(0, 5), RIGHT: ended(3)}
    stable_offsets.begin(buffers)
    assert stable_offsets.bound(LEFT, buffers[LEFT]) == 0
    assert not stable_offsets.at_end(RIGHT, buffers[RIGHT])
    stable_offsets.ask(buffers)
    add(buffers[LEFT], 2)
    brokers.answer(7, 3)
    stable_offsets.begin(buffers)
    assert stable_offsets.bound(LEFT, buffers[LEFT]) == 5
    assert stable_offsets.at_end(RIGHT, buffers[RIGHT])


def test_an_end_does_not_count_once_more_was_read_of_another_partition() -> None:
    brokers, stable_offsets = opened()
    buffers = {LEFT: filled(0, 5), RIGHT: filled(0, 3)}
    stable_offsets.begin(buffers)
    assert stable_offsets.bound(LEFT, buffers[LEFT]) is None
    buffers[RIGHT].pass_to(3)
    buffers[RIGHT].reach(3)
    assert not stable_offsets.at_end(RIGHT, buffers[RIGHT])
    stable_offsets.ask(buffers)
    assert len(brokers.asked) == 1


def lacking() -> tuple[Brokers, StableOffsets, dict[TopicPartition, PartitionBuffer]]:
    """One record on the brokers has not been fetched."""
    brokers, stable_offsets = opened()
    buffers = {LEFT: filled(0, 5), RIGHT: ended(3)}
    stable_offsets.ask(buffers)
    brokers.answer(5, 4)
    stable_offsets.begin(buffers)
    assert not stable_offsets.at_end(RIGHT, buffers[RIGHT])
    return brokers, stable_offsets, buffers


def test_what_is_written_but_has_not_come_is_waited_for() -> None:
    brokers, stable_offsets, buffers = lacking()
    stable_offsets.ask(buffers)
    assert not brokers.asked
    add(buffers[RIGHT], 1)
    buffers[RIGHT].reach(4)
    stable_offsets.begin(buffers)
    assert stable_offsets.at_end(RIGHT, buffers[RIGHT])


@pytest.mark.parametrize("committed", [3, 4])
def test_what_does_not_come_for_long_is_waited_for_unless_a_transaction_is_open(
    monkeypatch: pytest.MonkeyPatch, committed: int
) -> None:
    monkeypatch.setattr(horizon_module, "OPEN_SECONDS", 0.0)
    brokers, stable_offsets, buffers = lacking()
    assert not stable_offsets.at_end(RIGHT, buffers[RIGHT])
    stable_offsets.ask(buffers)
    assert brokers.committed == [False, True]
    brokers.answer(5, committed)
    stable_offsets.begin(buffers)
    assert stable_offsets.at_end(RIGHT, buffers[RIGHT]) == (committed == 3)


def test_an_answer_counts_from_the_next_beginning_on() -> None:
    brokers, stable_offsets = opened()
    buffers = {LEFT: filled(0, 5), RIGHT: ended(3)}
    stable_offsets.begin(buffers)
    stable_offsets.ask(buffers)
    brokers.answer(5, 3)
    assert not stable_offsets.at_end(RIGHT, buffers[RIGHT])
    assert stable_offsets.bound(LEFT, buffers[LEFT]) == 0


def test_one_look_at_a_time_and_none_while_nothing_comes() -> None:
    brokers, stable_offsets = opened()
    buffers = {LEFT: filled(0, 5), RIGHT: ended(3)}
    stable_offsets.ask(buffers)
    stable_offsets.ask(buffers)
    assert len(brokers.asked) == 1
    brokers.answer(5, 3)
    stable_offsets.begin(buffers)
    stable_offsets.ask(buffers)
    assert not brokers.asked


def test_partitions_of_this_process_are_left_alone() -> None:
    brokers = Brokers()
    stable_offsets = StableOffsets(brokers.look, lambda topic_partition: False)
    buffers = {LEFT: filled(0, 5), RIGHT: ended(3)}
    stable_offsets.begin(buffers)
    assert stable_offsets.bound(LEFT, buffers[LEFT]) is None
    assert stable_offsets.at_end(RIGHT, buffers[RIGHT])
    stable_offsets.ask(buffers)
    assert not brokers.asked
