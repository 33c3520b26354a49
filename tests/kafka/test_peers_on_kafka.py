"""The instances of a service on a real cluster: what the simulated logs cannot show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from millstream.cluster.membership import PeerMembership, topic_name
from millstream.cluster.metadata import HostedPartitions, InstanceMetadata
from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Topic
from tests.patience import PATIENCE_S, until

NAMESPACE = "_millstream.peers."
TOPIC = topic_name(NAMESPACE)
DATA = f"{NAMESPACE}data"


@pytest.fixture
def logs(servers: str) -> Iterator[tuple[KafkaLog, KafkaLog]]:
    opened = KafkaLog(servers, namespace=NAMESPACE), KafkaLog(servers, namespace=NAMESPACE)
    for topic in (TOPIC, DATA):
        opened[0].delete_topic(topic)
    yield opened
    for log in opened:
        log.close()


def metadata(name: str, *writers: str) -> InstanceMetadata:
    return InstanceMetadata(
        name, f"{name}1", "h:1", {"Q": HostedPartitions(frozenset({0}))}, writers
    )


def hear(peers: PeerMembership, now: int, expected: set[str]) -> None:
    """Refresh until these are the instances that live."""

    def heard() -> bool:
        peers.refresh(now)
        return peers.instances() == expected

    until(heard)


def left_open(servers: str, identity: str, topic: str) -> Producer:
    """A transaction of a writer that will never be ended, as by a process that was killed."""
    settings = {"bootstrap.servers": servers, "transactional.id": NAMESPACE + identity}
    producer = Producer(settings | {"transaction.timeout.ms": 60_000})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"late", b"k", 0)
    producer.flush(PATIENCE_S)
    return producer


def test_they_detect_each_other_and_their_end(logs: tuple[KafkaLog, KafkaLog]) -> None:
    north, south = (
        PeerMembership(log, NAMESPACE, name, f"{name}1")
        for log, name in zip(logs, ("north", "south"), strict=True)
    )
    for now in (0, 1_000, 2_000):
        for peers in (north, south):
            assert peers.publish(metadata(peers.instance), now)
    for peers in (north, south):
        hear(peers, 2_000, {"north", "south"})
    south.close()
    hear(north, 2_001, {"north"})
    late = PeerMembership(logs[1], NAMESPACE, "late", "late1")
    hear(late, 0, {"late", "north"})
    north.close()
    late.close()


def test_what_a_killed_instance_left_open_is_settled(
    servers: str, logs: tuple[KafkaLog, KafkaLog]
) -> None:
    log = logs[0]
    log.create_topic(Topic(DATA, 1))
    north, south = (
        PeerMembership(log, NAMESPACE, "north", "north1"),
        PeerMembership(logs[1], NAMESPACE, "south", "south1"),
    )
    south.publish(metadata("south", "w.south"), 0)
    hear(north, 0, {"north", "south"})
    open_ = left_open(servers, "w.south", DATA)
    assert log.end_offset(DATA, 0) == 0
    north.publish(metadata("north"), 10_000)
    hear(north, 10_000, {"north"})
    while north.fence_dead():
        pass
    assert north.dead() == ()
    until(lambda: log.end_offset(DATA, 0) >= 2)
    open_.purge()
    north.close()


def test_heartbeats_are_no_transactions(logs: tuple[KafkaLog, KafkaLog]) -> None:
    """So one that a killed process was writing keeps nobody from reading; no marker ends it."""
    north, south = (
        PeerMembership(log, NAMESPACE, name, f"{name}1")
        for log, name in zip(logs, ("north", "south"), strict=True)
    )
    for now in range(3):
        for peers in (north, south):
            assert peers.publish(metadata(peers.instance, f"w{now}"), now)
    assert logs[0].written_end(TOPIC, 0) == 6
    hear(north, 3, {"north", "south"})
    north.close()
    south.close()
