"""Why a transaction failed, where the call that failed does not tell."""

from __future__ import annotations

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError, KafkaException

from millstream.log.kafka.client import fences
from millstream.log.kafka.transactions import _cause


class Producer:
    """A producer after an error that it does not recover from."""

    def __init__(self, error: KafkaError | None) -> None:
        self._error = error

    def begin_transaction(self) -> None:
        if self._error is not None:
            raise KafkaException(self._error)


FENCED = KafkaError(KafkaError._FENCED, "a newer one", True)


@pytest.mark.parametrize("code", [KafkaError._FATAL, KafkaError._STATE])
def test_a_producer_that_was_fenced_says_so(code: int) -> None:
    found = _cause(Producer(FENCED), KafkaException(KafkaError(code)))  # type: ignore[arg-type]
    assert fences(found)


def test_an_error_that_names_its_cause_is_the_cause() -> None:
    error = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    assert _cause(Producer(FENCED), error).code() == KafkaError._TIMED_OUT  # type: ignore[arg-type]


def test_without_a_cause_the_error_stays() -> None:
    error = KafkaException(KafkaError(KafkaError._STATE))
    with pytest.raises(KafkaException) as raised:
        _cause(Producer(None), error)  # type: ignore[arg-type]
    assert raised.value is error
