"""What a commit round of many queries takes on Kafka."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import pyarrow as pa

from millstream.log.kafka.client import Membership
from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Appended, Member, Outcome, Participant, Topic
from millstream.model.batch import raw_batch
from tests.bench.figures.catalogue import Reading
from tests.bench.figures.setting import Setting

ROUNDS = 20


def kafka_round(setting: Setting) -> Iterator[Reading]:
    """The log's part: each query writes a record and moves a position of its own group."""
    count = setting.scale.few
    log = KafkaLog(
        setting.servers, namespace=f"{setting.service}-", membership=Membership("", "classic")
    )
    topic = f"{setting.service}-rounds"
    log.create_topic(Topic(topic, 4))
    groups = [f"{setting.service}-q{number}" for number in range(count)]
    members = [log.join(group, 1) for group in groups]
    while not all(member.assignment().partitions for member in members):
        time.sleep(0.1)
    took = [_round(log, topic, groups, members, number) for number in range(ROUNDS + 1)]
    yield Reading(
        "kafka-round", f"{statistics.median(took[1:]):.0f} ms (the first {took[0]:.0f} ms)"
    )


def _round(
    log: KafkaLog, topic: str, groups: list[str], members: list[Member[pa.Table]], value: int
) -> float:
    """One round; returns the ms that it took."""
    batch = raw_batch([(b"k", b"v", value)])
    participants = [
        Participant(
            member.writer(member.assignment().epoch),
            group,
            (Appended(topic, number % 4, batch, 1),),
            {(topic, number % 4): value},
        )
        for number, (group, member) in enumerate(zip(groups, members, strict=True))
    ]
    started = time.perf_counter()
    results = log.transact_all(participants)
    took = time.perf_counter() - started
    if results != [Outcome.COMMITTED] * len(groups):
        raise RuntimeError(f"not everything was committed: {results}")
    return 1000 * took
