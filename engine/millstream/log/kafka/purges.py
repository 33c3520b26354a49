"""Deletes consumed records asynchronously.

A query that repartitions requests deletion with each commit and for each partition. Requests of one
second go to the brokers together, while the query continues.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, DeletedRecords

from millstream.log.kafka.asking import ABSENT, PASSING, answer_to
from millstream.log.kafka.client import REQUEST_SECONDS, translated
from millstream.log.log import TopicPartition as Place

_SECONDS = 1.0
"""How long requests are collected."""
_Answers = Mapping[TopicPartition, Future[DeletedRecords]]


class Purges:
    """The requests to send, and those in flight."""

    def __init__(self, admin: AdminClient, end: Callable[[Place], int]) -> None:
        """`end` returns the end of a partition: nothing behind it can be deleted."""
        self._admin = admin
        self._end = end
        self._lock = threading.Lock()
        self._wanted: dict[Place, int] = {}
        self._sent: dict[Place, int] = {}
        self._answers: _Answers = {}
        self._next = 0.0

    def want(self, topic_partition: Place, before: int) -> None:
        """Delete the records below an offset soon. Raises the error of an earlier request."""
        with self._lock:
            if before <= self._sent.get(topic_partition, -1):
                return
            self._wanted[topic_partition] = max(before, self._wanted.get(topic_partition, 0))
            if time.monotonic() < self._next or not all(a.done() for a in self._answers.values()):
                return
            answers = self._answers
            self._send()
        for asked, answer in answers.items():
            self._heard(asked, answer)

    def settle(self, topic_partition: Place) -> None:
        """Block until the requested deletions of a partition are done."""
        with self._lock:
            before = max(self._wanted.pop(topic_partition, -1), self._sent.pop(topic_partition, -1))
        if before <= 0:
            return
        wanted = TopicPartition(*topic_partition, min(before, self._end(topic_partition)))
        try:
            answer_to(lambda: self._admin.delete_records([wanted])[wanted])
        except KafkaException as error:
            raise _failed(wanted, error) from error

    def drop(self, topic: str) -> None:
        """Drop the requests for a deleted topic."""
        with self._lock:
            for known in (self._wanted, self._sent):
                for topic_partition in [
                    topic_partition for topic_partition in known if topic_partition[0] == topic
                ]:
                    del known[topic_partition]

    def _send(self) -> None:
        wanted = [
            TopicPartition(*topic_partition, before)
            for topic_partition, before in self._wanted.items()
        ]
        self._answers = self._admin.delete_records(wanted, request_timeout=REQUEST_SECONDS)
        self._sent.update(self._wanted)
        self._wanted.clear()
        self._next = time.monotonic() + _SECONDS

    def _heard(self, asked: TopicPartition, answer: Future[DeletedRecords]) -> None:
        error = answer.exception()
        if not isinstance(error, KafkaException):
            return
        code = error.args[0].code()
        if code in PASSING or code == KafkaError.OFFSET_OUT_OF_RANGE:
            with self._lock:
                # Retried together with the next request.
                self._sent.pop((asked.topic, asked.partition), None)
        elif code not in ABSENT:
            raise _failed(asked, error) from error


def _failed(asked: TopicPartition, error: KafkaException) -> Exception:
    attempt = f"truncate topic '{asked.topic}', partition {asked.partition}"
    return translated(error, attempt)
