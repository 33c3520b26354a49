"""Requests to a cluster whose client answers late, wrongly or not at all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from millstream.log.kafka import asking
from millstream.log.kafka.asking import answer_to
from millstream.log.kafka.client import translated
from millstream.model.errors import UnavailableError


def answered(*outcomes: object) -> tuple[Callable[[], Future[object]], list[int]]:
    """A client that answers with these in turn, an error code as an error; with None it never
    does."""
    left, asked = list(outcomes), []

    def ask() -> Future[object]:
        asked.append(len(asked))
        future: Future[object] = Future()
        outcome = left.pop(0)
        if isinstance(outcome, int):
            future.set_exception(KafkaException(KafkaError(outcome)))
        elif outcome is not None:
            future.set_result(outcome)
        return future

    return ask, asked


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "REQUEST_SECONDS", 0.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("repeatable", [True, False])
def test_a_client_that_never_answers_is_a_cluster_out_of_reach(repeatable: bool) -> None:
    ask, asked = answered(None)
    with pytest.raises(KafkaException) as raised:
        answer_to(ask, repeatable=repeatable)
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT
    assert isinstance(translated(raised.value, "ask"), UnavailableError)
    assert len(asked) == 1


def test_a_request_is_repeated_while_a_leader_is_elected() -> None:
    ask, asked = answered(KafkaError.NOT_COORDINATOR, KafkaError._TRANSPORT, "there")
    assert answer_to(ask) == "there"
    assert len(asked) == 3


def test_what_may_have_been_carried_out_is_not_repeated() -> None:
    ask, asked = answered(KafkaError._TRANSPORT, "there")
    with pytest.raises(KafkaException):
        answer_to(ask, repeatable=False)
    assert len(asked) == 1
