"""Two instances of a service over one log: statements to either reach both."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import millstream
from millstream import udf
from millstream.command_topic import following, snapshots
from millstream.command_topic.entries import Command, encode_command
from millstream.log.faults import Fault, SimulatedCrash
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.errors import ConflictError, MillstreamError, UnavailableError
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service import processing_stream
from millstream.service.execution import execute_script
from millstream.state.store import Store
from tests.unit.command_topic.converging import COMMANDS, Cluster, execute, running

VISITS = (
    "CREATE STREAM visits (guest STRING KEY, place STRING)"
    " WITH (KAFKA_TOPIC='visits', PARTITIONS=2, FORMAT='JSON');"
)
PLACES = "CREATE TABLE places AS SELECT place, COUNT(*) AS n FROM visits GROUP BY place;"
PREFIX = EngineSettings().internal_prefix


def test_statements_on_either_reach_both(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, VISITS)
    execute(two, PLACES)
    execute(one, "INSERT INTO visits VALUES ('ann', 'inn');")
    execute(one, "CREATE TYPE money AS DECIMAL(10, 2);")
    execute(two, "CREATE STREAM loud AS SELECT guest, UCASE(place) AS place FROM visits;")
    before = cluster.agree()
    assert list(one.catalog.queries) == list(two.catalog.queries)
    loud = next(id for id in one.catalog.queries if "LOUD" in id)
    execute(one, f"PAUSE {loud};")
    assert cluster.agree() != before
    assert two.registry.paused == {loud}
    execute(two, f"RESUME {loud};")
    assert cluster.agree() == before
    execute(one, f"TERMINATE {loud}; DROP STREAM loud DELETE TOPIC; DROP TYPE money;")
    cluster.agree()
    assert "LOUD" not in two.catalog.sources
    assert "LOUD" not in cluster.topics()


def test_what_one_has_ended_is_gone_on_both(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, VISITS + PLACES)
    cluster.agree()
    (query_id,) = two.catalog.queries
    assert [name for name in cluster.topics() if query_id in name]
    execute(two, "DROP TABLE places;")
    assert running(one) == [query_id]
    cluster.agree()
    assert running(one) == []
    assert not [name for name in cluster.topics() if query_id in name]
    assert one.store.query_ids() == set()


def test_a_query_is_replaced_on_both(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, VISITS + "CREATE STREAM s AS SELECT guest, place FROM visits;")
    cluster.agree()
    plans = dict(two.registry.plans)
    execute(one, "CREATE OR REPLACE STREAM s AS SELECT guest, place FROM visits WHERE place = 'x';")
    cluster.agree()
    assert plans.keys() == two.registry.plans.keys()
    assert plans != two.registry.plans


def test_positions_are_those_of_the_instance_that_was_asked(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, VISITS + "INSERT INTO visits VALUES ('ann', 'inn');")
    following.follow(two.command_topic)
    session = Session({"auto.offset.reset": "latest"})
    list(execute_script(one, "CREATE STREAM s AS SELECT * FROM visits;", session))
    (query_id,) = one.catalog.queries
    before = cluster.log.positions(query_id)
    execute(one, "INSERT INTO visits VALUES ('bob', 'inn');")
    following.follow(two.command_topic)
    assert cluster.log.positions(query_id) == before
    assert sum(before.values()) == 2, "behind the record and its marker"


def interrupted(cluster: Cluster, effect: str, *statements: Callable[[], None]) -> None:
    """Carry out a statement at the next effects of a name that another statement has."""
    waiting = list(statements)

    def happens(name: str) -> None:
        if name == effect and waiting:
            statement = waiting.pop(0)
            cluster.on_effect = lambda name: None
            statement()
            cluster.on_effect = happens

    cluster.on_effect = happens


def test_the_slower_of_two_goes_on_from_what_the_faster_wrote(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, VISITS)
    following.follow(two.command_topic)
    interrupted(cluster, "create_topic", lambda: execute(two, "CREATE TYPE money AS INT;"))
    execute(one, PLACES)
    cluster.agree()
    assert list(one.catalog.types) == ["MONEY"]
    (query_id,) = one.catalog.queries
    internal = [name for name in cluster.topics() if name.startswith(PREFIX)]
    others = {COMMANDS, snapshots.topic_name(one), processing_stream.topic_of(one.settings)}
    assert all(query_id in name for name in internal if name not in others)


def test_two_create_the_same_at_once(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, VISITS)
    following.follow(two.command_topic)
    interrupted(cluster, "create_topic", lambda: execute(two, PLACES))
    with pytest.raises(ConflictError, match="already exists"):
        execute(one, PLACES)
    cluster.agree()
    execute(one, "INSERT INTO visits VALUES ('ann', 'inn');")
    two.drain()
    assert not [status.error for status in two.statuses() if status.error]


def test_an_instance_that_is_always_slower_gets_an_error(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, VISITS)
    following.follow(two.command_topic)
    before = cluster.topics()
    numbers = range(20)
    interrupted(
        cluster,
        "transact.commit",
        *[lambda n=n: execute(two, f"CREATE TYPE t{n} AS INT;") for n in numbers],  # type: ignore[misc]
    )
    with pytest.raises(ConflictError) as failure:
        execute(one, PLACES)
    assert failure.value.code == "E-DDL-CONFLICT"
    cluster.on_effect = lambda name: None
    cluster.agree()
    assert set(cluster.topics()) - set(before) == {"PLACES"}
    execute(one, PLACES)
    cluster.agree()


def test_an_answer_that_is_lost_is_looked_for(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, VISITS)

    def once(fault: Fault, count: int) -> Callable[[str], Fault]:
        seen: list[str] = []

        def decide(name: str) -> Fault:
            seen.append(name)
            return fault if name == "append" and seen.count("append") == count else Fault.NONE

        return decide

    cluster.on_request = once(Fault.RESPONSE_LOST, 2)
    execute(one, PLACES)
    cluster.on_request = once(Fault.REQUEST_LOST, 2)
    with pytest.raises(UnavailableError):
        execute(one, "CREATE STREAM s AS SELECT * FROM visits;")
    assert "S" not in one.catalog.sources
    cluster.agree()
    execute(two, "CREATE STREAM s AS SELECT * FROM visits;")
    cluster.agree()


def test_an_unknown_outcome_is_found_by_following(cluster: Cluster) -> None:
    one = cluster.start()
    execute(one, VISITS)
    appends = 0

    def lost(name: str) -> Fault:
        nonlocal appends
        appends += name == "append"
        return Fault.RESPONSE_LOST if appends >= 2 else Fault.NONE

    cluster.on_request = lost
    with pytest.raises(UnavailableError) as failure:
        execute(one, PLACES)
    assert failure.value.code == "E-LOG-UNKNOWN"
    assert "PLACES" not in one.catalog.sources
    cluster.on_request = lambda name: Fault.NONE
    cluster.agree()
    assert "PLACES" in one.catalog.sources
    execute(one, "INSERT INTO visits VALUES ('ann', 'inn');")
    one.drain()
    assert not [status.error for status in one.statuses() if status.error]


def test_a_starting_instance_leaves_unfinished_objects_of_others(cluster: Cluster) -> None:
    one = cluster.start()
    execute(one, VISITS)
    interrupted(cluster, "create_topic", lambda: None, lambda: cluster.start() and None)
    execute(one, PLACES)
    cluster.agree()
    execute(one, "INSERT INTO visits VALUES ('ann', 'inn');")
    one.drain()
    assert not [status.error for status in one.statuses() if status.error]


def test_a_statement_that_fails_on_one_instance_only_isolates_its_object(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    twice = udf("TWICE", "STRING -> STRING", lambda text: text + text)
    one, two = cluster.start(twice), cluster.start()
    execute(one, VISITS)
    execute(one, "CREATE STREAM t AS SELECT guest, TWICE(place) AS p FROM visits;")
    execute(one, "CREATE STREAM u AS SELECT guest, place FROM visits;")
    following.follow(two.command_topic)
    assert list(two.catalog.sources) == ["VISITS", "U"]
    assert [row["kind"] for row in two.processing_log.table().to_pylist()] == ["COMMAND"]
    (told,) = (record.getMessage() for record in caplog.records if "TWICE" in record.getMessage())
    assert "CREATE STREAM t AS" in told and "--functions FOLDER" in told
    with pytest.raises(ConflictError, match="TWICE") as failure:
        execute(two, "CREATE TYPE money AS INT;")
    assert failure.value.code == "E-CMD-UNAPPLIED"
    before = cluster.topics()
    cluster.engines.remove(two)
    two.close()
    cluster.start()
    assert cluster.topics() == before
    cluster.engines.pop().close()
    cluster.start(twice)
    cluster.agree()


def test_a_changed_command_topic_is_refused_and_queries_go_on(cluster: Cluster) -> None:
    one = cluster.start()
    execute(one, VISITS + PLACES)
    value = json.dumps({"version": 2, "text": "x", "properties": {}, "previous": "0" * 32}).encode()
    writer = cluster.log.writer("somebody")
    writer.append([Appended(COMMANDS, 0, raw_batch([(None, value, 0)]), 1)])
    following.follow(one.command_topic)
    for engine in (one, cluster.start()):
        with pytest.raises(MillstreamError, match="expected") as failure:
            execute(engine, "DROP TABLE places;")
        assert failure.value.code == "E-CMDLOG-DIVERGED"
        assert len(running(engine)) == 1
    execute(one, "INSERT INTO visits VALUES ('ann', 'inn');")
    cluster.engines.pop().close()
    one.drain()
    assert cluster.log.end_offset("PLACES", 0) + cluster.log.end_offset("PLACES", 1) > 0


def test_a_start_replays_only_what_is_left(cluster: Cluster) -> None:
    one = cluster.start()
    execute(one, VISITS)
    execute(one, "CREATE TYPE place AS STRUCT<name STRING>;")
    execute(
        one,
        "CREATE STREAM s (p PLACE) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
        "DROP TYPE place;" + PLACES,
    )
    (query_id,) = one.catalog.queries
    execute(one, f"PAUSE {query_id};")
    for number in range(502):
        execute(one, f"CREATE TYPE t{number} AS INT; DROP TYPE t{number};")
    two = cluster.start()
    assert two.command_topic.state.replayed < 60
    cluster.agree()
    one.close()
    cluster.engines.remove(one)
    three = cluster.start()
    assert three.command_topic.state.replayed == 6
    assert three.registry.paused == {query_id}
    cluster.agree()


def test_a_query_that_was_replaced_while_its_instance_was_away(cluster: Cluster) -> None:
    one, store = cluster.start(), Store.open(":memory:")
    two = cluster.start(store=store)
    execute(
        one,
        "CREATE TABLE books (id STRING PRIMARY KEY, title STRING, price INT)"
        " WITH (KAFKA_TOPIC='books', PARTITIONS=1, VALUE_FORMAT='JSON');"
        "CREATE TABLE cheap AS SELECT id, price FROM books WHERE price < 5;"
        "INSERT INTO books VALUES ('1', 'Emma', 4);",
    )
    following.follow(two.command_topic)
    two.drain()
    cluster.engines.remove(two)
    two.runtime.close()
    execute(one, "CREATE OR REPLACE TABLE cheap AS SELECT id, price, title FROM books;")
    three = cluster.start(store=store)
    execute(one, "INSERT INTO books VALUES ('2', 'Ivanhoe', 9);")
    three.drain()
    assert not [status.error for status in three.statuses() if status.error]
    assert cluster.log.read("CHEAP", 0, 0, 9).count == 2


def test_an_id_of_a_user_given_to_another_query(cluster: Cluster) -> None:
    one, store = cluster.start(), Store.open(":memory:")
    two = cluster.start(store=store)
    joined = (
        "INSERT INTO pairs WITH (QUERY_ID='own')"
        " SELECT v.{0} AS k, v.guest AS guest, w.place AS place FROM visits v"
        " JOIN visited w WITHIN 1 DAY ON v.{0} = w.{0};"
    )
    execute(
        one,
        VISITS
        + VISITS.replace("visits", "visited")
        + "CREATE STREAM pairs (k STRING KEY, guest STRING, place STRING)"
        " WITH (KAFKA_TOPIC='pairs', PARTITIONS=2, FORMAT='JSON');" + joined.format("place"),
    )
    cluster.agree()
    assert two.store.query_ids() == {"OWN"}
    cluster.engines.remove(two)
    two.runtime.close()
    execute(one, "TERMINATE own;" + joined.format("place"))
    following.follow(one.command_topic)
    topics = [topic for topic in cluster.log.topics() if "OWN" in topic.name]
    assert topics
    three = cluster.start(store=store)
    execute(three, "INSERT INTO visits VALUES ('ann', 'inn');")
    three.drain()
    assert not [status.error for status in three.statuses() if status.error]


def test_a_log_of_one_process_is_read_as_older_versions_wrote_it(
    reopen: Callable[[], millstream.Database],
) -> None:
    db = reopen()
    for number in range(7):
        db.execute(f"CREATE TYPE t{number} AS INT; DROP TYPE t{number};")
    entry = {"version": 1, "text": "CREATE TYPE money AS INT;", "properties": {}}
    value = json.dumps(entry).encode()
    writer = db.engine.log.writer(COMMANDS)
    writer.append([Appended(COMMANDS, 0, raw_batch([(None, value, 0)]), 1)])
    db = reopen()
    assert list(db.engine.catalog.types) == ["MONEY"]
    assert db.engine.command_topic.state.replayed == 15
    db.execute("CREATE TYPE cents AS INT;")
    versions = [
        json.loads(entry.value)["version"] for entry in db.engine.command_topic.log.since(-1)
    ]
    assert set(versions) == {1}
    assert reopen().engine.command_topic.state.replayed == 2


def test_a_snapshot_that_says_something_else_is_not_believed(cluster: Cluster) -> None:
    one = cluster.start()
    execute(one, VISITS)
    for number in range(60):
        execute(one, f"CREATE TYPE t{number} AS INT;")
    topic = snapshots.topic_name(one)
    assert cluster.log.read(topic, 0, cluster.log.start_offset(topic, 0), 9).count == 1
    found = snapshots.newest(one.command_topic)
    assert found is not None
    wrong = snapshots.CommandSnapshot(
        found.position, found.previous, found.digest, found.commands[1:], ()
    )
    value = snapshots._encode(wrong)
    writer = cluster.log.writer("somebody")
    writer.append([Appended(topic, 0, raw_batch([(None, value, 0)]), 1)])
    two = cluster.start()
    assert two.command_topic.state.replayed == 61
    cluster.agree()


def test_a_topic_that_is_to_be_deleted_goes_before_the_next_statement(cluster: Cluster) -> None:
    """The instance that dropped its table has died before this step."""
    one, other = cluster.start(), cluster.start()
    table = "CREATE TABLE t AS SELECT v, COUNT(*) AS n FROM a GROUP BY v;"
    source = "(v INT) WITH (KAFKA_TOPIC='a', PARTITIONS=1, VALUE_FORMAT='JSON');"
    execute(one, f"CREATE STREAM a {source} {table}")
    doomed = cluster.log.topic("T")

    def die(name: str) -> None:
        if any("deletes" in command for command in cluster.commands()):
            raise SimulatedCrash(name)

    cluster.on_effect = die
    with pytest.raises(SimulatedCrash):
        execute(one, "DROP TABLE t DELETE TOPIC;")
    cluster.calm()
    cluster.engines.remove(one)
    assert doomed is not None and cluster.log.topic("T") == doomed
    execute(other, table)
    made = cluster.log.topic("T")
    assert made is not None and made.id != doomed.id
    cluster.start()
    found = cluster.log.topic("T")
    assert found is not None and found.id == made.id


def test_terminated_queries_are_the_same_on_all_instances_and_after_a_snapshot() -> None:
    made = Cluster(clock=iter(range(1_000, 1_000_000, 1_000)).__next__)
    one, other = made.start(), made.start()
    execute(one, VISITS)
    for number in range(3):
        execute(one, f"CREATE STREAM s{number} AS SELECT * FROM visits;")
    execute(other, "TERMINATE ALL;")
    ended = other.catalog.terminated
    assert [query.record.sink for query in ended[:3]] == ["S0", "S1", "S2"]
    execute(one, "CREATE STREAM s3 AS SELECT * FROM visits; DROP STREAM s3;")
    made.agree()
    assert one.catalog.terminated[1:] == ended
    assert one.catalog.terminated[0].ended_at > ended[0].ended_at > 0
    execute(other, " ".join(f"CREATE TYPE t{number} AS INT;" for number in range(60)))
    fresh = made.start()
    assert fresh.command_topic.state.replayed < len(made.commands()) // 2
    assert fresh.catalog.terminated == one.catalog.terminated
    made.agree()
    made.close()


def test_a_command_without_a_time_ended_its_queries_when_its_record_was_written(
    cluster: Cluster,
) -> None:
    one = cluster.start()
    execute(one, VISITS + "CREATE STREAM s AS SELECT * FROM visits;")
    (query_id,) = (query.id for query in one.catalog.queries.values() if query.sink == "S")
    command = Command(f"TERMINATE {query_id};", {}, number=99)
    value = encode_command(command, one.command_topic.state.previous)
    cluster.log.writer(COMMANDS).append(
        [Appended(COMMANDS, 0, raw_batch([(None, value, 1234)]), 1)]
    )
    following.follow(one.command_topic)
    assert one.catalog.terminated[0].record.id == query_id
    assert one.catalog.terminated[0].ended_at == 1234
