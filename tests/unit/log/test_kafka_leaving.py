"""A consumer is closed when nothing is on its way to its callbacks. No broker is needed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from confluent_kafka import KafkaError, KafkaException

from millstream.log.kafka import leaving


class Group:
    """A consumer that, as librdkafka, tells its callbacks with `poll` alone, later than it is
    asked; and that hangs if there is anything left to tell when it is closed."""

    def __init__(self, told: list[str], *, fails: str = "") -> None:
        self.told = told
        self.fails = fails
        self.held = {"a"}
        self.calls: list[str] = []

    def unsubscribe(self) -> None:
        self.calls.append("unsubscribe")
        self._fail("unsubscribe")
        self.told += ["later", "revoke"]

    def poll(self, seconds: float) -> None:
        self.calls.append("poll")
        self._fail("poll")
        match self.told.pop(0) if self.told else "":
            case "assign":
                self.held.add("b")
            case "revoke":
                self.held.clear()

    def assignment(self) -> set[str]:
        return set(self.held)

    def close(self) -> None:
        self.calls.append("close")
        assert not self.told, "it would wait for ever for an answer"

    def _fail(self, name: str) -> None:
        if name == self.fails:
            self.told.clear()
            raise KafkaException(KafkaError(KafkaError._STATE))


@pytest.mark.parametrize("told", [[], ["assign"], ["later", "assign"], ["revoke", "assign"]])
def test_partitions_are_given_up_before(told: list[str]) -> None:
    consumer = Group(told)
    leaving.leave(consumer)  # type: ignore[arg-type]
    assert not consumer.held
    assert consumer.calls[0] == "unsubscribe" and consumer.calls[-1] == "close"


def test_a_static_member_stays_and_its_callbacks_still_run_before() -> None:
    consumer = Group(["assign"])
    leaving.leave(consumer, static=True)  # type: ignore[arg-type]
    assert consumer.held == {"a", "b"}
    assert "unsubscribe" not in consumer.calls


@pytest.mark.parametrize("fails", ["unsubscribe", "poll"])
def test_it_is_closed_whatever_fails(fails: str) -> None:
    consumer = Group([], fails=fails)
    leaving.leave(consumer)  # type: ignore[arg-type]
    assert consumer.calls[-1] == "close"


def test_it_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Callable[[], float] = count().__next__
    monkeypatch.setattr(leaving.time, "monotonic", clock)
    consumer = Group([])
    consumer.assignment = lambda: {"a"}  # type: ignore[method-assign]
    leaving.leave(consumer)  # type: ignore[arg-type]
    assert consumer.calls[-1] == "close"
