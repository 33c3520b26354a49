"""Pull queries over several tables whose queries are shared by instances: all of them as of the
same offsets, wherever their tasks are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream import Database
from millstream.cluster import alignment
from millstream.cluster.participant import Participations
from millstream.cluster.scatter_gather import READY_MS
from millstream.cluster.steps import (
    AdvanceQuery,
    HoldQueries,
    ReleaseSnapshot,
    SnapshotStep,
    TakeSnapshot,
    decode_progress,
    decode_step,
    encode_progress,
    encode_step,
)
from millstream.log.log import TopicPartition
from millstream.model.errors import StatementError, UnavailableError
from millstream.runtime.alignment import (
    QueryTopics,
    Reached,
    SubTopologyTopics,
    moved_up_to,
    read_up_to,
)
from millstream.runtime.spec import QueryState
from tests.patience import until
from tests.snapshots.workload import INVARIANTS, SCRIPT, Number, appended, transfers
from tests.unit.cluster.shared_tasks import Sharing, sharing
from tests.unit.conftest import EARLIEST

GUARANTEES = ("at_least_once", "exactly_once_v2")
FIRST = INVARIANTS[0]
PAIR = SCRIPT[: SCRIPT.index("CREATE TABLE large")]
"""The two tables of the first invariant alone."""


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is slow."""
    monkeypatch.setattr(alignment, "HOLD_S", 600.0)


def opened(guarantee: str, script: str) -> tuple[Sharing, list[Database]]:
    properties = {**EARLIEST, "processing.guarantee": guarantee, READY_MS: "0"}
    made = sharing(2)
    databases = [made.database(number, properties) for number in range(2)]
    databases[0].execute(script)
    made.settle()
    made.deal([0, 1, 0])
    return made, databases


@pytest.fixture(params=GUARANTEES)
def shared(request: pytest.FixtureRequest) -> Iterator[tuple[Sharing, list[Database]]]:
    made, databases = opened(request.param, SCRIPT)
    yield made, databases
    made.close()


@pytest.fixture
def plain() -> Iterator[tuple[Sharing, list[Database]]]:
    made, databases = opened("at_least_once", PAIR)
    yield made, databases
    made.close()


def write(shared: Sharing, number: int, count: int = 10) -> None:
    """Transfers, and a debit with its credit."""
    writer = shared.cluster.log.writer("load")
    writer.append(appended("transfers", transfers(Random(number), count), number))
    if shared.cluster.log.topic("credits") is not None:
        writer.append(appended("debits", [(f"w{number}", {"N": 1})], number))
        writer.append(appended("credits", [(f"w{number}", {"N": 1})], number))


def figures(database: Database, text: str) -> tuple[Number, Number]:
    (found,) = database.execute(text)
    return found


def test_every_prefix_of_the_work_shows_one_snapshot(
    shared: tuple[Sharing, list[Database]],
) -> None:
    """Whichever tasks have run meanwhile, on whichever instance the query runs."""
    both, databases = shared
    random = Random(5)
    for number in range(14):
        write(both, number)
        engine = random.choice(both.engines)
        query_id = random.choice(sorted(engine.catalog.queries))
        for _ in range(random.randrange(4)):
            engine.driver.process(query_id)
        invariant = INVARIANTS[number % len(INVARIANTS)]
        left, right = figures(databases[number // 2 % 2], invariant.text)
        assert invariant.holds(left, right), invariant.name
        assert left > 0
    assert figures(databases[0], FIRST.text)[0] == sum(
        amount
        for number in range(14)
        for amount in (row["AMOUNT"] for _, row in transfers(Random(number), 10))
        if isinstance(amount, int)
    )
    both.settle()
    for invariant in INVARIANTS:
        assert invariant.holds(*figures(databases[1], invariant.text)), invariant.name


@pytest.mark.parametrize("late", ["PAID", "RECEIVED"])
def test_an_instance_that_is_left_behind_would_be_found(
    plain: tuple[Sharing, list[Database]], late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The invariant can fail over instances, too: it does if one of them does not advance a query
    and reports that it did."""
    both, databases = plain
    query_id = str(databases[0].engine.catalog.source(late).query_id)
    right = both.send

    def lying(address: str, snapshot_id: str, step: SnapshotStep, seconds: float) -> object:
        if not isinstance(step, AdvanceQuery) or step.query_id != query_id:
            return right(address, snapshot_id, step, seconds)
        answer = right(address, snapshot_id, replace(step, bounds={}), seconds)
        reached = answer[query_id]
        there = {p: max(at, step.bounds.get(p, at)) for p, at in reached.positions.items()}
        return {**answer, query_id: replace(reached, positions=there)}

    routing = both.engines[0].cluster.routing
    assert routing is not None
    monkeypatch.setattr(routing, "send", lying)
    write(both, 1, 60)
    assert not FIRST.holds(*figures(databases[0], FIRST.text))


@pytest.mark.parametrize("told", ["late", "not at all"])
def test_ends_of_what_queries_write_are_those_of_what_is_written(
    plain: tuple[Sharing, list[Database]], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that another instance has committed is readable a moment later on Kafka, and a
    broker may not return the readable end at all: neither may lose records."""
    both, databases = plain
    log = databases[0].engine.log
    right = log.end_offsets

    def behind(places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        ends = right(places)
        made = {place: end for place, end in ends.items() if place[0] != "transfers"}
        if told == "late":
            return ends | {place: max(0, end - 2) for place, end in made.items()}
        return {place: end for place, end in ends.items() if place not in made}

    write(both, 1, 60)
    monkeypatch.setattr(log, "end_offsets", behind)
    left, right_hand = figures(databases[0], FIRST.text)
    assert left == right_hand > 0


def test_the_queries_go_on_behind_the_snapshot(plain: tuple[Sharing, list[Database]]) -> None:
    both, databases = plain
    for number in range(6):
        write(both, number)
        assert FIRST.holds(*figures(databases[number % 2], FIRST.text))
        both.settle()
    kinds = [type(step).__name__ for _, step in both.steps]
    assert kinds[0] == "HoldQueries" and kinds[-1] == "ReleaseSnapshot"
    assert (
        kinds.count("HoldQueries")
        == kinds.count("TakeSnapshot")
        == kinds.count("ReleaseSnapshot")
        == 6
    )


def test_tasks_that_have_moved_are_asked_where_they_are(
    plain: tuple[Sharing, list[Database]],
) -> None:
    both, databases = plain
    write(both, 1)
    before = figures(databases[0], FIRST.text)
    for owners in ([1, 1, 1], [0, 0, 0], [1, 0, 1]):
        both.deal(owners)
        assert [figures(one, FIRST.text) for one in databases] == [before, before]


def test_a_task_that_is_moving_is_waited_for(plain: tuple[Sharing, list[Database]]) -> None:
    """A task that one instance has given up and no other has opened is not left out."""
    both, databases = plain
    write(both, 1)
    query_id = str(databases[0].engine.catalog.source("PAID").query_id)
    group = both.groups.by_group[query_id]
    both.groups.assign(query_id, [0, 0, 0])
    for member in group.members:
        member.hear()
    both.work(both.engines[1])
    with pytest.raises(UnavailableError, match="E-NOT-READY"):
        figures(databases[0], FIRST.text)
    both.deal([0, 0, 0])
    assert FIRST.holds(*figures(databases[0], FIRST.text))


def test_a_task_that_two_instances_have_is_read_from_neither(
    plain: tuple[Sharing, list[Database]],
) -> None:
    """One that was thrown out of the group without its knowledge still has its task open."""
    both, databases = plain
    write(both, 1)
    query_id = str(databases[0].engine.catalog.source("PAID").query_id)
    group = both.groups.by_group[query_id]
    (late,) = (m for m in group.members if m.assignment().partitions == {1})
    group.throw_out(late)
    (other,) = group.members
    group.owners[1] = other
    other.hear()
    for _ in range(20):
        both.work(both.engines[0])
    assert both.engines[0].runtime.reached(query_id).tasks == {0, 1, 2}  # type: ignore[union-attr]
    with pytest.raises(UnavailableError, match="E-NOT-READY"):
        figures(databases[0], FIRST.text)


def test_what_an_instance_outside_of_the_snapshot_wrote_is_not_read(
    plain: tuple[Sharing, list[Database]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that has committed beyond the cut, although all participants are there, has been
    taken over meanwhile: others may have read its output."""
    both, databases = plain
    write(both, 1)
    log = databases[0].engine.log
    positions = log.positions
    query_id = str(databases[0].engine.catalog.source("RECEIVED").query_id)

    def ahead(group: str, partitions: object = ()) -> dict[TopicPartition, int]:
        found = positions(group)
        return {p: at + (group == query_id) for p, at in found.items()}

    monkeypatch.setattr(log, "positions", ahead)
    with pytest.raises(UnavailableError, match=f"tasks of {query_id} are being moved"):
        figures(databases[0], FIRST.text)


@pytest.mark.parametrize("failing", [HoldQueries, AdvanceQuery, TakeSnapshot])
def test_a_failing_instance_blocks_no_other_one(
    plain: tuple[Sharing, list[Database]],
    failing: type[SnapshotStep],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both, databases = plain
    write(both, 1)
    routing = both.engines[0].cluster.routing
    assert routing is not None
    right = both.send

    def dying(address: str, snapshot_id: str, step: SnapshotStep, seconds: float) -> object:
        if isinstance(step, failing):
            raise UnavailableError("the connection was closed")
        return right(address, snapshot_id, step, seconds)

    with monkeypatch.context() as patched:
        patched.setattr(routing, "send", dying)
        with pytest.raises(UnavailableError, match="the connection was closed") as found:
            figures(databases[0], FIRST.text)
        assert found.value.code == "E-NOT-READY"
    both.settle()
    assert FIRST.holds(*figures(databases[0], FIRST.text))


def test_a_requesting_instance_that_dies_blocks_no_other_one(
    plain: tuple[Sharing, list[Database]],
) -> None:
    """Its request ends by itself: the queries continue, and the snapshot is released."""
    both, databases = plain
    engine = both.engines[1]
    query_ids = tuple(sorted(engine.runtime.lineage(engine.catalog.queries).query_ids))
    part = Participations(engine.cluster, retention_s=0.0)
    part.execute("a", HoldQueries(query_ids, 0.0))
    until(lambda: refuses(part, "a", TakeSnapshot()))
    part.execute("b", HoldQueries(query_ids, 600.0))
    part.execute("b", TakeSnapshot())
    until(lambda: refuses(part, "b", TakeSnapshot()))
    with pytest.raises(UnavailableError, match="not kept any more"), part.reading("b"):
        pass
    assert part.execute("b", ReleaseSnapshot()) == {}
    part.close()
    write(both, 1)
    both.settle()
    assert FIRST.holds(*figures(databases[1], FIRST.text))


def refuses(part: Participations, snapshot_id: str, step: SnapshotStep) -> bool:
    try:
        part.execute(snapshot_id, step)
    except UnavailableError as error:
        return "not held any more" in error.message
    return False


def test_queries_of_another_catalog_are_not_held(plain: tuple[Sharing, list[Database]]) -> None:
    both, _ = plain
    part = Participations(both.engines[1].cluster)
    with pytest.raises(UnavailableError, match="query UNKNOWN is not running on all instances"):
        part.execute("a", HoldQueries(("UNKNOWN",), 600.0))
    (query_id, *_) = both.engines[1].catalog.queries
    with pytest.raises(UnavailableError, match="snapshot is not held"):
        part.execute("a", AdvanceQuery(query_id, {}, 1.0))
    part.close()


def test_an_unreachable_instance_is_reported(
    plain: tuple[Sharing, list[Database]], monkeypatch: pytest.MonkeyPatch
) -> None:
    both, databases = plain
    seen = both.seen

    def unreachable(number: int) -> object:
        view = seen(number)
        return replace(view, metadata=replace(view.metadata, address=""))

    monkeypatch.setattr(both, "seen", unreachable)
    with pytest.raises(UnavailableError, match="instance i1 cannot be asked"):
        figures(databases[0], FIRST.text)


def test_each_partition_as_of_its_own_last_commit(plain: tuple[Sharing, list[Database]]) -> None:
    both, databases = plain
    write(both, 1)
    both.settle()
    both.steps.clear()
    databases[0].execute("SET 'millstream.query.pull.snapshot' = 'false';")
    assert figures(databases[0], FIRST.text)[0] > 0
    assert both.steps == []


def test_a_query_that_is_stopped_behind_the_others_is_an_error(
    plain: tuple[Sharing, list[Database]],
) -> None:
    both, databases = plain
    query_id = str(databases[0].engine.catalog.source("PAID").query_id)
    databases[0].execute(f"PAUSE {query_id};")
    both.settle()
    assert figures(databases[1], FIRST.text) == (0, 0)
    write(both, 1)
    both.settle()
    with pytest.raises(StatementError, match=f"query {query_id} is in state PAUSED") as found:
        figures(databases[1], FIRST.text)
    assert found.value.code == "E-SNAPSHOT"


PARTITIONS = st.tuples(st.text(), st.integers(0, 1 << 31))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 1 << 62), max_size=5)
SECONDS = st.floats(0, 1e6)
STEPS = st.one_of(
    st.builds(HoldQueries, st.lists(st.text(), max_size=3).map(tuple), SECONDS),
    st.builds(AdvanceQuery, st.text(), OFFSETS, SECONDS),
    st.builds(TakeSnapshot),
    st.builds(ReleaseSnapshot),
)
REACHED = st.builds(
    Reached,
    st.sampled_from(QueryState),
    st.text(),
    st.frozensets(st.integers(0, 99)),
    OFFSETS,
    st.booleans(),
)


@given(st.text(), STEPS, st.dictionaries(st.text(), REACHED, max_size=3))
def test_steps_and_answers_travel_as_they_are(
    snapshot_id: str, step: SnapshotStep, answer: dict[str, Reached]
) -> None:
    assert decode_step(encode_step(snapshot_id, step)) == (snapshot_id, step)
    assert decode_progress(encode_progress(answer)) == answer


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"[" * 9999,
        b'{"version": 1}',
        b'{"version": 2, "snapshot": "a", "step": "take"}',
        b'{"version": 1, "snapshot": "a", "step": "drop"}',
        b'{"version": 1, "snapshot": "a", "step": "bring", "query": "q", "bounds": [[1]]}',
        b'{"version": 1, "snapshot": "a", "step": "hold", "queries": 7, "seconds": 1}',
    ],
)
def test_what_is_no_step_is_refused(content: bytes) -> None:
    with pytest.raises(StatementError, match="no step of a snapshot"):
        decode_step(content)


def stage(inputs: str, outputs: str, partitions: int = 2) -> SubTopologyTopics:
    read = frozenset((topic, number) for topic in inputs for number in range(partitions))
    return SubTopologyTopics(frozenset(inputs), frozenset(outputs), read)


CHAIN = QueryTopics(
    "q", frozenset("st"), frozenset("o"), (stage("s", "r"), stage("rt", "v"), stage("v", "o"))
)


def test_a_sub_topology_is_brought_where_all_it_reads_has_an_end() -> None:
    """One that reads a repartition topic may have to wait for rows that are not moved yet."""
    bounds = {(topic, number): 5 for topic in "st" for number in range(2)}
    assert read_up_to(CHAIN, bounds) == {("s", 0): 5, ("s", 1): 5}
    assert moved_up_to(CHAIN, bounds, {("s", 0): 5, ("s", 1): 4}) == frozenset()
    positions = {("s", 0): 5, ("s", 1): 5, ("t", 0): 0, ("t", 1): 0, ("r", 0): 0, ("r", 1): 0}
    moved = moved_up_to(CHAIN, bounds, positions)
    assert moved == {("r", 0), ("r", 1)}
    bounds |= dict.fromkeys(moved, 7)
    assert read_up_to(CHAIN, bounds).keys() == {(t, n) for t in "srt" for n in range(2)}
    assert moved_up_to(CHAIN, bounds, positions) == frozenset()
    positions |= bounds
    assert moved_up_to(CHAIN, bounds, positions) == {("v", 0), ("v", 1)}
    bounds |= {("v", 0): 1, ("v", 1): 1}
    assert read_up_to(CHAIN, bounds) == bounds
    assert moved_up_to(CHAIN, bounds, positions | bounds) == frozenset()
