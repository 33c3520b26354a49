"""An instance without a disk takes over tasks whose state is at a place for checkpoints."""

from __future__ import annotations

import logging
import uuid
from pathlib import Path

import pytest

import millstream
from millstream.model.settings import EngineSettings
from tests.kafka.neighbour import SHARING
from tests.patience import until

PROPERTIES = {"auto.offset.reset": "earliest", "processing.guarantee": "exactly_once_v2"}
KEYS = 50


def answers(db: millstream.Database) -> list[str] | None:
    try:
        return sorted(map(repr, db.execute("SELECT * FROM sums;")))
    except millstream.UnavailableError:
        return None


def insert(db: millstream.Database, first: int, end: int) -> None:
    db.insert("numbers", [{"K": f"k{n % KEYS}", "N": n} for n in range(first, end)])


@pytest.mark.timeout(300)
def test_an_empty_instance_loads_what_another_one_wrote(
    servers: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "millstream")
    service = f"checkpoints-{uuid.uuid4().hex[:8]}"
    settings = EngineSettings(checkpoints_url=str(tmp_path / "place"))

    def instance() -> millstream.Database:
        return millstream.connect(
            kafka=servers,
            service_id=service,
            sharing=SHARING,
            properties=PROPERTIES,
            settings=settings,
        )

    def sums(count: int) -> list[str]:
        groups = [range(first, count, KEYS) for first in range(KEYS)]
        rows = [(f"k{first}", len(group), sum(group)) for first, group in enumerate(groups)]
        return sorted(map(repr, rows))

    with instance() as first:
        first.execute(
            f"CREATE STREAM numbers (k STRING KEY, n INT) WITH (kafka_topic='{service}.numbers', "
            "partitions=4, value_format='JSON');"
            f"CREATE TABLE sums WITH (kafka_topic='{service}.sums') AS "
            "SELECT k, COUNT(*) AS c, SUM(n) AS s FROM numbers GROUP BY k;"
        )
        insert(first, 0, 1000)
        until(lambda: answers(first) == sums(1000))
        restoring = first.engine.restoring
        assert restoring is not None and restoring.checkpoints is not None
        restoring.checkpoints.fewest = 1
        assert restoring.checkpoints.write() == 4
        insert(first, 1000, 1100)
        until(lambda: answers(first) == sums(1100))
        assert restoring.checkpoints.write() == 4
        for _ in range(3):
            restoring.checkpoints.delete_orphans()
        assert len(restoring.checkpoints.repository.states()) == 1, "nothing that is in use"
        insert(first, 1100, 1200)
        until(lambda: answers(first) == sums(1200))
        with instance() as second:
            until(lambda: answers(second) == sums(1200))
            first.close()
            until(lambda: answers(second) == sums(1200))
            insert(second, 1200, 1300)
            until(lambda: answers(second) == sums(1300))
    with instance() as third:
        until(lambda: answers(third) == sums(1300))
    loaded = [each.getMessage() for each in caplog.records if "from checkpoints" in each.message]
    found = sum(message.count("partition ") for message in loaded)
    assert found >= 8, "by the second instance, and by the third"
