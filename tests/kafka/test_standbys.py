"""An instance is killed: its tables stay readable: from the standbys at once, and from the new
owner after its session has ended."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

import millstream
from millstream.cluster.joining import hosted_partitions
from tests.kafka.neighbour import SHARING, neighbour
from tests.patience import until

PROPERTIES = {"auto.offset.reset": "earliest", "processing.guarantee": "exactly_once_v2"}
PARTITIONS = 4
ROWS = 40
KEYS = 10
READS = "ksql.query.pull.enable.standby.reads"


@pytest.fixture
def service() -> str:
    return f"standbys-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def db(servers: str, service: str) -> Iterator[millstream.Database]:
    with millstream.connect(
        kafka=servers, service_id=service, sharing=SHARING, properties=PROPERTIES
    ) as database:
        yield database


def answers(db: millstream.Database, expected: list[tuple[object, ...]]) -> bool:
    try:
        return sorted(map(tuple, db.execute("SELECT * FROM sums;"))) == expected
    except millstream.UnavailableError:
        return False


@pytest.mark.timeout(300)
def test_a_killed_instance_is_stood_in_for(
    db: millstream.Database, servers: str, service: str
) -> None:
    db.execute(
        f"CREATE STREAM numbers (k STRING KEY, n INT) WITH (kafka_topic='{service}.numbers', "
        f"partitions={PARTITIONS}, value_format='JSON');"
        f"CREATE TABLE sums WITH (kafka_topic='{service}.sums') AS "
        "SELECT k, COUNT(*) AS c, SUM(n) AS s FROM numbers GROUP BY k;"
    )
    (query,) = db.engine.catalog.queries
    with neighbour(servers, service):
        for n in range(ROWS):
            db.execute(f"INSERT INTO numbers VALUES ('k{n % KEYS}', {n});")
        groups = [range(first, ROWS, KEYS) for first in range(KEYS)]
        sums = [(f"k{first}", len(group), sum(group)) for first, group in enumerate(groups)]
        until(lambda: answers(db, sums))

        def followed() -> bool:
            held = hosted_partitions(db.engine.cluster, query)
            return len(held.active) == 2 and list(held.standby.values()) == [0, 0]

        until(followed)
    db.session.set(READS, "true")
    until(lambda: answers(db, sums))
    db.session.set(READS, "false")
    until(lambda: answers(db, sums))
    assert hosted_partitions(db.engine.cluster, query).active == frozenset(range(PARTITIONS))
