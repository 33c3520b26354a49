"""A pipeline over a log on Kafka: it takes queries that no instance has, and releases them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import millstream
from millstream import InstanceSettings
from millstream.cluster.joining import hosted_partitions
from millstream.history.local import run_local
from millstream.history.reading import FromLog
from millstream.history.splits import Run
from millstream.history.task import Produced
from millstream.model.errors import MillstreamError
from millstream.model.settings import EngineSettings
from millstream.pipeline.pipeline import Pipeline, open_pipeline
from millstream.query.session import Session
from millstream.service.database import Database
from tests.kafka.test_backfilling_on_kafka import (
    KEYS,
    PARTITIONS,
    PROPERTIES,
    SHARING,
    answers,
    changes,
    insert,
    prefixes,
)
from tests.patience import PATIENCE_S, until

PROTOCOLS = ("classic", "consumer")


@dataclass
class Service:
    """One service per test: its unique id, its script, and its pipelines' output."""

    servers: str
    folder: Path
    name: str = field(default_factory=lambda: f"piped-{uuid.uuid4().hex[:8]}")
    told: list[tuple[str, str]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    """Those of the errors in `told`."""

    @property
    def sums(self) -> str:
        return f"{self.name}.sums"

    def script(self) -> str:
        path = self.folder / "pipeline.sql"
        path.write_text(
            "CREATE STREAM numbers (k STRING KEY, n INT) WITH "
            f"(kafka_topic='{self.name}.numbers', partitions={PARTITIONS}, value_format='JSON');"
            "CREATE STREAM moved WITH "
            f"(kafka_topic='{self.name}.moved') AS SELECT k, n, n % 3 AS m FROM numbers;"
            f"CREATE TABLE sums WITH (kafka_topic='{self.sums}') AS SELECT k, COUNT(*) AS c,"
            " SUM(n) AS s FROM moved GROUP BY k;"
            f"CREATE TABLE thirds WITH (kafka_topic='{self.name}.thirds') AS SELECT m,"
            " COUNT(*) AS c FROM moved GROUP BY m;"
        )
        return str(path)

    def failed(self, query_id: str, error: MillstreamError) -> None:
        """Note what a pipeline reports."""
        self.told.append((query_id, error.code))
        self.messages.append(error.message)

    def pipeline(
        self,
        sharing: InstanceSettings = SHARING,
        *,
        master: str | None = None,
        settings: EngineSettings | None = None,
    ) -> Pipeline:
        return open_pipeline(
            ":memory:",
            self.script(),
            self.failed,
            kafka=self.servers,
            service_id=self.name,
            sharing=sharing,
            properties=PROPERTIES,
            master=master,
            settings=settings,
        )

    def live(self, sharing: InstanceSettings = SHARING) -> Database:
        return millstream.connect(
            kafka=self.servers, service_id=self.name, sharing=sharing, properties=PROPERTIES
        )

    def exact(self, records: int) -> bool:
        """Whether each of so many numbers was added once, in order."""
        return changes(self.servers, self.sums) == prefixes(records)


@pytest.fixture
def service(servers: str, tmp_path: Path) -> Service:
    return Service(servers, tmp_path)


def fill(pipeline: Pipeline, first: int, end: int) -> None:
    insert(Database(pipeline.engine, Session(PROPERTIES)), first, end)


def work(pipeline: Pipeline) -> None:
    """Until nothing is left to do."""
    while list(pipeline.epoch()):
        pass


def thirds(db: Database) -> Mapping[int, int]:
    return dict(db.execute("SELECT m, c FROM thirds;"))


def all_held(db: Database) -> bool:
    queries = db.engine.catalog.queries
    return all(
        len(hosted_partitions(db.engine.cluster, query).active) == PARTITIONS for query in queries
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_instances_and_pipelines_take_over_from_each_other(protocol: str, service: Service) -> None:
    # Nobody is killed here: a short session would end by a slow machine alone.
    sharing = InstanceSettings(group_protocol=protocol, session_timeout_ms=45_000)  # type: ignore[arg-type]
    with service.pipeline(sharing) as pipeline:
        fill(pipeline, 0, 20)
        work(pipeline)
        fill(pipeline, 20, 30)
        work(pipeline)
        assert service.exact(30)
    with service.live(sharing) as db:
        insert(db, 30, 40)
        until(lambda: answers(db, 40))
    with service.pipeline(sharing) as pipeline:
        fill(pipeline, 40, 50)
        work(pipeline)
    with service.live(sharing) as db:
        insert(db, 50, 60)
        until(lambda: answers(db, 60) and thirds(db) == {0: 20, 1: 20, 2: 20})
    assert service.exact(60)
    assert not service.told, service.messages


@pytest.mark.timeout(300)
def test_what_an_instance_has_is_waited_for(service: Service) -> None:
    service.pipeline().close()
    with service.live() as db:
        insert(db, 0, 10)
        until(lambda: answers(db, 10))
        with service.pipeline() as pipeline:
            queries = sorted(pipeline.engine.catalog.queries)
            for _ in range(2):
                assert not list(pipeline.epoch())
                assert sorted(pipeline.waiting) == queries
            assert sorted(service.told) == [(query, "E-PIPELINE-BUSY") for query in queries]
            fill(pipeline, 10, 15)
            until(lambda: answers(db, 15))
            table = f"CREATE TABLE odd WITH (kafka_topic='{service.name}.odd') AS SELECT k,"
            db.execute(f"{table} COUNT(*) AS c FROM moved WHERE n % 2 = 1 GROUP BY k;")
            db.close()
            fill(pipeline, 15, 20)
            work(pipeline)
            assert not pipeline.waiting
            assert len(pipeline.engine.catalog.queries) == len(queries) + 1
    assert service.exact(20)
    with service.live() as db:
        odd = {f"k{key}": 2 for key in range(1, KEYS, 2)}
        until(lambda: dict(db.execute("SELECT k, c FROM odd;")) == odd)


class Interrupted:
    """Runs in the process, with something in between, once."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.left = [action]
        self.pipeline: Pipeline | None = None

    def __call__(self, run: Run) -> Iterator[Produced]:
        assert self.pipeline is not None
        engine = self.pipeline.engine
        yield from run_local(run, FromLog(engine.log), engine.functions)
        if self.left and run.topology.query_id.startswith("CTAS_SUMS"):
            self.left.pop()()


def interrupted(service: Service, action: Callable[[], None]) -> Pipeline:
    """A pipeline that does something between the job of an epoch and its commit."""
    opened = service.pipeline()
    runner = Interrupted(action)
    runner.pipeline = opened
    opened._runner = runner
    return opened


@pytest.mark.timeout(300)
def test_an_instance_that_comes_gets_the_query_behind_the_epoch(service: Service) -> None:
    came: list[Database] = []
    here = threading.Event()

    def come() -> None:
        came.append(service.live())
        here.set()

    with interrupted(service, threading.Thread(target=come).start) as pipeline:
        fill(pipeline, 0, 20)
        work(pipeline)
        assert here.wait(PATIENCE_S)
        (db,) = came
        with db:
            until(lambda: all_held(db))
            insert(db, 20, 30)
            until(lambda: answers(db, 30))
    assert service.exact(30)


@pytest.mark.timeout(300)
def test_an_epoch_that_has_lost_the_query_is_not_committed(
    service: Service,
) -> None:
    came: list[Database] = []

    def come() -> None:
        came.append(service.live())
        # As after a session that has ended: everything is lost, and the process joins again.
        member = pipeline.engine.log._instance  # type: ignore[attr-defined]
        member._renamed = True
        until(lambda: all(_some_held(came[0], query) for query in _sums(came[0])))

    with interrupted(service, come) as pipeline:
        fill(pipeline, 0, 20)
        work(pipeline)
        (sums,) = _sums(came[0])
        assert (sums, "E-PIPELINE-BUSY") in service.told
        with came[0] as db:
            until(lambda: all_held(db))
            insert(db, 20, 30)
            until(lambda: answers(db, 30))
    assert service.exact(30)


def _sums(db: Database) -> list[str]:
    return [query for query in db.engine.catalog.queries if query.startswith("CTAS_SUMS")]


def _some_held(db: Database, query: str) -> bool:
    return len(hosted_partitions(db.engine.cluster, query).active) >= PARTITIONS // 2


def test_an_error_stops_the_query(service: Service) -> None:
    """And no other one."""
    with service.pipeline() as pipeline:
        fill(pipeline, 0, 5)
        (sums,) = (query for query in pipeline.engine.catalog.queries if "SUMS" in query)

        def refused(run: Run) -> Iterator[Produced]:
            if run.topology.query_id == sums:
                raise MillstreamError("no")
            return run_local(run, FromLog(pipeline.engine.log), pipeline.engine.functions)

        pipeline._runner = refused
        work(pipeline)
        assert pipeline.stopped == {sums}
        assert [query for query, _ in service.told] == [sums]
