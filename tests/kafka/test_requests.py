"""The administrative requests of a statement that starts a query."""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import millstream
from millstream.log.kafka import topics
from millstream.log.kafka.backend import compiled_client, open_intake
from millstream.log.kafka.client import consumer_config
from millstream.log.kafka.intake import News
from millstream.log.kafka.log import KafkaLog
from millstream.log.kafka.transactions import Entry, Transactions
from millstream.log.log import Outcome, Participant, Topic
from millstream.model.errors import FencedError

SECONDS = 60.0


class CountingClient:
    """An admin client that counts its requests by name, and those that list all topics."""

    requests: ClassVar[Counter[str]] = Counter()

    def __init__(self, config: Any) -> None:
        self._client = AdminClient(config)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.requests["list_all" if name == "list_topics" and not arguments else name] += 1
            return call(*arguments, **options)

        return counted


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    monkeypatch.setattr(topics, "AdminClient", CountingClient)
    monkeypatch.setattr(CountingClient, "requests", Counter())
    return CountingClient.requests


@pytest.fixture
def log(servers: str) -> Iterator[KafkaLog]:
    made = KafkaLog(servers)
    yield made
    made.close()


def test_a_query_is_created_with_one_request_and_opens_once(
    servers: str, requests: Counter[str]
) -> None:
    name = f"requests-{uuid.uuid4().hex[:8]}"
    with millstream.connect(kafka=servers, service_id=name) as database:
        database.execute(
            "CREATE STREAM s (id BIGINT KEY, place STRING)"
            f" WITH (KAFKA_TOPIC='{name}', PARTITIONS=4, VALUE_FORMAT='JSON');"
        )
        requests.clear()
        database.execute(
            f"CREATE TABLE t WITH (KAFKA_TOPIC='{name}-t') AS"
            " SELECT place, COUNT(*) AS n FROM s GROUP BY place;"
        )
        (query_id,) = database.engine.catalog.queries
        deadline = time.monotonic() + SECONDS
        while not (opened := database.engine.runtime.query_status(query_id).metrics.opened):
            assert time.monotonic() < deadline
        database.execute("INSERT INTO s (id, place) VALUES (1, 'inn');")
        database.wait()
        assert opened == database.engine.runtime.query_status(query_id).metrics.opened == 1
        assert requests["create_topics"] == 2, "the sink and two internal topics; the instances'"
        assert requests["list_all"] == 0
        made = {topic.name for topic in database.engine.log.topics() if name in topic.name}
        assert f"_millstream.{name}.-instances-members" in made
        database.engine.log.delete_topic(name)
        database.engine.log.delete_topic(f"{name}-t")


def test_asking_for_topics_creates_none(log: KafkaLog) -> None:
    """Brokers create topics of some requests that name them, unless the client declines."""
    name = f"nowhere-{uuid.uuid4().hex[:8]}"
    assert log.topic(name) is None
    assert log.describe([name]) == {}
    assert log.seen([name]) in ({}, {name: None})
    with pytest.raises(millstream.StatementError):
        log.end_offset(name, 0)
    assert name not in [topic.name for topic in log.topics()]


def test_a_topic_that_was_made_again_is_described_as_it_is(servers: str, log: KafkaLog) -> None:
    """What was learned when a topic was created is not told when it is another one."""
    name = f"again-{uuid.uuid4().hex[:8]}"
    (first,) = log.create_topics([Topic(name, 1)])
    other = KafkaLog(servers)
    try:
        other.delete_topic(name)
        assert log.describe([name]) == {}
        (second,) = other.create_topics([Topic(name, 3)])
        found = log.describe([name])[name]
        assert isinstance(first, Topic) and isinstance(second, Topic)
        assert found.id == second.id != first.id
        assert found.partitions == 3
        log.delete_topic(name)
    finally:
        other.close()


def test_the_queries_of_a_script_are_created_with_one_request(
    servers: str, requests: Counter[str]
) -> None:
    name = f"script-{uuid.uuid4().hex[:8]}"
    with millstream.connect(kafka=servers, service_id=name) as database:
        requests.clear()
        database.execute(
            "CREATE STREAM s (id BIGINT KEY, place STRING)"
            f" WITH (KAFKA_TOPIC='{name}', PARTITIONS=2, VALUE_FORMAT='JSON');"
            + "".join(
                f"CREATE TABLE t{number} WITH (KAFKA_TOPIC='{name}-{number}') AS"
                " SELECT place, COUNT(*) AS n FROM s GROUP BY place;"
                for number in range(5)
            )
        )
        before = Counter(requests)
        database.execute("INSERT INTO s (id, place) VALUES (1, 'inn');")
        database.wait()
        assert before["create_topics"] <= 2, "those of the script; the instances'"
        assert requests["create_topics"] == 2
        assert requests["list_all"] == 0
        metrics = [status.metrics for status in database.engine.statuses()]
        assert [each.opened for each in metrics] == [1] * 5
        for number in range(5):
            row = database.execute(f"SELECT n FROM t{number} WHERE place = 'inn';").fetchone()  # type: ignore[union-attr]
            assert row == (1,)
        for topic in (name, *(f"{name}-{number}" for number in range(5))):
            database.engine.log.delete_topic(topic)


def test_start_positions_of_several_queries_are_one_transaction(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"together-{uuid.uuid4().hex[:8]}"
    log.create_topic(Topic(name, 2))
    committed: list[int] = []
    carry_out = Transactions.carry_out

    def counted(self: Transactions, entries: Sequence[Entry], credential: Any = None) -> Outcome:
        committed.append(len(entries))
        return carry_out(self, entries, credential)

    monkeypatch.setattr(Transactions, "carry_out", counted)
    writer = log.writer(f"{name}-writer")
    groups = [f"{name}-{number}" for number in range(3)]
    positions = {(name, 0): 0, (name, 1): 0}
    results = log.transact_all([Participant(writer, group, (), positions) for group in groups])
    assert results == [Outcome.COMMITTED] * 3
    assert committed == [3]
    assert [log.positions(group) for group in groups] == [positions] * 3
    log.writer(f"{name}-writer").close()
    fenced = log.transact_all([Participant(writer, group, (), positions) for group in groups])
    assert [type(result) for result in fenced] == [FencedError] * 3
    writer.close()
    log.delete_topic(name)


@pytest.mark.skipif(compiled_client() is None, reason="the library is not compiled")
def test_the_leaders_of_a_new_topic_are_asked_for_when_it_is_assigned(
    servers: str, log: KafkaLog
) -> None:
    """Otherwise the client asks with its next look at all topics, up to a second later."""
    # A client has to be connected for this: the first assignment is the one that connects it.
    names = [f"assigned-{uuid.uuid4().hex[:8]}" for _ in range(3)]
    for result in log.create_topics([Topic(name, 2) for name in names]):
        assert isinstance(result, Topic)
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.Logger("client", logging.DEBUG)
    logger.addHandler(handler)
    config = consumer_config(servers, "assigned", {})
    intake = open_intake({**config, "debug": "metadata", "log_level": 7, "logger": logger})  # type: ignore[dict-item]
    try:
        for some in (names[:1], names[1:]):
            told.clear()
            intake.assign([TopicPartition(name, part, 0) for name in some for part in range(2)])
            ended: set[tuple[str, int]] = set()
            deadline = time.monotonic() + SECONDS
            while len(ended) < 2 * len(some):
                assert time.monotonic() < deadline
                ended |= {place for place, piece in intake.take(0.1) if isinstance(piece, News)}
        asked = [text for text in told if "Request metadata for 2 topic(s)" in text]
        assert any("leader query" in text for text in asked), told
    finally:
        intake.close()
        for name in names:
            log.delete_topic(name)
