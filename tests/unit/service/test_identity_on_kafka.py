"""The command topic of a cluster whose brokers learn of a new topic one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

pytest.importorskip("confluent_kafka")

from millstream.log.log import Topic
from millstream.model.errors import ConflictError, MillstreamError, UnavailableError
from millstream.service import on_kafka


class Brokers:
    """Answers of the brokers: to descriptions, one after another (the last one for ever), and to a
    creation."""

    def __init__(self, described: Sequence[Topic | None], created: Topic | MillstreamError) -> None:
        self.described, self.created = list(described), created
        self.asked = 0

    def topic(self, _: str) -> Topic | None:
        self.asked += 1
        return self.described.pop(0) if len(self.described) > 1 else self.described[0]

    def create_topics(self, topics: Sequence[Topic]) -> list[Topic | MillstreamError]:
        assert [topic.name for topic in topics] == ["c"]
        return [self.created]


def named(identity: str) -> Topic:
    return Topic("c", 1, 1, {}, identity)


@pytest.mark.parametrize(
    ("described", "created", "asked"),
    [
        ([named("a")], named("never"), 1),
        # The description would come from a broker that has not heard of it.
        ([None], named("a"), 1),
        # The creation has an answer without the id.
        ([None, None, named("a")], named(""), 3),
        # Another instance has created it.
        ([None, None, None, named("a")], ConflictError("c is there"), 4),
    ],
)
def test_the_identity(
    described: Sequence[Topic | None],
    created: Topic | MillstreamError,
    asked: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_kafka, "PAUSE", 0)
    brokers = Brokers(described, created)
    assert on_kafka._identity(cast(Any, brokers), "c") == "a"
    assert brokers.asked == asked


def test_a_topic_that_is_refused() -> None:
    brokers = Brokers([None], UnavailableError("no rights", code="E-RIGHTS"))
    with pytest.raises(UnavailableError, match="no rights"):
        on_kafka._identity(cast(Any, brokers), "c")


def test_a_topic_that_never_appears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_kafka, "REQUEST_SECONDS", -1)
    brokers = Brokers([None], ConflictError("c is there"))
    with pytest.raises(UnavailableError, match="command topic 'c'"):
        on_kafka._identity(cast(Any, brokers), "c")
