"""A table that a job rebuilds while several instances share its query: all of them quiesce the old
query for the switch."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest

from millstream.cluster.host_info import PeerHost
from millstream.cluster.metadata import InstanceMetadata
from millstream.command_topic import following, quiesced
from millstream.log.faults import Fault, SimulatedCrash
from millstream.log.simulated_group import Coordinator, SimulatedMember
from millstream.model.errors import UnavailableError
from millstream.service.engine import Engine
from tests.unit.command_topic.converging import Cluster, execute, running

VISITS = """
CREATE STREAM visits (guest STRING KEY, place STRING)
    WITH (KAFKA_TOPIC='visits', PARTITIONS=1, FORMAT='JSON');
INSERT INTO visits VALUES ('ann', 'inn');
INSERT INTO visits VALUES ('bob', 'bar');
CREATE TABLE o AS SELECT place, COUNT(*) AS n FROM visits GROUP BY place;
"""
ANOTHER = (
    "CREATE OR REPLACE TABLE o WITH (BACKFILL = 'duckdb') AS"
    " SELECT place, COUNT(*) * 100 AS n FROM visits WHERE place = 'inn' GROUP BY place;"
)
SECOND_NS = 1_000_000_000


@pytest.fixture
def pair(cluster: Cluster) -> tuple[Engine, Engine]:
    """Two instances with the table; the first one has filled it."""
    one, two = cluster.start(), cluster.start()
    execute(one, VISITS)
    one.drain()
    following.follow(two.command_topic)
    return one, two


def table(engine: Engine) -> dict[str, int]:
    rows = engine.log.read("O", 0, 0, 100).batch.to_pylist()
    last = {json.loads(row["key"]): row["value"] and json.loads(row["value"]) for row in rows}
    return {key: value["N"] for key, value in last.items() if value is not None}


def test_no_instance_runs_it_when_it_is_replaced(
    cluster: Cluster, pair: tuple[Engine, Engine]
) -> None:
    one, two = pair
    (old,) = one.catalog.queries
    seen: list[tuple[bool, list[str]]] = []

    def follow(_effect: str) -> None:
        cluster.on_effect = lambda name: None
        following.follow(two.command_topic)
        seen.append((old in two.catalog.queries, running(two)))
        cluster.on_effect = follow

    cluster.on_effect = follow
    execute(one, ANOTHER)
    cluster.calm()
    assert (True, []) in seen
    assert all(now == [] for there, now in seen[seen.index((True, [])) :] if there)
    cluster.agree()
    assert table(one) == {"inn": 100}
    assert old not in two.catalog.queries


def test_killed_at_any_effect_it_is_the_one_or_the_other() -> None:
    """And the others continue as soon as any instance takes the lease."""
    seen = set()
    for effect in range(1, 100):
        cluster = Cluster()
        one, two = cluster.start(), cluster.start()
        execute(one, VISITS)
        one.drain()
        following.follow(two.command_topic)
        left = [effect]

        def bomb(name: str, left: list[int] = left) -> None:
            left[0] -= 1
            if not left[0]:
                raise SimulatedCrash(name)

        cluster.on_effect = bomb
        try:
            execute(one, ANOTHER)
            break
        except SimulatedCrash:
            one.runtime.close(commit=False)
            cluster.engines.remove(one)
        cluster.calm()
        following.follow(two.command_topic)
        three = cluster.start()
        cluster.agree()
        (query,) = three.catalog.queries.values()
        switched = "100" in query.statement
        assert table(three) == ({"inn": 100} if switched else {"inn": 1, "bar": 1})
        seen.add(switched)
        cluster.close()
    assert seen == {True, False}


def test_where_it_fails_all_go_on(cluster: Cluster, pair: tuple[Engine, Engine]) -> None:
    one, two = pair
    faults = iter([Fault.REQUEST_LOST])
    cluster.on_request = lambda name: (
        next(faults, Fault.NONE) if name == "transact.commit" else Fault.NONE
    )
    heard = []

    def follow(name: str) -> None:
        if name == "append.commit":
            following.follow(two.command_topic)
            heard.append(running(two))

    cluster.on_effect = follow
    with pytest.raises(UnavailableError, match="could not be written"):
        execute(one, ANOTHER)
    cluster.calm()
    cluster.agree()
    assert len(running(two)) == 1
    assert table(one) == {"inn": 1, "bar": 1}


def test_a_query_whose_group_is_not_empty_is_not_replaced(
    cluster: Cluster, pair: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = pair
    monkeypatch.setattr(quiesced, "LEAVE_SECONDS", 0.0)
    members: list[SimulatedMember[object]] = []
    coordinator: Coordinator[object] = Coordinator(Random(0), members.append)
    monkeypatch.setattr(cluster.log, "_coordinator", coordinator)
    (old,) = one.catalog.queries
    cluster.log.join(old, 1)
    with pytest.raises(UnavailableError, match="have not stopped query"):
        execute(one, ANOTHER)
    cluster.agree()
    assert list(two.catalog.queries) == [old]
    coordinator.members.clear()
    execute(one, ANOTHER)
    assert table(one) == {"inn": 100}


@pytest.fixture
def stuck(cluster: Cluster, pair: tuple[Engine, Engine]) -> Engine:
    """An instance that has read the quiescence of a query from one that has died."""
    one, two = pair

    def bomb(name: str) -> None:
        if name.startswith("transact"):
            raise SimulatedCrash(name)

    cluster.on_effect = bomb
    with pytest.raises(SimulatedCrash):
        execute(one, ANOTHER)
    cluster.calm()
    one.runtime.close(commit=False)
    cluster.engines.remove(one)
    following.follow(two.command_topic)
    assert two.command_topic.state.quiesced is not None
    assert not running(two)
    return two


def ahead(engine: Engine, seconds: float) -> Callable[[], int]:
    now = engine.command_topic.ticks()
    return lambda: now + int(seconds * SECOND_NS)


def test_after_long_enough_the_others_end_it(stuck: Engine) -> None:
    stuck.command_topic.ticks = ahead(stuck, 30)
    following.follow(stuck.command_topic)
    assert not running(stuck)
    stuck.command_topic.ticks = ahead(stuck, 3000)
    following.follow(stuck.command_topic)
    assert running(stuck) == list(stuck.catalog.queries)


def test_when_it_is_seen_to_die_they_end_it_at_once(stuck: Engine) -> None:
    assert stuck.command_topic.state.quiesced is not None
    metadata = InstanceMetadata("one", stuck.command_topic.state.quiesced.request.requester)
    stuck.cluster.host_info.peers = lambda: (PeerHost(metadata, alive=True, last_seen=0),)
    following.follow(stuck.command_topic)
    assert not running(stuck)
    stuck.cluster.host_info.peers = lambda: (PeerHost(metadata, alive=False, last_seen=0),)
    following.follow(stuck.command_topic)
    assert running(stuck) == list(stuck.catalog.queries)
