"""Both ways to write to Kafka write the same, bit for bit; against the brokers that the client
itself simulates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.log.kafka.backend import SWITCH, compiled_client, open_batch_producer
from millstream.log.kafka.batch_producer import BatchProducer, MessageProducer
from millstream.log.kafka.client import Settings, consumer_config
from millstream.log.kafka.compiled import CompiledProducer
from millstream.log.kafka.intake import MessageIntake
from millstream.log.log import Appended
from millstream.log.log import TopicPartition as Place
from millstream.model.batch import RAW_SCHEMA, raw_batch
from millstream.model.errors import StatementError
from tests.draws import draws
from tests.patience import PATIENCE_S
from tests.unit.log.kafka_batches import batches, shown

Opened = Callable[..., BatchProducer]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """The simulated broker lives as long as this."""
    made = Producer({"test.mock.num.brokers": 1, "log_level": 2})
    broker = made.list_topics(timeout=PATIENCE_S).brokers[1]
    yield f"{broker.host}:{broker.port}"
    made.flush()


@pytest.fixture(params=["plain", "compiled"])
def opened(servers: str, request: pytest.FixtureRequest) -> Iterator[Opened]:
    library = compiled_client()
    if request.param == "compiled" and library is None:
        pytest.skip("the library was not built: see CONTRIBUTING")
    made: list[BatchProducer] = []

    def opens(more: Settings | None = None) -> BatchProducer:
        config = {"bootstrap.servers": servers, "log_level": 2, "linger.ms": 0, **(more or {})}
        plain = request.param == "plain" or library is None
        made.append(MessageProducer(config) if plain else CompiledProducer(config, library))
        return made[-1]

    yield opens
    for sender in made:
        sender.close()


def fresh(opened: Opened, request: pytest.FixtureRequest) -> tuple[BatchProducer, str]:
    """A batch producer, and the name of a topic that only this test writes to."""
    sender = opened()
    topic = f"{request.node.name}".translate({ord("["): "-", ord("]"): None})
    sender.producer.list_topics(topic, timeout=PATIENCE_S)
    return sender, topic


def appended(topic: str, partition: int, batch: pa.Table) -> Appended[pa.Table]:
    return Appended(topic, partition, batch, batch.num_rows)


def written(
    sender: BatchProducer,
    batches: Sequence[Appended[pa.Table]],
    seconds: float = PATIENCE_S,
) -> Mapping[Place, int]:
    """The ends, after all of it was acknowledged."""
    sender.hand(batches)
    return sender.settle(seconds)


def taken(intake: MessageIntake, records: int) -> dict[Place, list[dict[str, Any]]]:
    """The next so many records, by partition."""
    found: dict[Place, list[dict[str, Any]]] = {}
    deadline = time.monotonic() + PATIENCE_S
    while records > 0 and time.monotonic() < deadline:
        for topic_partition, piece in intake.take(0.02):
            if isinstance(piece, pa.Table):
                found.setdefault(topic_partition, []).extend(piece.to_pylist())
                records -= piece.num_rows
    assert records == 0
    return found


def test_what_is_sent_is_written(
    opened: Opened, servers: str, request: pytest.FixtureRequest
) -> None:
    sender, topic = fresh(opened, request)
    intake = MessageIntake(consumer_config(servers, "g", {}))
    intake.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    ends = {(topic, 0): 0, (topic, 1): 0}

    @settings(max_examples=draws(60))
    @given(st.lists(st.tuples(st.sampled_from((0, 1)), batches()), min_size=1, max_size=4))
    def check(sent: list[tuple[int, pa.Table]]) -> None:
        firsts = dict(ends)
        ends.update(written(sender, [appended(topic, *item) for item in sent if len(item[1])]))
        found = taken(intake, sum(len(batch) for _, batch in sent))
        for topic_partition, first in firsts.items():
            mine = [batch for partition, batch in sent if partition == topic_partition[1]]
            whole = pa.concat_tables([RAW_SCHEMA.empty_table(), *mine])
            assert found.get(topic_partition, []) == shown(whole, first)
            assert ends[topic_partition] == first + whole.num_rows

    check()
    intake.close()


def test_a_full_queue_is_waited_for(
    opened: Opened, servers: str, request: pytest.FixtureRequest
) -> None:
    _, topic = fresh(opened, request)
    sender = opened({"queue.buffering.max.messages": 7})
    batch = raw_batch([(b"%d" % row, b"v" * row, row + 1) for row in range(300)])
    ends = written(sender, [appended(topic, 3, batch)])
    assert ends == {(topic, 3): 300}
    intake = MessageIntake(consumer_config(servers, "g", {}))
    intake.assign([TopicPartition(topic, 3, 0)])
    assert taken(intake, 300) == {(topic, 3): shown(batch)}
    intake.close()


def test_a_record_that_is_too_large_is_named(
    opened: Opened, request: pytest.FixtureRequest
) -> None:
    _, topic = fresh(opened, request)
    sender = opened({"message.max.bytes": 2000})
    batch = raw_batch([(b"small", b"v", 1), (b"large", b"v" * 5000, 1), (b"last", None, 1)])
    with pytest.raises(StatementError, match=rf"'{topic}', partition 2: .* 5,005 .*b'large'"):
        written(sender, [appended(topic, 2, batch)])


def test_without_a_broker_it_is_an_error_that_asks_for_an_abort(opened: Opened) -> None:
    sender = opened({"bootstrap.servers": "127.0.0.1:1"})
    batch = raw_batch([(b"k", b"v", 1)])
    with pytest.raises(KafkaException, match="Not all records") as raised:
        written(sender, [appended("t", 0, batch)], seconds=0.05)
    assert raised.value.args[0].txn_requires_abort()
    sender.producer.purge()


def test_a_partition_that_is_not_there(opened: Opened, request: pytest.FixtureRequest) -> None:
    sender, topic = fresh(opened, request)
    batch = raw_batch([(b"k", b"v", 1)])
    with pytest.raises(KafkaException) as raised:
        written(sender, [appended(topic, 99, batch)])
    assert raised.value.args[0].code() == KafkaError._UNKNOWN_PARTITION


def test_what_failed_before_does_not_count(
    opened: Opened, servers: str, request: pytest.FixtureRequest
) -> None:
    sender, topic = fresh(opened, request)
    good = appended(topic, 0, raw_batch([(b"k", b"v", 1)]))
    with pytest.raises(KafkaException):
        written(sender, [good, appended(topic, 99, good.batch)])
    sender.producer.flush(PATIENCE_S)
    assert written(sender, [good, good]) == {(topic, 0): 3}


def test_a_closed_one_refuses(opened: Opened) -> None:
    sender = opened()
    sender.close()
    sender.close()
    with pytest.raises(RuntimeError, match="closed"):
        written(sender, [appended("t", 0, raw_batch([(b"k", b"v", 1)]))])


def test_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "plain")
    made = open_batch_producer({"log_level": 2})
    made.close()
    assert isinstance(made, MessageProducer)


@pytest.mark.parametrize(
    "ends",
    [[0, 4, 2], [0, 2, 5], [-1, 2, 4], [0, 2, 2**31 - 1]],
    ids=["descending", "beyond", "negative", "far"],
)
def test_buffers_that_are_not_right(servers: str, ends: list[int]) -> None:
    library = compiled_client()
    if library is None:
        pytest.skip("the library was not built: see CONTRIBUTING")
    sender = CompiledProducer({"bootstrap.servers": servers, "log_level": 2}, library)
    found = np.array([0, 2, 4], np.int32)
    buffers = [None, pa.py_buffer(found), pa.py_buffer(b"abcd")]
    batch = raw_batch([(None, b"v", 1)] * 2)
    batch = batch.set_column(2, "key", pa.Array.from_buffers(pa.binary(), 2, buffers))
    found[:] = ends  # Arrow has looked
    with pytest.raises(KafkaException) as raised:
        written(sender, [appended("damaged", 0, batch)])
    assert raised.value.args[0].code() == KafkaError._BAD_MSG
    sender.producer.flush(PATIENCE_S)
    sender.close()
