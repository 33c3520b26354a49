"""What a writer hands to a real broker, plain and compiled: all of it, in order, or nothing."""

from __future__ import annotations

import random
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Appended, Outcome, Topic, Writer
from millstream.model.batch import RAW_SCHEMA, raw_batch
from millstream.model.errors import MillstreamError, StatementError
from tests.draws import draws
from tests.patience import until
from tests.unit.log.kafka_batches import batches, shown

GROUP = "writing"
TOPIC = "writing"
LIMIT = 20_000
RANDOM = random.Random(1)


@pytest.fixture
def log(servers: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaLog]:
    """With a topic of two partitions, and a queue of the client that is soon full. Each test has a
    topic of its own: what a broker still says of a deleted one would be taken for that of its
    successor."""
    monkeypatch.setattr(sys.modules[__name__], "TOPIC", f"writing-{uuid.uuid4().hex}")
    made = KafkaLog(servers, settings={"queue.buffering.max.messages": "10"})
    made.create_topic(Topic(TOPIC, 2, config={"max.message.bytes": str(LIMIT)}))
    yield made
    made.delete_topic(TOPIC)
    made.close()


@pytest.fixture
def writer(log: KafkaLog) -> Iterator[Writer[pa.Table]]:
    made = log.writer("writing")
    yield made
    made.close()


def appended(partition: int, batch: pa.Table) -> Appended[pa.Table]:
    return Appended(TOPIC, partition, batch, batch.num_rows)


def rows(log: KafkaLog, partition: int, offset: int, end: int) -> list[dict[str, Any]]:
    """The records of a partition in `[offset, end)`, without their offsets."""
    found: list[dict[str, Any]] = []
    while offset < end:
        fetched = log.read(TOPIC, partition, offset, end - offset)
        found += fetched.batch.to_pylist()
        offset = fetched.next_offset
    return [row | {"offset": None} for row in found]


def test_what_is_appended_is_read(log: KafkaLog, writer: Writer[pa.Table]) -> None:
    ends = [0, 0]

    @settings(max_examples=draws(25))
    @given(st.lists(st.tuples(st.sampled_from((0, 1)), batches()), min_size=1, max_size=4))
    def check(sent: list[tuple[int, pa.Table]]) -> None:
        writer.append([appended(*item) for item in sent])
        for partition, first in enumerate(ends):
            mine = [batch for chosen, batch in sent if chosen == partition]
            whole = pa.concat_tables([RAW_SCHEMA.empty_table(), *mine])
            ends[partition] = log.end_offset(TOPIC, partition)
            found = rows(log, partition, first, ends[partition])
            assert found == [row | {"offset": None} for row in shown(whole)]

    check()


def test_more_than_the_queue_takes(log: KafkaLog, writer: Writer[pa.Table]) -> None:
    batch = raw_batch([(b"%d" % row, b"v" * (row % 99), row + 1) for row in range(2_000)])
    writer.append([appended(0, batch), appended(1, batch)])
    for partition in (0, 1):
        found = rows(log, partition, 0, 2_000)
        assert found == [row | {"offset": None} for row in shown(batch)]


@pytest.mark.parametrize("size", [LIMIT + 1, 11_000_000], ids=["by the broker", "by the client"])
def test_a_record_that_is_refused(log: KafkaLog, writer: Writer[pa.Table], size: int) -> None:
    """The record is named, nothing becomes visible, and the writer can be used further."""
    good = raw_batch([(b"good", b"v", 1)])
    large = raw_batch([(b"small", b"v", 1), (b"the large one", RANDOM.randbytes(size), 1)])
    large = pa.concat_tables([large, good])
    # A broker may take records of a new topic before it knows its limit.
    until(lambda: refuses(writer))
    before = counts(log)
    writer.append([appended(0, good)])
    with pytest.raises(
        StatementError, match=rf"'{TOPIC}', partition 1: .*{size + 13:,} bytes.*one"
    ):
        writer.transact(GROUP, [appended(0, good), appended(1, large)], {(TOPIC, 0): 1})
    assert log.positions(GROUP) == {}
    writer.append([appended(1, good)])
    assert writer.transact(GROUP, [appended(1, good)], {(TOPIC, 0): 1}) is Outcome.COMMITTED
    assert counts(log) == [before[0] + 1, before[1] + 2]
    log.forget_group(GROUP)


def refuses(writer: Writer[pa.Table]) -> bool:
    """Whether a record over the limit is refused by each partition."""
    probe = raw_batch([(b"probe", RANDOM.randbytes(LIMIT + 1), 1)])
    for partition in (0, 1):
        try:
            writer.append([appended(partition, probe)])
        except StatementError:
            continue
        return False
    return True


def counts(log: KafkaLog) -> list[int]:
    """How many records each partition shows."""
    ends = [log.end_offset(TOPIC, partition) for partition in (0, 1)]
    return [len(rows(log, partition, 0, end)) for partition, end in enumerate(ends)]


def test_a_time_that_the_broker_refuses(log: KafkaLog, writer: Writer[pa.Table]) -> None:
    """Some hundred years from now: no retry helps."""
    late = raw_batch([(b"k", b"v", 2**43)])
    with pytest.raises(StatementError, match=f"'{TOPIC}', partition 0: .*timestamp"):
        writer.append([appended(0, late)])
    writer.append([appended(0, raw_batch([(b"good", b"v", 1)]))])


def test_a_topic_that_was_deleted_is_not_made_again(log: KafkaLog, servers: str) -> None:
    asking = KafkaLog(servers, settings={"topic.metadata.refresh.interval.ms": "20"})
    batch = raw_batch([(b"k", b"v", 1)])
    writer = asking.writer("writing")
    writer.append([appended(0, batch)])
    log.delete_topic(TOPIC)
    assert [log.topic(TOPIC) for _ in range(200)] == [None] * 200
    with pytest.raises(MillstreamError):
        writer.append([appended(0, batch)])
    writer.close()
    asking.close()
