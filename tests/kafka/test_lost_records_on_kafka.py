"""Records that the broker has deleted before a query had read them."""

from __future__ import annotations

import uuid

import pytest

import millstream
from millstream.runtime.spec import QueryState
from tests.patience import until


def total(db: millstream.Database) -> int:
    try:
        return sum(count for (count,) in db.execute("SELECT c FROM t;"))
    except millstream.UnavailableError:
        return -1


STREAM = (
    "CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC='{topic}', PARTITIONS=2, "
    "VALUE_FORMAT='JSON');"
)


def insert(db: millstream.Database, count: int) -> None:
    db.insert("s", [{"K": f"k{n % 8}", "N": n} for n in range(count)])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("policy", ["fail", "continue"])
def test_a_query_behind_the_retained_range(servers: str, policy: str) -> None:
    """It was away while records came and were deleted."""
    service = f"lost-{uuid.uuid4().hex[:8]}"
    topic = f"{service}.s"
    properties = {"auto.offset.reset": "earliest", "millstream.lost.records": policy}
    with millstream.connect(kafka=servers, service_id=service, properties=properties) as db:
        db.execute(STREAM.format(topic=topic))
        db.execute("CREATE TABLE t AS SELECT k, COUNT(*) AS c FROM s GROUP BY k;")
        insert(db, 80)
        until(lambda: total(db) == 80)
    with millstream.connect(kafka=servers, service_id=f"{service}-other") as other:
        other.execute(STREAM.format(topic=topic))
        insert(other, 80)
        for partition in (0, 1):
            start = other.engine.log.end_offset(topic, partition) - 5
            other.engine.log.truncate(topic, partition, start)
            until(lambda p=partition, at=start: starts_at(other, topic, p, at))  # type: ignore[misc]
    with millstream.connect(kafka=servers, service_id=service) as db:
        if policy == "fail":
            until(lambda: db.engine.statuses()[0].state is QueryState.ERROR)
            assert db.engine.statuses()[0].code == "E-GAP"
            return
        until(lambda: sum("were deleted" in each for each in messages(db)) == 2)

        db.engine.drain()
        kept = total(db)
        assert 80 < kept <= 90
        insert(db, 10)
        until(lambda: total(db) == kept + 10)


def starts_at(db: millstream.Database, topic: str, partition: int, offset: int) -> bool:
    return db.engine.log.start_offset(topic, partition) == offset


def messages(db: millstream.Database) -> list[str]:
    return [str(row["message"]) for row in db.processing_log().to_pylist()]
