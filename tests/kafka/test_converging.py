"""Two instances of one service on Kafka: statements sent to either, also concurrently."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from millstream.command_topic import following, snapshots
from millstream.log.kafka.log import KafkaLog
from millstream.model.clock import now_ms
from millstream.model.errors import ConflictError
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.engine import Engine
from millstream.service.execution import execute_script
from millstream.service.on_kafka import open_kafka_engine
from tests.patience import PATIENCE_S

Starting = Callable[[], Engine]


@pytest.fixture
def start(servers: str) -> Iterator[Starting]:
    """Opens instances of one service, with unique names."""
    service = f"converging-{uuid.uuid4().hex[:8]}"
    opened: list[Engine] = []

    def open_one() -> Engine:
        opened.append(open_kafka_engine(servers, service, ":memory:", EngineSettings(), now_ms))
        return opened[-1]

    yield open_one
    for engine in opened:
        engine.close()
    log = KafkaLog(servers)
    for topic in log.topics():
        if service in topic.name:
            log.delete_topic(topic.name)
    log.close()


def execute(engine: Engine, sql: str) -> None:
    for _ in execute_script(engine, sql, Session({"auto.offset.reset": "earliest"})):
        pass


def agree(*engines: Engine) -> None:
    """Wait until all hold the same."""
    deadline = time.monotonic() + PATIENCE_S
    while len({snapshots.digest_of(engine.command_topic) for engine in engines}) > 1:
        assert time.monotonic() < deadline
        for engine in engines:
            following.follow(engine.command_topic)


def visits(topic: str) -> str:
    return (
        "CREATE STREAM visits (guest STRING KEY, place STRING)"
        f" WITH (KAFKA_TOPIC='{topic}', PARTITIONS=2, FORMAT='JSON');"
    )


def test_both_come_to_hold_the_same(start: Starting) -> None:
    one, two = start(), start()
    # Named for the service, which is what the clean-up goes by, but no internal topics.
    prefix = one.settings.internal_prefix.strip("_")
    execute(one, visits(f"{prefix}visits"))
    topic_partitions = f"CREATE TABLE places WITH (KAFKA_TOPIC='{prefix}places') AS"
    execute(two, f"{topic_partitions} SELECT place, COUNT(*) AS n FROM visits GROUP BY place;")
    execute(one, "CREATE TYPE money AS INT;")
    agree(one, two)
    (query_id,) = one.catalog.queries
    assert list(two.catalog.queries) == [query_id]
    execute(one, f"PAUSE {query_id};")
    agree(one, two)
    assert two.registry.paused == {query_id}
    execute(one, "DROP TABLE places DELETE TOPIC;")
    agree(one, two)
    three = start()
    agree(one, two, three)
    following.follow(one.command_topic)
    assert not [topic.name for topic in one.log.topics() if query_id in topic.name]


def test_all_at_once(start: Starting) -> None:
    engines = [start(), start(), start()]
    failures: list[Exception] = []

    def work(index: int, engine: Engine) -> None:
        for number in range(8):
            for _ in range(10):
                try:
                    execute(engine, f"CREATE TYPE t{index}_{number} AS INT;")
                    break
                except ConflictError as error:
                    if error.code != "E-DDL-CONFLICT":
                        failures.append(error)
                        return

    for engine in engines:
        engine.start()
    threads = [
        threading.Thread(target=work, args=(index, engine)) for index, engine in enumerate(engines)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    agree(*engines)
    assert len(engines[0].catalog.types) == 24
    assert all(engine.driver.failure is None for engine in engines)


def test_a_start_reads_the_snapshot(start: Starting) -> None:
    one = start()
    for number in range(30):
        execute(one, f"CREATE TYPE t{number} AS INT; DROP TYPE t{number};")
    execute(one, "CREATE TYPE money AS INT;")
    two = start()
    agree(one, two)
    assert two.command_topic.state.replayed < 15
    one.close()
    three = start()
    agree(two, three)
    assert three.command_topic.state.replayed == 1
