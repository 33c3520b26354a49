"""A task with state moves to another instance only after that has a copy of the state."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

import millstream
from millstream.cluster.joining import hosted_partitions
from millstream.log.assignment.group_assignment import process_of
from millstream.log.kafka.log import KafkaLog
from tests.kafka.neighbour import SHARING, neighbour
from tests.kafka.test_standbys import PARTITIONS, PROPERTIES
from tests.patience import until


@pytest.mark.timeout(300)
def test_tasks_are_warmed_up_before_they_move(servers: str) -> None:
    service = f"warming-{uuid.uuid4().hex[:8]}"
    sharing = replace(SHARING, standby_replicas=0)
    with millstream.connect(
        kafka=servers, service_id=service, sharing=sharing, properties=PROPERTIES
    ) as db:
        db.execute(
            f"CREATE STREAM numbers (k STRING KEY, n INT) WITH (kafka_topic='{service}.numbers', "
            f"partitions={PARTITIONS}, value_format='JSON');"
            f"CREATE TABLE sums WITH (kafka_topic='{service}.sums') AS "
            "SELECT k, COUNT(*) AS c FROM numbers GROUP BY k;"
        )
        for n in range(40):
            db.execute(f"INSERT INTO numbers VALUES ('k{n}', {n});")
        until(lambda: len(db.execute("SELECT k FROM sums;").fetchall()) == 40)
        (query,) = db.engine.catalog.queries
        log, seen = db.engine.log, set()
        assert isinstance(log, KafkaLog) and log._instance is not None
        tasks = log._instance._tasks

        def shared() -> bool:
            seen.update(tasks.known.assignment.warmups.items())
            return len(hosted_partitions(db.engine.cluster, query).active) == PARTITIONS // 2

        with neighbour(servers, service, standbys=0):
            until(shared)
            moved = {
                (query, partition)
                for partition, entry in enumerate(tasks.owners.tasks[query])
                if process_of(entry.target) != db.engine.cluster.incarnation
            }
            assert len(moved) == PARTITIONS // 2
            assert moved <= {task for task, _ in seen}
