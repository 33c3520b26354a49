"""Requests to the cluster, retried while it elects a leader."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from millstream.log.kafka.client import REQUEST_SECONDS

Result = TypeVar("Result")
ABSENT = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.GROUP_ID_NOT_FOUND,
    }
)
UNSETTLED = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
LOST = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT})
"""The broker that received the request is gone and may have carried it out."""
PASSING = UNSETTLED | LOST
PAUSE = 0.01


def answer_to(ask: Callable[[], Future[Result]], *, repeatable: bool = True) -> Result:
    """The response to a request. It is retried while the cluster elects a leader and, if the
    request is idempotent, after the connection to the broker is lost. A client that says nothing at
    all, not even that the time is over, counts as such a loss: KafkaException with _TIMED_OUT."""
    passing = PASSING if repeatable else UNSETTLED
    deadline = time.monotonic() + REQUEST_SECONDS
    while True:
        try:
            return _answer(ask(), REQUEST_SECONDS * 2)
        except KafkaException as error:
            if error.args[0].code() not in passing or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE)


def answers_to(
    ask: Callable[[list[str]], Mapping[str, Future[Result]]],
    names: Collection[str],
    *,
    repeatable: bool = True,
) -> dict[str, Result | KafkaException]:
    """The response to a request about several topics, for each of them: what it asks for, or the
    error. Those for which the cluster elects a leader are asked for again, as with `answer_to`."""
    passing = PASSING if repeatable else UNSETTLED
    deadline = time.monotonic() + REQUEST_SECONDS
    found: dict[str, Result | KafkaException] = {}
    left = sorted(names)
    while left:
        for name, asked in ask(left).items():
            try:
                found[name] = _answer(asked, REQUEST_SECONDS * 2)
            except KafkaException as error:
                found[name] = error
        left = [name for name in left if _code(found[name]) in passing]
        if time.monotonic() > deadline:
            break
        if left:
            time.sleep(PAUSE)
    return found


def _code(found: object) -> int | None:
    return int(found.args[0].code()) if isinstance(found, KafkaException) else None


def _answer(asked: Future[Result], seconds: float) -> Result:
    try:
        return asked.result(seconds)
    except TimeoutError as error:
        text = f"the client has not answered within {seconds:g} seconds"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, text)) from error
