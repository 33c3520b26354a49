"""A back-filled query that several instances share: every reader of its command finds the result
and the positions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.command_topic import following
from millstream.log.faults import Fault
from millstream.model.errors import UnavailableError
from millstream.service.engine import Engine
from tests.unit.command_topic.converging import Cluster, execute

VISITS = """
CREATE STREAM visits (guest STRING KEY, place STRING)
    WITH (KAFKA_TOPIC='visits', PARTITIONS=2, FORMAT='JSON');
INSERT INTO visits VALUES ('ann', 'inn');
INSERT INTO visits VALUES ('bob', 'bar');
INSERT INTO visits VALUES ('cy', 'inn');
"""
PLACES = (
    "CREATE TABLE o WITH (BACKFILL = 'duckdb') AS SELECT place, COUNT(*) AS n FROM visits"
    " GROUP BY place;"
)
RECORDS = 3
WRITTEN = "transact.write"


def once(effect: str, action: Callable[[], object]) -> Callable[[str], None]:
    """Does something at the first effect of a name."""
    left = [action]

    def hear(name: str) -> None:
        if name == effect and left:
            left.pop()()

    return hear


def changes(engine: Engine) -> int:
    """The records of the topic of the new table that can be read."""
    if engine.log.topic("O") is None:
        return 0
    read = [engine.log.read("O", partition, 0, 100) for partition in range(2)]
    return sum(fetched.count for fetched in read)


def reached(engine: Engine, query_id: str) -> int:
    """The records that the positions of a query leave behind."""
    positions = engine.log.positions(query_id)
    return sum(
        engine.log.read("visits", partition, 0, position).count if position else 0
        for (_, partition), position in positions.items()
    )


def test_every_reader_of_the_command_finds_its_result(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, VISITS)
    following.follow(two.command_topic)
    heard = []

    def follow(_effect: str) -> None:
        cluster.calm()
        following.follow(two.command_topic)
        for query_id in two.catalog.queries:
            heard.append((reached(two, query_id), changes(two)))
        cluster.on_effect = follow

    cluster.on_effect = follow
    execute(one, PLACES)
    cluster.calm()
    assert heard
    assert set(heard) == {(RECORDS, RECORDS)}


def test_one_that_is_fenced_writes_it_again(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, VISITS)
    taking = once(WRITTEN, lambda: execute(two, "CREATE TYPE money AS INT;"))
    cluster.on_effect = taking
    execute(one, PLACES)
    cluster.calm()
    cluster.agree()
    (query_id,) = one.catalog.queries
    assert "MONEY" in one.catalog.types
    assert reached(one, query_id) == RECORDS
    assert changes(one) == RECORDS
    internal = one.settings.internal_prefix
    left = [name for name in cluster.topics() if name.startswith(internal) and "-" in name]
    assert all(query_id in name for name in left)


@pytest.mark.parametrize("fault", [Fault.REQUEST_LOST, Fault.RESPONSE_LOST])
def test_a_commit_in_doubt_is_looked_for(cluster: Cluster, fault: Fault) -> None:
    one = cluster.start()
    execute(one, VISITS)
    faults = iter([fault])
    cluster.on_request = lambda name: (
        next(faults, Fault.NONE) if name == "transact.commit" else Fault.NONE
    )
    if fault is Fault.RESPONSE_LOST:
        execute(one, PLACES)
    else:
        with pytest.raises(UnavailableError, match="could not be written"):
            execute(one, PLACES)
    assert ("O" in one.catalog.sources) == (fault is Fault.RESPONSE_LOST)
    assert bool(changes(one)) == (fault is Fault.RESPONSE_LOST)
