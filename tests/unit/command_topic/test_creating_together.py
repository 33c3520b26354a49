"""A script whose statements create is executed with few requests, as if one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import pytest

from millstream.command_topic import following
from millstream.ddl.topics import PlannedTopics
from millstream.log.faults import Fault, SimulatedCrash
from millstream.log.log import Topic
from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.query.session import Session
from millstream.service.engine import Engine
from millstream.service.execution import execute_script
from millstream.topology.topology import owner_of
from tests.unit.command_topic.converging import (
    COMMANDS,
    VISITS,
    Cluster,
    execute,
    running,
    topic_requests,
)

TABLES = tuple(
    f"CREATE TABLE t{number} AS SELECT place, COUNT(*) AS n FROM visits GROUP BY place;"
    for number in range(4)
)
SCRIPT = VISITS + "".join(TABLES)
NAMES = ["T0", "T1", "T2", "T3", "VISITS"]
EFFECTS_MAX = 100


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.close()


def sources(engine: Engine) -> list[str]:
    return sorted(engine.catalog.sources)


def internal(cluster: Cluster) -> set[str]:
    """The queries that have internal topics."""
    owners = (owner_of(name, cluster.settings.internal_prefix) for name in cluster.topics())
    return {query_id for query_id in owners if query_id is not None}


def failing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    """Have the log refuse to create a topic."""
    create = cluster.log.create_topics

    def refusing(topics: Sequence[Topic]) -> list[Topic | MillstreamError]:
        made = create([each for each in topics if each.name != topic])
        results = iter(made)
        return [
            StatementError(f"{topic} is refused") if each.name == topic else next(results)
            for each in topics
        ]

    monkeypatch.setattr(cluster.log, "create_topics", refusing)


def test_a_script_needs_one_lease_one_request_for_topics_and_two_transactions(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = cluster.start()
    topics = topic_requests(cluster, monkeypatch)
    requests: Counter[str] = Counter()

    def counted(name: str) -> Fault:
        requests[name] += 1
        return Fault.NONE

    cluster.on_request = counted
    execute(one, SCRIPT)
    assert sources(one) == NAMES
    assert len(topics) == 1
    assert requests["append"] == 2, "the lease and the commands"
    assert requests["transact.commit"] == 1, "the start positions of all queries"


def without_log(self: PlannedTopics, existing: object) -> None:
    self._known, self._changed = {}, {}


def test_topics_that_may_exist_are_asked_for_together(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = cluster.start()
    execute(one, VISITS)
    asked: Counter[str] = Counter()
    topic = cluster.log.topic

    def asking(name: str) -> Topic | None:
        asked[name] += name in ("visits", "T0", "T1", "T2", "T3")
        return topic(name)

    monkeypatch.setattr(PlannedTopics, "_existing", SimpleNamespace(topic=asking), raising=False)
    monkeypatch.setattr(PlannedTopics, "__init__", without_log)
    execute(one, "".join(TABLES))
    assert +asked == {"visits": 1}


def test_each_query_has_a_number_of_its_own(cluster: Cluster) -> None:
    one = cluster.start()
    execute(one, SCRIPT)
    execute(one, "CREATE TABLE t9 AS SELECT place, COUNT(*) AS n FROM visits GROUP BY place;")
    commands = [entry for entry in cluster.commands() if "text" in entry]
    numbers = [entry["number"] for entry in commands]
    assert len(set(numbers)) == len(numbers) == 6
    leases = [number for number, entry in enumerate(cluster.log.read(COMMANDS, 0, 0, 99)
              .batch.to_pylist()) if b"turn" in entry["value"]]  # fmt: skip
    assert len(leases) >= 6


def test_the_topics_of_each_query_are_noted(cluster: Cluster) -> None:
    one = cluster.start()
    execute(one, SCRIPT)
    assert len(one.registry.topics) == 4
    for query_id, noted in one.registry.topics.items():
        own = [topic for topic in noted if query_id in topic.name]
        assert len(noted) == 4 and len(own) == 2, "source, sink, repartition and changelog"
        for topic in noted:
            found = cluster.log.topic(topic.name)
            assert found is not None and topic.id == found.id != ""


def test_other_instances_execute_the_same(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, SCRIPT)
    cluster.agree()
    execute(two, "DROP TABLE t1;" + TABLES[1] + "CREATE TYPE a AS INT; CREATE TYPE b AS INT;")
    cluster.agree()
    assert sources(one) == sources(two) == NAMES
    assert sorted(one.catalog.types) == ["A", "B"]
    three = cluster.start()
    assert sources(three) == NAMES
    cluster.agree()


def test_statements_build_on_those_before_them(cluster: Cluster) -> None:
    one = cluster.start()
    execute(
        one,
        VISITS
        + "CREATE TYPE name AS STRING;"
        + "CREATE STREAM loud AS SELECT guest, UCASE(place) AS place FROM visits;"
        + "CREATE STREAM IF NOT EXISTS loud AS SELECT guest FROM visits;"
        + "CREATE TABLE louder AS SELECT place, COUNT(*) AS n FROM loud GROUP BY place;"
        + "INSERT INTO loud SELECT guest, place FROM visits;"
        + "INSERT INTO visits VALUES ('ann', 'inn');",
    )
    one.drain()
    assert sources(one) == ["LOUD", "LOUDER", "VISITS"]
    assert len(one.catalog.queries) == 3
    assert not [status.error for status in one.statuses() if status.error]
    rows = cluster.log.read("LOUD", 0, 0, 9).count + cluster.log.read("LOUD", 1, 0, 9).count
    assert rows == 2


REFUSED = (
    ("CREATE TABLE bad AS SELECT * FROM nothing;", "NOTHING"),
    (TABLES[0], "T0"),
    ("CREATE STREAM bad (a INT) WITH (KAFKA_TOPIC='bad', FORMAT='JSON');", "bad"),
)


@pytest.mark.parametrize("bad, word", REFUSED)
def test_statements_before_a_refused_one_are_executed(
    cluster: Cluster, bad: str, word: str
) -> None:
    one = cluster.start()
    results = execute_script(one, VISITS + TABLES[0] + TABLES[1] + bad + TABLES[2], Session({}))
    done = []
    with pytest.raises(MillstreamError, match=word):
        for result in results:
            done.append(result)  # noqa: PERF402
    assert len(done) == 3
    assert sources(one) == ["T0", "T1", "VISITS"]
    assert internal(cluster) == set(one.catalog.queries) == set(running(one))
    cluster.agree()


def test_a_script_that_begins_with_a_refused_statement_changes_nothing(cluster: Cluster) -> None:
    one = cluster.start()
    with pytest.raises(MillstreamError, match="NOTHING"):
        execute(one, REFUSED[0][0] + VISITS)
    assert sources(one) == []


@pytest.mark.parametrize("number", range(4))
def test_a_topic_that_cannot_be_created_stops_the_script_there(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    one = cluster.start()
    failing(cluster, monkeypatch, f"T{number}")
    with pytest.raises(StatementError, match=f"T{number} is refused"):
        execute(one, SCRIPT)
    assert sources(one) == [*NAMES[:number], "VISITS"]
    assert internal(cluster) == set(one.catalog.queries) == set(running(one))
    assert one.store.query_ids() == set(one.catalog.queries)
    cluster.agree()


@pytest.mark.parametrize("fault", [Fault.REQUEST_LOST, Fault.RESPONSE_LOST])
def test_start_positions_that_are_not_written_are_written_with_another_attempt(
    cluster: Cluster, fault: Fault
) -> None:
    one = cluster.start()
    execute(one, VISITS)
    faults = [fault]

    def lost(name: str) -> Fault:
        return faults.pop() if name == "transact.commit" and faults else Fault.NONE

    cluster.on_request = lost
    execute(one, "".join(TABLES))
    assert not faults
    assert sources(one) == NAMES
    assert internal(cluster) == set(one.catalog.queries) == set(running(one))
    for query_id in one.catalog.queries:
        assert cluster.log.positions(query_id)
    cluster.agree()


def test_a_lease_that_is_lost_meanwhile_is_taken_again(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, VISITS)
    pending = [TABLES[0]]

    def between(name: str) -> None:
        if name == "transact.commit" and pending:
            execute(two, pending.pop())

    cluster.on_effect = between
    execute(one, "".join(TABLES[1:]))
    assert not pending
    cluster.agree()
    assert sources(one) == sources(two) == NAMES
    assert internal(cluster) == set(one.catalog.queries)


def test_a_script_that_is_killed_is_executed_completely_or_not_at_all() -> None:
    seen = set()
    for effect in range(1, EFFECTS_MAX):
        cluster = Cluster()
        one = cluster.start()
        left = effect

        def kill(name: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise SimulatedCrash(name)

        cluster.on_effect = kill
        try:
            execute(one, SCRIPT)
        except SimulatedCrash:
            cluster.calm()
            one.runtime.close(commit=False)
            cluster.engines.remove(one)
            two = cluster.start()
            following.follow(two.command_topic)
            assert sources(two) in ([], NAMES), f"killed at effect {effect}"
            assert internal(cluster) == set(two.catalog.queries) == set(running(two))
            assert all(cluster.log.positions(query_id) for query_id in two.catalog.queries)
            seen.add(len(two.catalog.queries))
            cluster.close()
        else:
            cluster.close()
            break
    assert seen == {0, 4}


def test_a_text_that_does_not_parse_is_refused_when_it_is_reached(cluster: Cluster) -> None:
    """With DEFINE, statements are parsed one by one."""
    one = cluster.start()
    with pytest.raises(StatementError, match="line 1"):
        execute(one, "DEFINE x = 'y';" + VISITS + TABLES[0] + "CREATE NONSENSE;")
    assert sources(one) == ["T0", "VISITS"]


def test_commands_that_may_be_written_are_not_repeated(cluster: Cluster) -> None:
    one = cluster.start()
    execute(one, VISITS)
    faults = [Fault.RESPONSE_LOST]
    seen = []

    def lost(name: str) -> Fault:
        if name != "append":
            return Fault.NONE
        seen.append(name)
        return faults.pop() if len(seen) == 2 and faults else Fault.NONE

    cluster.on_request = lost
    execute(one, "".join(TABLES))
    assert not faults
    texts = [f"{entry['text']};" for entry in cluster.commands() if "text" in entry]
    assert texts == [VISITS, *TABLES]
    cluster.agree()


def test_an_unavailable_log_fails_the_first_statement(cluster: Cluster) -> None:
    one = cluster.start()
    execute(one, VISITS)
    cluster.on_request = lambda name: (
        Fault.REQUEST_LOST if name.startswith("transact") else Fault.NONE
    )
    with pytest.raises(UnavailableError):
        execute(one, "".join(TABLES))
    cluster.calm()
    assert sources(one) == ["VISITS"]
    assert running(one) == []
    execute(one, "".join(TABLES))
    assert sources(one) == NAMES
    cluster.agree()
