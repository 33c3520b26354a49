"""How often a cluster is asked about the topics that queries were made for."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from millstream.log.kafka.topic_metadata import TopicMetadataCache


class Admin:
    """Answers no request before `answer` is called."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.open: list[Future[Any]] = []

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        names = list(topics.topic_names)
        self.asked.append(len(names))
        self.open = [Future() for _ in names]
        return dict(zip(names, self.open, strict=True))

    def answer(self) -> None:
        for future in self.open:
            future.set_exception(RuntimeError("no answer"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("millstream.log.kafka.topic_metadata.time.monotonic", lambda: now[0])
    return now


def test_the_more_topics_the_less_often(clock: list[float]) -> None:
    for topics, seconds in ((3, 2.0), (1000, 40.0)):
        admin = Admin()
        cache = TopicMetadataCache(admin)  # type: ignore[arg-type]
        names = [f"t{number}" for number in range(topics)]
        cache.seen(names)
        admin.answer()
        clock[0] += seconds - 0.5
        cache.seen(names)
        assert admin.asked == [topics]
        clock[0] += 0.5
        cache.seen(names)
        assert admin.asked == [topics, topics]


def test_one_request_at_a_time(clock: list[float]) -> None:
    admin = Admin()
    cache = TopicMetadataCache(admin)  # type: ignore[arg-type]
    cache.seen(["a"])
    clock[0] += 60
    cache.seen(["a", "b"])
    assert admin.asked == [1]
    admin.answer()
    cache.seen([])
    assert admin.asked == [1, 2]
