"""Topics that another program deletes, recreates or enlarges stop the queries that use them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import millstream
from millstream.log.kafka.log import KafkaLog
from millstream.runtime.spec import QueryState

Change = Callable[["Other", str], None]


class Other:
    """Another process that changes topics."""

    def __init__(self, servers: str) -> None:
        self.admin = AdminClient({"bootstrap.servers": servers})

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result()
        while topic in self.admin.list_topics(timeout=10).topics:
            pass

    def recreate(self, topic: str) -> None:
        self.delete(topic)
        while True:
            try:
                self.admin.create_topics([NewTopic(topic, 2, 1)])[topic].result()
                return
            except KafkaException as error:
                assert "exists" in str(error)

    def enlarge(self, topic: str) -> None:
        self.admin.create_partitions([NewPartitions(topic, 3)])[topic].result()


@pytest.fixture
def other(servers: str) -> Other:
    return Other(servers)


@pytest.fixture
def service() -> str:
    return f"changed-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def reopen(servers: str, service: str) -> Iterator[Callable[[], millstream.Database]]:
    opened: list[millstream.Database] = []

    def again() -> millstream.Database:
        close()
        opened.append(millstream.connect(kafka=servers, service_id=service))
        return opened[-1]

    def close() -> None:
        while opened:
            opened.pop().close()

    yield again
    close()


def shop(db: millstream.Database, topic: str) -> None:
    db.execute(
        f"CREATE STREAM orders (c STRING KEY, n INT) WITH (KAFKA_TOPIC='{topic}', PARTITIONS=2,"
        " VALUE_FORMAT='JSON');"
        "CREATE TABLE spent AS SELECT c, SUM(n) AS total FROM orders GROUP BY c;"
        f"INSERT INTO orders VALUES ('{topic}', 1);"
    )
    db.wait()


def status(db: millstream.Database) -> str:
    (row,) = db.execute("SHOW QUERIES;")
    return str(row[2])


CHANGES = [
    pytest.param(Other.delete, "was deleted", id="deleted"),
    pytest.param(Other.recreate, "was deleted and made again", id="made again"),
    pytest.param(Other.enlarge, "had 2 partitions, now 3", id="enlarged"),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_a_running_query_stops(
    reopen: Callable[[], millstream.Database],
    other: Other,
    service: str,
    change: Change,
    message: str,
) -> None:
    db = reopen()
    shop(db, service)
    change(other, service)
    while (found := db.engine.statuses()[0]).state is not QueryState.ERROR:
        pass
    assert f"topic '{service}' {message}" in found.error
    assert found.code == ("E-PARTITIONS" if change is Other.enlarge else "E-TOPIC-REPLACED")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_a_query_does_not_start_on_another_topic(
    reopen: Callable[[], millstream.Database],
    other: Other,
    service: str,
    change: Change,
    message: str,
) -> None:
    shop(reopen(), service)
    reopen().close()
    change(other, service)
    assert f"ERROR: topic '{service}' {message}" in status(reopen())


@pytest.mark.timeout(300)
def test_a_changelog_that_was_deleted_is_not_made_again(
    reopen: Callable[[], millstream.Database], other: Other, servers: str, service: str
) -> None:
    shop(reopen(), service)
    reopen().close()
    log = KafkaLog(servers)
    (changelog,) = (topic.name for topic in log.topics() if f"{service}.C" in topic.name)
    log.close()
    other.delete(changelog)
    assert f"ERROR: topic '{changelog}' was deleted" in status(reopen())


def test_asking_for_a_topic_does_not_make_it(servers: str, service: str) -> None:
    log = KafkaLog(servers)
    assert log.topic(service) is None
    assert log.topic(service) is None
    assert service not in [topic.name for topic in log.topics()]
    log.close()
