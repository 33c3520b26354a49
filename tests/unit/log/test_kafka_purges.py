"""Deleting in the background: the requests to the brokers, and their times."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from millstream.log.kafka.purges import Purges
from millstream.model.errors import StatementError

Request = dict[tuple[str, int], int]


class Brokers:
    """Replaces the admin client: records requests, and responds when the test says so."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.open: list[Future[Any]] = []
        self.at_once = False

    def delete_records(
        self, wanted: list[TopicPartition], **_: object
    ) -> dict[TopicPartition, Future[Any]]:
        self.requests.append({(item.topic, item.partition): item.offset for item in wanted})
        answers: dict[TopicPartition, Future[Any]] = {item: Future() for item in wanted}
        self.open += answers.values()
        if self.at_once:
            self.answer(None)
        return answers

    def answer(self, error: KafkaException | None) -> None:
        for answer in self.open:
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)
        self.open.clear()


def purges(brokers: Brokers, end: int = 100) -> Purges:
    return Purges(brokers, lambda _place: end)  # type: ignore[arg-type]


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


def test_one_request_is_on_its_way_and_the_next_has_all_that_came_meanwhile(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.log.kafka.purges._SECONDS", 0.0)
    subject = purges(brokers)
    subject.want(("t", 0), 3)
    subject.want(("t", 1), 4)
    subject.want(("t", 0), 7)
    assert brokers.requests == [{("t", 0): 3}]
    brokers.answer(None)
    subject.want(("u", 0), 1)
    assert brokers.requests[1:] == [{("t", 0): 7, ("t", 1): 4, ("u", 0): 1}]


def test_what_is_asked_for_again_is_not_sent_again(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.log.kafka.purges._SECONDS", 0.0)
    subject, brokers.at_once = purges(brokers), True
    for before in (5, 5, 4):
        subject.want(("t", 0), before)
    assert brokers.requests == [{("t", 0): 5}]


def test_requests_are_a_while_apart(brokers: Brokers) -> None:
    subject, brokers.at_once = purges(brokers), True
    subject.want(("t", 0), 5)
    subject.want(("t", 0), 6)
    assert brokers.requests == [{("t", 0): 5}]


def test_a_waiting_caller_deletes_no_more_than_there_is(
    brokers: Brokers,
) -> None:
    subject, brokers.at_once = purges(brokers, end=6), True
    subject.want(("t", 0), 5)
    subject.want(("t", 0), 9)
    subject.settle(("t", 0))
    subject.settle(("t", 0))
    subject.settle(("t", 1))
    assert brokers.requests == [{("t", 0): 5}, {("t", 0): 6}]


def test_a_refusal_is_raised_on_the_next_call(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.log.kafka.purges._SECONDS", 0.0)
    subject = purges(brokers)
    subject.want(("t", 0), 5)
    brokers.answer(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    with pytest.raises(StatementError, match="truncate topic 't', partition 0"):
        subject.want(("t", 0), 6)


def test_what_failed_for_a_moment_is_asked_again(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.log.kafka.purges._SECONDS", 0.0)
    subject = purges(brokers)
    subject.want(("t", 0), 5)
    brokers.answer(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    subject.want(("t", 1), 1)
    subject.want(("t", 0), 5)
    brokers.answer(None)
    subject.want(("t", 1), 2)
    assert brokers.requests[-1] == {("t", 0): 5, ("t", 1): 2}


def test_a_topic_that_is_deleted_is_not_asked_for(brokers: Brokers) -> None:
    subject = purges(brokers)
    subject.want(("t", 0), 5)
    subject.drop("t")
    brokers.answer(None)
    subject.settle(("t", 0))
    assert brokers.requests == [{("t", 0): 5}]
