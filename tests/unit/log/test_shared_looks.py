"""Readers that ask for the same ends share a request, but never one that was sent before they
asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest

from millstream.log.kafka.shared_looks import SharedLooks
from millstream.log.log import TopicPartition
from millstream.model.errors import UnavailableError

LEFT, RIGHT = ("t", 0), ("t", 1)
Ends = Mapping[TopicPartition, int]


class Brokers:
    """Hold back the responses until the test releases them."""

    def __init__(self) -> None:
        self.requests: list[tuple[frozenset[TopicPartition], bool]] = []
        self.answers: list[Callable[[dict[TopicPartition, int]], None]] = []
        self.told: list[Collection[TopicPartition]] = []
        self.looks = SharedLooks(self.look, self.told.append)
        self.got: dict[str, Ends] = {}

    def look(
        self,
        places: Collection[TopicPartition],
        answered: Callable[[dict[TopicPartition, int]], None],
        /,
        *,
        committed: bool,
    ) -> None:
        self.requests.append((frozenset(places), committed))
        self.answers.append(answered)

    def ask(self, name: str, *places: TopicPartition, committed: bool = False) -> None:
        self.looks.ask(places, lambda ends: self.got.update({name: ends}), committed)

    def answer(self, end: int) -> None:
        self.answers.pop(0)({LEFT: end})


def test_a_request_that_was_sent_before_does_not_count() -> None:
    brokers = Brokers()
    for name in ("a", "b", "c"):
        brokers.ask(name, LEFT)
    brokers.answer(5)
    assert brokers.got == {"a": {LEFT: 5}}
    brokers.ask("d", LEFT)
    brokers.answer(6)
    assert brokers.got == {"a": {LEFT: 5}, "b": {LEFT: 6}, "c": {LEFT: 6}}
    brokers.answer(7)
    assert brokers.got["d"] == {LEFT: 7}
    assert len(brokers.requests) == len(brokers.told) == 3
    brokers.ask("a", LEFT)
    assert len(brokers.requests) == 4


def test_readers_of_other_partitions_are_not_waited_for() -> None:
    brokers = Brokers()
    brokers.ask("a", LEFT)
    brokers.ask("b", LEFT, RIGHT)
    brokers.ask("c", RIGHT, LEFT)
    brokers.ask("d", LEFT, committed=True)
    both = frozenset({LEFT, RIGHT})
    assert brokers.requests == [
        (frozenset({LEFT}), False),
        (both, False),
        (frozenset({LEFT}), True),
    ]


def test_a_request_that_cannot_be_sent_leaves_nobody_waiting() -> None:
    brokers = Brokers()

    def refuse(*_args: object, **_more: object) -> None:
        raise UnavailableError("no brokers")

    brokers.looks = SharedLooks(refuse, brokers.told.append)
    with pytest.raises(UnavailableError):
        brokers.ask("a", LEFT)
    assert brokers.got == {"a": {}}
    with pytest.raises(UnavailableError):
        brokers.ask("b", LEFT)
