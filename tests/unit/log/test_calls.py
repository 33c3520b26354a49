"""Calls to a client that may fail, return late, or never return."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError, KafkaException

from millstream.log.kafka.calls import again, within
from millstream.model.errors import UnavailableError


class Client:
    """Fails with these errors in turn, then succeeds."""

    def __init__(self, *errors: KafkaError) -> None:
        self.errors = list(errors)
        self.calls = 0

    def call(self) -> None:
        self.calls += 1
        if self.errors:
            raise KafkaException(self.errors.pop(0))


RETRIABLE = KafkaError(KafkaError._TIMED_OUT, "late", False, True, False)
FINAL = KafkaError(KafkaError._FENCED, "fenced", True, False, False)


def test_it_calls_until_it_succeeds() -> None:
    client = Client(RETRIABLE, RETRIABLE)
    again(client.call, 60)
    assert client.calls == 3


def test_it_calls_once_more_after_the_time() -> None:
    client = Client(RETRIABLE, RETRIABLE, RETRIABLE)
    with pytest.raises(KafkaException):
        again(client.call, 0)
    assert client.calls == 2


def test_an_error_for_good_is_raised_at_once() -> None:
    client = Client(FINAL)
    with pytest.raises(KafkaException, match="fenced"):
        again(client.call, 60)
    assert client.calls == 1


def test_a_call_that_hangs_is_left_behind() -> None:
    back = threading.Event()
    with pytest.raises(UnavailableError, match="did not come back"):
        within(back.wait, 0.01)
    back.set()
