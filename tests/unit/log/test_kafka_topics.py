"""Topics whose metadata is not on all brokers yet."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from millstream.log.kafka.topics import Topics
from millstream.model.errors import StatementError

PLACE = ("new", 0)


def topics(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> Topics:
    """A cluster with the topic's metadata, and the responses of its leader."""
    made = Topics("127.0.0.1:1", {})
    given = iter(answers)

    def list_offsets(wanted: Any, **_: Any) -> dict[TopicPartition, Future[Any]]:
        future: Future[Any] = Future()
        answer = next(given)
        if isinstance(answer, KafkaError):
            future.set_exception(KafkaException(answer))
        else:
            future.set_result(ListOffsetsResultInfo(answer, -1, -1))
        return dict.fromkeys(wanted, future)

    monkeypatch.setattr(made, "_metadata", lambda _name: (1, 1))
    monkeypatch.setattr(made, "_list_offsets", list_offsets)
    return made


def test_a_broker_may_get_a_topic_of_another_one_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unheard = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    made = topics(monkeypatch, unheard, unheard, 7)
    made._heard.add("new")
    assert made.offset(PLACE, end=True) == 7


def test_an_unreported_topic_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = topics(monkeypatch, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), 7)
    with pytest.raises(StatementError):
        made.offset(PLACE, end=True)
