"""The lag of a group: its client exists only while the lag is requested."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import ClassVar

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from millstream.log.kafka import lag
from millstream.log.kafka.lag import LagOf
from millstream.log.log import Lag
from tests.patience import PATIENCE_S

PLACES = (("t", 0), ("t", 1))
FOUND = Lag({("t", 0): 3, ("t", 1): 4}, {("t", 0): 5, ("t", 1): 5})


class Client:
    """A consumer that has positions, and notes that it was closed."""

    made: ClassVar[list[Client]] = []
    failing: ClassVar[bool] = False

    def __init__(self, config: object) -> None:
        self.closed = threading.Event()
        self.made.append(self)

    def committed(self, wanted: list[TopicPartition], seconds: float) -> list[TopicPartition]:
        if self.failing:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return [TopicPartition(at.topic, at.partition, 3 + at.partition) for at in wanted]

    def close(self) -> None:
        self.closed.set()


def look(
    places: Collection[tuple[str, int]],
    answered: Callable[[dict[tuple[str, int], int]], None],
    *,
    committed: bool,
) -> None:
    answered(dict.fromkeys(places, 5))


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    monkeypatch.setattr(lag, "Consumer", Client)
    monkeypatch.setattr(Client, "made", [])
    return Client.made


def answer(of: LagOf) -> Lag:
    deadline = time.monotonic() + PATIENCE_S
    while (found := of.told(PLACES)) is None:
        assert time.monotonic() < deadline
    return found


def ended(of: LagOf) -> None:
    thread = of._thread
    if thread is not None:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_requests_share_a_client(clients: list[Client]) -> None:
    of = LagOf({}, look)
    assert answer(of) == answer(of) == FOUND
    assert len(clients) == 1
    of.close()
    assert clients[0].closed.wait(PATIENCE_S)


def test_a_client_that_is_not_used_is_closed_with_its_thread(clients: list[Client]) -> None:
    of = LagOf({}, look, idle_seconds=0.0)
    for number in (1, 2, 3):
        assert answer(of) == FOUND
        ended(of)
        assert clients[-1].closed.wait(PATIENCE_S)
        assert len(clients) >= number
    of.close()


def test_it_is_requested_again_after_an_error(
    clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "failing", True)
    of = LagOf({}, look)
    assert of.told(PLACES) is None
    deadline = time.monotonic() + PATIENCE_S
    while of._open:
        assert time.monotonic() < deadline
    monkeypatch.setattr(Client, "failing", False)
    assert answer(of) == FOUND
    of.close()


def test_nothing_is_requested_after_it_is_closed(clients: list[Client]) -> None:
    of = LagOf({}, look)
    of.close()
    of.close()
    assert of.told(PLACES) is None
    assert not clients and of._thread is None
