"""What is sent outside of transactions on a real broker."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from millstream.log.kafka import plain_producers
from millstream.log.kafka.backend import open_batch_producer
from millstream.log.kafka.batch_producer import BatchProducer
from millstream.log.kafka.log import KafkaLog
from millstream.log.kafka.member_writer import PooledWriter
from millstream.log.log import Appended, Outcome, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import StatementError, UnavailableError
from tests.kafka.parties import ALL, GROUP, TASKS, Party, append, claims, numbers, until
from tests.unit.log.suite import table_of


def joined(party: Party) -> tuple[KafkaLog, Any, PooledWriter]:
    log = party.log("classic")
    member = log.join(GROUP, TASKS)
    until(lambda: claims(member) == [ALL])
    writer = member.writer(member.assignment().epoch)
    assert isinstance(writer, PooledWriter)
    return log, member, writer


def test_it_is_there_at_once_and_in_order(party: Party, kind: str) -> None:
    log, _, writer = joined(party)
    topic = party.topic()
    for first in range(0, 40, 10):
        writer.send([Appended(topic, 0, table_of(range(first, first + 10)), 10)])
        assert log.end_offset(topic, 0) == first + 10, "without the marker of a transaction"
        assert numbers(log, topic) == list(range(first + 10))
    writer.send([append(topic, 1, 1), append(topic, 2, 2), append(topic, 3, 1)])
    assert (numbers(log, topic, 1), numbers(log, topic, 2)) == ([1, 3], [2])


def test_it_stays_before_what_is_committed_later(party: Party) -> None:
    log, _, writer = joined(party)
    topic = party.topic()
    for number in range(0, 20, 2):
        writer.send([append(topic, number)])
        outcome = writer.transact(GROUP, [append(topic, number + 1)], {(topic, 0): number})
        assert outcome is Outcome.COMMITTED
    assert numbers(log, topic) == list(range(20))


@pytest.mark.parametrize("size", [20_000, 11_000_000], ids=["by the broker", "by the client"])
def test_a_record_that_is_refused(party: Party, kind: str, size: int) -> None:
    """The record is named, and others can be sent afterwards."""
    log, _, writer = joined(party)
    topic = party.topic()
    log.delete_topic(topic)
    log.create_topic(_limited(topic))
    large = raw_batch([(b"k", random.Random(1).randbytes(size), 1)])
    for _ in range(2):
        with pytest.raises(StatementError, match=rf"'{topic}', partition 1: .*{size + 1:,} bytes"):
            writer.send([append(topic, 1), Appended(topic, 1, large, 1)])
    writer.send([append(topic, 2)])
    assert numbers(log, topic)[-1] == 2
    assert log.end_offset(topic, 1) == 0


def test_a_topic_that_does_not_exist(party: Party) -> None:
    log, _, writer = joined(party)
    with pytest.raises(StatementError, match="no topic"):
        writer.send([append(f"{party.namespace}nowhere", 1)])
    assert log.topic(f"{party.namespace}nowhere") is None


def test_one_that_has_lost_its_tasks_sends_nothing_more(party: Party) -> None:
    log, member, writer = joined(party)
    topic = party.topic()
    writer.send([append(topic, 1)])
    member.instance._lose()
    with pytest.raises(UnavailableError, match="aborted"):
        writer.send([append(topic, 2)])
    writer.close()
    with pytest.raises(UnavailableError, match="closed"):
        writer.send([append(topic, 3)])
    assert numbers(log, topic) == [1]


def _limited(topic: str) -> Topic:
    return Topic(topic, TASKS, config={"max.message.bytes": "10000"})


def test_the_producer_of_the_first_append_is_opened_with_the_log(
    party: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first producer of a client without connections gets its id half a second late."""
    opened: list[object] = []

    def counted(config: Any) -> BatchProducer:
        opened.append(config)
        return open_batch_producer(config)

    monkeypatch.setattr(plain_producers, "open_batch_producer", counted)
    party.log("classic")
    assert len(opened) == 1
