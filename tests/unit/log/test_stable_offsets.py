"""Partitions that others write are read together only up to what cannot be preceded any more."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from millstream.log.kafka import stable_offsets as horizon_module
from millstream.log.kafka.partition_buffer import Cursor, PartitionBuffer
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


def filled(first: int, count: int) -> Cursor:
    cursor = PartitionBuffer(first).open(LEFT, first)
    add(cursor, count)
    return cursor


def add(cursor: Cursor, count: int) -> None:
    batch = raw_batch([(None, b"", 0)] * count)
    offsets = [cursor.next + number for number in range(count)]
    cursor.buffer.add(batch.set_column(0, "offset", [offsets]))


def ended(at: int) -> Cursor:
    cursor = PartitionBuffer(at).open(RIGHT, at)
    cursor.buffer.reach(at)
    return cursor


def opened() -> tuple[Brokers, StableOffsets]:
    brokers = Brokers()
    return brokers, StableOffsets(brokers.look, lambda topic_partition: True)


def test_without_an_end_nothing_is_asked_and_all_may_be_read() -> None:
    brokers, stable_offsets = opened()
    cursors = {LEFT: filled(0, 5), RIGHT: filled(0, 5)}
    stable_offsets.begin(cursors)
    assert [
        stable_offsets.bound(topic_partition, cursor) for topic_partition, cursor in cursors.items()
    ] == [
        None,
        None,
    ]
    assert not brokers.asked


def test_an_end_counts_after_a_look_and_for_what_had_come_before_it() -> None:
    brokers, stable_offsets = opened()
    cursors = {LEFT: filled(0, 5), RIGHT: ended(3)}
    stable_offsets.begin(cursors)
    assert stable_offsets.bound(LEFT, cursors[LEFT]) == 0
    assert not stable_offsets.at_end(RIGHT, cursors[RIGHT])
    stable_offsets.ask(cursors)
    add(cursors[LEFT], 2)
    brokers.answer(7, 3)
    stable_offsets.begin(cursors)
    assert stable_offsets.bound(LEFT, cursors[LEFT]) == 5
    assert stable_offsets.at_end(RIGHT, cursors[RIGHT])


def test_an_end_does_not_count_once_more_was_read_of_another_partition() -> None:
    brokers, stable_offsets = opened()
    cursors = {LEFT: filled(0, 5), RIGHT: filled(0, 3)}
    stable_offsets.begin(cursors)
    assert stable_offsets.bound(LEFT, cursors[LEFT]) is None
    assert cursors[RIGHT].move(3)
    cursors[RIGHT].buffer.reach(3)
    assert not stable_offsets.at_end(RIGHT, cursors[RIGHT])
    stable_offsets.ask(cursors)
    assert len(brokers.asked) == 1


def lacking() -> tuple[Brokers, StableOffsets, dict[TopicPartition, Cursor]]:
    """One record on the brokers has not been fetched."""
    brokers, stable_offsets = opened()
    cursors = {LEFT: filled(0, 5), RIGHT: ended(3)}
    stable_offsets.ask(cursors)
    brokers.answer(5, 4)
    stable_offsets.begin(cursors)
    assert not stable_offsets.at_end(RIGHT, cursors[RIGHT])
    return brokers, stable_offsets, cursors


def test_what_is_written_but_has_not_come_is_waited_for() -> None:
    brokers, stable_offsets, cursors = lacking()
    stable_offsets.ask(cursors)
    assert not brokers.asked
    add(cursors[RIGHT], 1)
    cursors[RIGHT].buffer.reach(4)
    stable_offsets.begin(cursors)
    assert stable_offsets.at_end(RIGHT, cursors[RIGHT])


@pytest.mark.parametrize("committed", [3, 4])
def test_what_does_not_come_for_long_is_waited_for_unless_a_transaction_is_open(
    monkeypatch: pytest.MonkeyPatch, committed: int
) -> None:
    monkeypatch.setattr(horizon_module, "OPEN_SECONDS", 0.0)
    brokers, stable_offsets, cursors = lacking()
    assert not stable_offsets.at_end(RIGHT, cursors[RIGHT])
    stable_offsets.ask(cursors)
    assert brokers.committed == [False, True]
    brokers.answer(5, committed)
    stable_offsets.begin(cursors)
    assert stable_offsets.at_end(RIGHT, cursors[RIGHT]) == (committed == 3)


def test_an_answer_counts_from_the_next_beginning_on() -> None:
    brokers, stable_offsets = opened()
    cursors = {LEFT: filled(0, 5), RIGHT: ended(3)}
    stable_offsets.begin(cursors)
    stable_offsets.ask(cursors)
    brokers.answer(5, 3)
    assert not stable_offsets.at_end(RIGHT, cursors[RIGHT])
    assert stable_offsets.bound(LEFT, cursors[LEFT]) == 0


def test_one_look_at_a_time_and_none_while_nothing_comes() -> None:
    brokers, stable_offsets = opened()
    cursors = {LEFT: filled(0, 5), RIGHT: ended(3)}
    stable_offsets.ask(cursors)
    stable_offsets.ask(cursors)
    assert len(brokers.asked) == 1
    brokers.answer(5, 3)
    stable_offsets.begin(cursors)
    stable_offsets.ask(cursors)
    assert not brokers.asked


def test_partitions_of_this_process_are_left_alone() -> None:
    brokers = Brokers()
    stable_offsets = StableOffsets(brokers.look, lambda topic_partition: False)
    cursors = {LEFT: filled(0, 5), RIGHT: ended(3)}
    stable_offsets.begin(cursors)
    assert stable_offsets.bound(LEFT, cursors[LEFT]) is None
    assert stable_offsets.at_end(RIGHT, cursors[RIGHT])
    stable_offsets.ask(cursors)
    assert not brokers.asked
