"""An instance is killed: its tables can be asked all the same, of the copies at once, and of their
new owner when the brokers have given it up."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import millstream
from millstream import InstanceSettings
from millstream.service.instances.joining import held_here

ROOT = Path(__file__).resolve().parent.parent.parent
SHARING = InstanceSettings(session_timeout_ms=6_000, standby_replicas=1)
PROPERTIES = {"auto.offset.reset": "earliest", "processing.guarantee": "exactly_once_v2"}
PARTITIONS = 4
PATIENCE = 60.0
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


def neighbour(servers: str, service: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.kafka.neighbour", servers, service]
    made = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert made.stdout is not None and made.stdout.readline() == "ready\n"
    return made


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


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
    other = neighbour(servers, service)
    try:
        for n in range(ROWS):
            db.execute(f"INSERT INTO numbers VALUES ('k{n % KEYS}', {n});")
        groups = [range(first, ROWS, KEYS) for first in range(KEYS)]
        sums = [(f"k{first}", len(group), sum(group)) for first, group in enumerate(groups)]
        until(lambda: answers(db, sums))

        def followed() -> bool:
            held = held_here(db.engine, query)
            return len(held.active) == 2 and list(held.standby.values()) == [0, 0]

        until(followed)
    finally:
        other.kill()
        other.wait()
    db.session.set(READS, "true")
    until(lambda: answers(db, sums))
    db.session.set(READS, "false")
    until(lambda: answers(db, sums))
    assert held_here(db.engine, query).active == frozenset(range(PARTITIONS))
