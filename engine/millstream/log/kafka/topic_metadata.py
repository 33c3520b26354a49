"""Cached topic metadata, for callers that cannot block."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from concurrent.futures import Future
from functools import partial

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, TopicDescription

from millstream.log.log import Topic

_SECONDS = 2.0
"""How often the cluster is asked at most, in one request for all topics of interest."""
_TOPICS_A_SECOND = 25
"""The more topics, the less often: the client makes objects of all partitions of each one."""


class TopicMetadataCache:
    """Requests metadata while there are callers interested in it, and never blocks."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._lock = threading.Lock()
        self._wanted: set[str] = set()
        self._known: dict[str, Topic | None] = {}
        self._missed: set[str] = set()
        """Topics that the last response lacked: a broker may not have the metadata of a new one
        yet."""
        self._open = 0
        self._next = 0.0

    def seen(self, names: Collection[str]) -> dict[str, Topic | None]:
        """The cached topics among these; None for one that does not exist."""
        with self._lock:
            self._wanted.update(names)
            asking: set[str] = set()
            now = time.monotonic()
            if self._wanted and not self._open and now >= self._next:
                asking, self._wanted = self._wanted, set()
                self._open, self._next = len(asking), now + interval(len(asking))
            known = {name: self._known[name] for name in names if name in self._known}
        if asking:
            answers = self._admin.describe_topics(
                TopicCollection(sorted(asking)), request_timeout=_SECONDS
            )
            for name, answer in answers.items():
                answer.add_done_callback(partial(self._answered, name))
        return known

    def _answered(self, name: str, answer: Future[TopicDescription]) -> None:
        error = answer.exception()
        with self._lock:
            self._open -= 1
            if error is None:
                self._known[name] = described(answer.result())
                self._missed.discard(name)
            elif absent(error) and name in self._missed:
                self._known[name] = None
            else:
                self._known.pop(name, None)
                if absent(error):
                    self._missed.add(name)


def interval(topics: int) -> float:
    """How many seconds after a request for so many topics the next one may follow."""
    return max(_SECONDS, topics / _TOPICS_A_SECOND)


def described(found: TopicDescription) -> Topic:
    """A topic without its settings."""
    replicas = len(found.partitions[0].replicas) if found.partitions else 0
    return Topic(found.name, len(found.partitions), replicas, id=str(found.topic_id))


def absent(error: BaseException) -> bool:
    """Whether the cluster reports that the topic does not exist."""
    code = error.args[0].code() if isinstance(error, KafkaException) else None
    return code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
