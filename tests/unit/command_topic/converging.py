"""Several instances of a service over one simulated log."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from millstream.command_topic import following, snapshots
from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.user import UserFunction
from millstream.log.batches import TABLES
from millstream.log.faults import Fault
from millstream.log.log import Topic
from millstream.model.errors import MillstreamError
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.engine import Engine, with_functions
from millstream.service.execution import execute_script, resume_engine
from millstream.state.store import Store
from tests.unit.command_topic.one_at_a_time import OneAtATime

COMMANDS = EngineSettings().command_topic
VISITS = (
    "CREATE STREAM visits (guest STRING KEY, place STRING)"
    " WITH (KAFKA_TOPIC='visits', PARTITIONS=2, FORMAT='JSON');"
)


class Cluster:
    """A log that outlives its instances, and what happens to it: `on_effect` is called for each
    durable step, `on_request` decides the fate of a request."""

    def __init__(
        self, settings: EngineSettings | None = None, clock: Callable[[], int] = lambda: 0
    ) -> None:
        self.settings = settings or EngineSettings()
        self.clock = clock
        self.on_effect: Callable[[str], None] = lambda name: None
        self.on_request: Callable[[str], Fault] = lambda name: Fault.NONE
        self.log = OneAtATime(
            TABLES,
            effect=lambda name: self.on_effect(name),
            fault=lambda name: self.on_request(name),
            markers=True,
        )
        self.engines: list[Engine] = []

    def start(self, *functions: UserFunction, store: Store | None = None) -> Engine:
        engine = resume_engine(
            self.log,
            store or Store.open(":memory:"),
            self.settings,
            self.clock,
            with_functions(builtin_catalogue(), functions),
            incarnation=uuid.uuid4().hex,
        )
        self.engines.append(engine)
        return engine

    def calm(self) -> None:
        """From now on only explicit steps happen."""
        self.on_effect, self.on_request = (lambda name: None), (lambda name: Fault.NONE)

    def close(self) -> None:
        """Close all instances in peace."""
        self.calm()
        for engine in self.engines:
            engine.close()

    def agree(self) -> str:
        """Let all follow; the digest that they have in common."""
        for engine in self.engines:
            following.follow(engine.command_topic)
        digests = {snapshots.digest_of(engine.command_topic) for engine in self.engines}
        assert len(digests) == 1
        for engine in self.engines:
            assert running(engine) == sorted(engine.catalog.queries)
        return digests.pop()

    def topics(self) -> list[str]:
        return [topic.name for topic in self.log.topics()]

    def commands(self) -> list[dict[str, Any]]:
        rows = self.log.read(COMMANDS, 0, 0, 10_000).batch.to_pylist()
        return [json.loads(row["value"]) for row in rows]


def execute(engine: Engine, sql: str) -> None:
    for _ in execute_script(engine, sql, Session({"auto.offset.reset": "earliest"})):
        pass


def running(engine: Engine) -> list[str]:
    return sorted(status.query_id for status in engine.statuses())


def topic_requests(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of the topics of each request that creates some."""
    found: list[list[str]] = []
    create = cluster.log.create_topics

    def counted(topics: Sequence[Topic]) -> list[Topic | MillstreamError]:
        if topics:
            found.append([topic.name for topic in topics])
        return create(topics)

    monkeypatch.setattr(cluster.log, "create_topics", counted)
    return found
