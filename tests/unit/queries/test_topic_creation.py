"""The topics of a statement: how many requests create them, and what is left of one that fails."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from millstream.log.batches import TABLES
from millstream.log.faults import Fault
from millstream.log.log import Topic
from millstream.log.simulated import SimulatedLog
from millstream.model.errors import ConflictError, UnavailableError
from millstream.queries.topic_creation import create_topics
from tests.unit.command_topic.converging import VISITS, Cluster, execute, topic_requests

PLACES = "CREATE TABLE places AS SELECT place, COUNT(*) AS n FROM visits GROUP BY place;"


@pytest.fixture
def log() -> SimulatedLog[pa.Table]:
    return SimulatedLog(TABLES)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.close()


def test_a_statement_creates_its_topics_in_one_request(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = cluster.start()
    execute(one, VISITS)
    found = topic_requests(cluster, monkeypatch)
    execute(one, PLACES)
    (query_id,) = one.catalog.queries
    (request,) = found
    internal = {name for name in cluster.topics() if query_id in name}
    assert len(internal) == 2, "a repartition topic and a changelog"
    assert set(request) == {"PLACES"} | internal


def test_the_topics_of_a_query_are_noted_as_they_are(cluster: Cluster) -> None:
    one = cluster.start()
    execute(one, VISITS + PLACES)
    (noted,) = one.registry.topics.values()
    assert {"visits", "PLACES"} < {topic.name for topic in noted}
    for topic in noted:
        found = cluster.log.topic(topic.name)
        assert found is not None and topic.id == found.id != ""


@pytest.mark.parametrize("fault", [Fault.REQUEST_LOST, Fault.RESPONSE_LOST])
def test_start_positions_that_are_not_written_fail_the_statement(
    cluster: Cluster, fault: Fault
) -> None:
    one = cluster.start()
    execute(one, VISITS)
    before = cluster.topics()
    faults = [fault]
    cluster.on_request = lambda name: (
        faults.pop() if name == "transact.commit" and faults else Fault.NONE
    )
    with pytest.raises(UnavailableError, match="start positions"):
        execute(one, PLACES)
    assert not faults
    assert set(cluster.topics()) - set(before) <= {"PLACES"}
    assert not one.catalog.queries
    execute(one, PLACES)
    one.drain()
    assert not [status.error for status in one.statuses() if status.error]
    cluster.agree()


def test_one_topic_that_fails_does_not_hide_what_was_made(log: SimulatedLog[pa.Table]) -> None:
    log.create_topic(Topic("b", 1))
    created = create_topics(log, [Topic("a", 1), Topic("b", 1), Topic("c", 1)], shared=False)
    assert isinstance(created.error, ConflictError)
    assert created.made == ["a", "c"]
    assert sorted(created.topics) == ["a", "c"]


def test_a_topic_of_another_instance_is_as_good(log: SimulatedLog[pa.Table]) -> None:
    log.create_topic(Topic("a", 1))
    log.create_topic(Topic("b", 2))
    created = create_topics(log, [Topic("a", 1), Topic("b", 1)], shared=True)
    assert isinstance(created.error, ConflictError), "b has another number of partitions"
    assert (created.made, sorted(created.topics)) == ([], ["a"])


def test_a_stale_topic_is_replaced(log: SimulatedLog[pa.Table]) -> None:
    log.create_topic(Topic("a", 2))
    stale = log.topic("a")
    assert stale is not None
    created = create_topics(log, [Topic("a", 1), Topic("b", 1)], shared=True, stale={"a", "b"})
    assert created.error is None
    assert created.made == ["a", "b"]
    assert created.topics["a"].id != stale.id
