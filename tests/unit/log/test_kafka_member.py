"""The thread of a member outlives what its client does wrong. No broker is needed."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition

from millstream.log.kafka import instance_member as module
from millstream.log.kafka.assignment_topic import AssignmentTopic
from millstream.log.kafka.instance_member import InstanceMember
from millstream.log.kafka.member import KafkaMember, MemberContext
from millstream.log.kafka.name_dispute import NameDispute
from millstream.log.kafka.plain_producers import PlainProducers
from millstream.log.kafka.producer_pool import ProducerPool
from millstream.log.log import Fetched, Reader
from millstream.model.batch import raw_batch


class Broken:
    """A consumer whose first life ends with the client's own error; the second one is healthy."""

    lives = 0
    again = threading.Event()

    def __init__(self, config: object) -> None:
        Broken.lives += 1
        self.life = Broken.lives

    def subscribe(self, topics: list[str], **callbacks: object) -> None:
        if self.life == 2:
            Broken.again.set()

    def unsubscribe(self) -> None:
        """Nothing was assigned."""

    def assignment(self) -> list[object]:
        return []

    def poll(self, seconds: float) -> None:
        if self.life == 1:
            raise SystemError("exception <class 'str'> is not a BaseException subclass")

    def consumer_group_metadata(self) -> bytes:
        return b""

    def close(self) -> None:
        if self.life == 1:
            raise SystemError("exception <class 'str'> is not a BaseException subclass")


class Late(Broken):
    """A consumer that is assigned a partition once more while it leaves the group."""

    def subscribe(self, topics: list[str], **callbacks: object) -> None:
        super().subscribe(topics)
        self.on_assign, self.leaving = callbacks["on_assign"], False

    def unsubscribe(self) -> None:
        self.leaving = True

    def poll(self, seconds: float) -> None:
        if self.leaving:
            self.leaving = False
            self.on_assign(self, [TopicPartition("members", 0)])  # type: ignore[operator]
        else:
            super().poll(seconds)

    def incremental_assign(self, given: list[object]) -> None:
        """It has them until it is closed."""

    def pause(self, given: list[object]) -> None:
        """There are no records."""


class NoReader:
    """Reads an empty topic."""

    def begin(self, topic_partitions: object) -> None:
        """Nothing is there."""

    def read(self, topic: str, partition: int, offset: int, count: int) -> Fetched[pa.Table]:
        return Fetched(topic, partition, raw_batch([]), 0, offset, end=True)

    def close(self) -> None:
        """Nothing was opened."""


class NoRecords:
    """A log whose topic is empty."""

    def start_offset(self, topic: str, partition: int) -> int:
        return 0

    def end_offset(self, topic: str, partition: int) -> int:
        return 0

    def reader(self) -> Reader[pa.Table]:
        return NoReader()  # type: ignore[return-value]

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """Nothing is there."""


class NotLeading:
    def stop(self) -> None:
        """Another member is the leader."""


class NoLag:
    def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize("consumer", [Broken, Late])
def test_a_client_that_breaks_down_is_replaced(
    monkeypatch: pytest.MonkeyPatch, consumer: type[Broken]
) -> None:
    monkeypatch.setattr(Broken, "lives", 0)
    monkeypatch.setattr(Broken, "again", threading.Event())
    monkeypatch.setattr(module, "Consumer", consumer)
    monkeypatch.setattr(module, "member_of", lambda shown: "")
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.0)
    topic = AssignmentTopic("assignments", NoRecords(), lambda appended: None)
    instance = InstanceMember(
        {},
        "members",
        topic,
        lambda seated, credential: pytest.fail("nothing is claimed"),
        NotLeading(),  # type: ignore[arg-type]
        NameDispute("", "process", lambda: False),
        lambda group: None,
    )
    member = member_of(instance)
    assert Broken.again.wait(60)
    assert member.assignment().partitions == frozenset()
    member.close()
    instance.close()
    assert Broken.lives == 2


def member_of(instance: InstanceMember) -> KafkaMember:
    """A query's part in it, which writes nothing."""
    context = MemberContext(
        instance,
        "",
        ProducerPool(lambda number: pytest.fail("nothing is written")),
        PlainProducers({}, lambda place: None, lambda ends: None, 1.0),
        lambda group, size: pytest.fail("nothing is written"),
        lambda group: pytest.fail("nothing is written"),
    )
    return KafkaMember("g", 1, context, NoLag())  # type: ignore[arg-type]
