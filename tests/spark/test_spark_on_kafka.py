"""Kafka's records read in Spark's workers by our own reader: committed ones, up to a position."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from millstream.functions.catalogue import builtin_catalogue
from millstream.history.from_kafka import FromKafka
from millstream.history.inline import INLINE_RECORDS
from millstream.history.session import Spark
from millstream.history.splits import Run, everything
from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.database import Database
from tests.crash import kafka_backfill_crash
from tests.kafka.conftest import servers
from tests.kafka.test_backfilling_on_kafka import KEYS, answers, insert
from tests.kafka.test_backfilling_on_kafka import final as sums_of
from tests.kafka.test_pipeline_on_kafka import Service, fill, work
from tests.patience import until
from tests.properties.pipeline import Pipeline
from tests.spark.final import final, made
from tests.spark.java import QUICK, missing
from tests.unit.history.test_runs import kind_of, pipeline, wanted

__all__ = ["servers"]
SOURCES = ("a", "b")
PIECE = 5
"""Records of a transaction."""
MANY = INLINE_RECORDS + 40


@pytest.fixture
def log(servers: str) -> Iterator[KafkaLog]:
    """A cluster without the topics of the queries, which are gone afterwards."""
    opened = KafkaLog(servers)
    for topic in SOURCES:
        opened.delete_topic(topic)
    yield opened
    for topic in SOURCES:
        opened.delete_topic(topic)
    opened.close()


@contextmanager
def never_committed(
    servers: str, identity: str, topics: tuple[str, ...] = SOURCES
) -> Iterator[None]:
    """Records of every partition in a transaction that is open for as long as the block takes, and
    aborted then."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": identity})
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic in topics:
        for partition in range(3):
            producer.produce(topic, b'{"v":1000,"w":"k0"}', b"k0", partition, timestamp=1)
    producer.flush(30)
    yield
    producer.abort_transaction(30)


def copy(live: Pipeline, log: KafkaLog, servers: str) -> None:
    """Put the records that a query has met on Kafka: in many transactions, aborted ones between
    them, so that there are more offsets than records."""
    for topic in SOURCES:
        log.create_topic(Topic(topic, live.partitions[topic]))
    writer = log.writer("history")
    for topic in SOURCES:
        for partition in range(live.partitions[topic]):
            end = live.log.end_offset(topic, partition)
            records = live.log.read(topic, partition, 0, end).batch
            for start in range(0, end, PIECE):
                piece = records.slice(start, PIECE)
                writer.append([Appended(topic, partition, piece, piece.num_rows)])
        with never_committed(servers, "aborted"):
            pass
    writer.close()


def test_a_pipeline_whose_workers_read_kafka(servers: str, tmp_path: Path) -> None:
    """Small input is sent with the tasks, large input and state are read by the workers; an
    instance continues from there."""
    if why := missing():
        pytest.skip(why)
    service = Service(servers, tmp_path)
    settings = EngineSettings(spark_options=QUICK)
    with service.pipeline(master="local[2]", settings=settings) as pipeline:
        fill(pipeline, 0, 20)
        work(pipeline)
        assert service.exact(20)
        values = [(b"k%d" % (n % KEYS), b'{"N":%d}' % n, n) for n in range(20, MANY)]
        writer = pipeline.engine.log.writer("producer")
        writer.append([Appended(f"{service.name}.numbers", 1, raw_batch(values), MANY - 20)])
        writer.close()
        work(pipeline)
        fill(pipeline, MANY, MANY + 10)
        work(pipeline)
        assert not service.told
    with service.live() as db:
        insert(db, MANY + 10, MANY + 20)
        until(lambda: answers(db, MANY + 20))


def test_streams_and_tables_for_others(servers: str, tmp_path: Path, spark: Spark) -> None:
    service = Service(servers, tmp_path)
    with service.pipeline() as pipeline:
        fill(pipeline, 0, 30)
        work(pipeline)
        Database(pipeline.engine, Session()).seal()
        fill(pipeline, 30, 40)
        work(pipeline)
    with spark.using() as session:
        reading = session.read.format("millstream").option("kafka", servers)
        reading = reading.option("service_id", service.name)
        reading = reading.option("kafka.security.protocol", "plaintext")
        with never_committed(servers, "never", (f"{service.name}.numbers",)):
            numbers = reading.option("stream", "numbers").load().select("N").collect()
        assert sorted(row.N for row in numbers) == list(range(40))
        reading = session.read.format("millstream").option("kafka", servers)
        reading = reading.option("service_id", service.name)
        sums = reading.option("table", "sums").load().select("K", "C", "S").collect()
        assert {k: (c, s) for k, c, s in sums} == sums_of(40)
        with pytest.raises(Exception, match="There are: SUMS, THIRDS"):
            reading.option("table", "moved").load()
        with pytest.raises(Exception, match=r"seal\(\) does that"):
            reading.option("service_id", "nobody").load()


@pytest.mark.parametrize("query", ["projection", "rows that move", "joined, then grouped"])
def test_workers_read_what_is_committed(
    query: str, servers: str, log: KafkaLog, spark: Spark
) -> None:
    from millstream.history.job import run_on_spark

    live = pipeline(query)
    expected = wanted(live)
    copy(live, log, servers)
    with never_committed(servers, "open"), spark.using() as session:
        run = Run(live.topology, everything(log, live.topology), live.partitions)
        outputs = list(run_on_spark(run, FromKafka(servers), builtin_catalogue(), session))
    found = made(item for item in outputs if isinstance(item, Appended))
    assert final(found, kind_of(live)) == expected
    assert all(split.end > split.start for split in run.splits.values())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_back_fills_leave_no_gap_and_nothing_twice(servers: str, tmp_path: Path) -> None:
    """`make crash-spark LOG=kafka` runs campaigns."""
    if why := missing():
        pytest.skip(why)
    status, report = kafka_backfill_crash.campaign(
        servers, 4, seed=4, folder=tmp_path, options=("--backend", "spark")
    )
    # So few may all fall outside of a job, which proves less (2) but refutes nothing (1).
    assert status in (0, 2), report
