from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from millstream.log.log import Appended, TopicPartition
from millstream.log.simulated import Fault
from millstream.model.errors import UnavailableError
from millstream.runtime.assigned_tasks import AssignedTasks
from millstream.runtime.runtime import QueryState
from tests.simulation.pure import Disk, Job
from tests.unit.runtime.queries import AT_LEAST, LONE, SETTINGS, Bench

PASS = Job(("in",), "out")


@pytest.mark.parametrize("fault", [Fault.REQUEST_LOST, Fault.RESPONSE_LOST])
def test_positions_before_a_commit_in_doubt_are_not_kept(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committing them once more, while the query waits for its retry, would move them back."""
    kept: list[Mapping[TopicPartition, int]] = []
    monkeypatch.setattr(
        AssignedTasks, "keep_positions", lambda _, positions, now: kept.append(positions)
    )
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))])
    bench.send(1, 1)
    bench.rest()
    assert kept[-1] == {("in", 0): 2}
    bench.faults["transact.commit"] = fault
    bench.send(1)
    bench.now += 100
    bench.steps(2)
    assert bench.status().state is QueryState.OPENING
    bench.steps(1)
    assert kept[-1] == {}
    bench.faults.clear()
    bench.now += 100
    bench.rest()
    assert kept[-1] == {("in", 0): 3}


@pytest.mark.parametrize("fault", [Fault.REQUEST_LOST, Fault.RESPONSE_LOST])
def test_an_unknown_outcome_is_settled_and_nothing_is_lost_or_repeated(fault: Fault) -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))])
    bench.send(1, 1)
    bench.steps(3)
    bench.faults["transact.commit"] = fault
    bench.now += 100
    bench.steps(1)
    assert (bench.status().state, bench.status().code) == (QueryState.OPENING, "E-TXN")
    bench.faults.clear()
    bench.send(1)
    bench.now += 100
    bench.rest()
    assert [number for _key, (number, _value) in bench.rows()] == [1, 2, 3]


def test_state_is_committed_after_the_log_and_with_its_changelog_position() -> None:
    bench = Bench()
    disk = Disk()
    executor = bench.executor(LONE, disk)
    bench.query([(LONE, executor)])
    bench.send(1, 2)
    bench.faults["transact.write"] = Fault.REQUEST_LOST
    bench.steps(3)
    bench.now += 100
    bench.steps(1)
    assert disk.saved == {}
    assert executor.calls[-1] == "discard"
    bench.faults.clear()
    bench.rest()
    assert disk.saved == {0: (2, {1: 1, 2: 1})}


def test_a_state_that_cannot_be_committed_is_rolled_forward_from_the_changelog() -> None:
    bench = Bench()
    disk = Disk()
    executor = bench.executor(LONE, disk)
    plain: Callable[[Any], None] = executor.inner.commit
    refusals = iter((True, False))

    def commit(positions: Any) -> None:
        if next(refusals, False):
            raise UnavailableError("the disk is full")
        plain(positions)

    executor.inner.commit = commit  # type: ignore[method-assign]
    bench.query([(LONE, executor)])
    bench.send(1)
    bench.rest()
    bench.send(1)
    bench.rest()
    assert bench.rows() == [(1, (1, "v0")), (1, (2, "v0"))]
    assert disk.saved == {0: (2, {1: 2})}
    assert bench.status().metrics.restored == 1


def test_at_least_once_repeats_after_a_failed_commit_but_loses_nothing() -> None:
    bench = Bench()
    bench.query([(PASS, bench.executor(PASS))], guarantee=AT_LEAST)
    bench.send(1, 2)
    bench.faults["transact.write"] = Fault.REQUEST_LOST
    bench.steps(3)
    bench.now += 100
    bench.steps(1)
    bench.faults.clear()
    bench.rest()
    assert bench.rows() == [(1, "v0"), (2, "v1")] * 2


@pytest.mark.parametrize(("waited", "together"), [(140, False), (150, True), (190, True)])
def test_at_least_once_a_commit_that_is_near_is_made_with_the_outputs(
    waited: int, *, together: bool
) -> None:
    """Queries whose input comes a little more often than they commit need one transaction for both
    then, instead of one for each, and their outputs do not wait for the interval."""
    bench = Bench(settings=replace(SETTINGS, commit_interval_ms=200))
    bench.query([(PASS, bench.executor(PASS))], guarantee=AT_LEAST)
    bench.steps(5)
    bench.now += waited
    bench.send(1)
    bench.steps(3)
    assert bench.rows() == [(1, "v0")], "not later than before"
    assert bench.log.positions("Q") == ({("in", 0): 1} if together else {})
    bench.now += 60
    bench.steps(3)
    assert bench.log.positions("Q") == {("in", 0): 1}
    assert bench.status().metrics.commits == 1
    assert bench.rows() == [(1, "v0")]


def test_lost_reads_are_tried_again_without_starting_over() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))])
    bench.rest()
    bench.send(1)
    bench.faults["read"] = Fault.REQUEST_LOST
    bench.steps(1)
    assert bench.status().error
    bench.faults.clear()
    bench.rest()
    assert bench.status().error == ""
    assert bench.status().metrics.reopened == 0
    assert bench.rows() == [(1, (1, "v0"))]


def test_a_start_that_was_handed_in_is_kept_by_the_first_commit() -> None:
    bench = Bench()
    bench.send(1, 2)
    bench.query([(PASS, bench.executor(PASS))], start={("in", 0): 2})
    bench.rest()
    assert bench.log.positions("Q") == {("in", 0): 2}
    bench.send(3)
    bench.rest()
    assert bench.rows() == [(3, "v0")]


def test_a_transient_query_hands_out_at_once_and_commits_nothing() -> None:
    bench = Bench()
    got: list[Appended[Any]] = []
    bench.send(1, 2)
    bench.query(
        [(LONE, bench.executor(Job(("in",), "out", count=True)))],
        transient=True,
        start={("in", 0): 1},
        on_outputs=got.extend,
    )
    bench.steps(3)
    assert [one.batch for one in got] == [((2, (1, "v1")),)]
    bench.rest()
    assert bench.log.positions("Q") == {}
    assert bench.rows() == []
    assert bench.rows("changelog") == []


def test_a_transient_query_through_a_repartition() -> None:
    bench = Bench()
    got: list[Appended[Any]] = []
    rekey, count = Job(("in",), "rep", rekey=True), Job(("rep",), "out", count=True)
    bench.send(5, 5)
    bench.query(
        [(rekey, bench.executor(rekey)), (count, bench.executor(count))],
        transient=True,
        on_outputs=got.extend,
    )
    bench.rest()
    assert [row for one in got for row in one.batch] == [(5, (1, "v0")), (5, (2, "v1"))]
    assert bench.log.start_offset("rep", 0) == 2


def test_a_transient_query_that_has_to_start_over_ends() -> None:
    bench = Bench()
    executor = bench.executor(PASS)
    bench.query([(PASS, executor)], transient=True, on_outputs=lambda _outputs: None)
    bench.send(1)
    bench.rest()

    def full() -> Any:
        raise UnavailableError("no memory")

    executor.before_run = full
    bench.send(2)
    bench.rest()
    assert bench.status().state is QueryState.ERROR
    assert bench.status().error == "no memory"


def test_commit_and_close_do_not_wait_for_the_interval() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))])
    bench.send(1)
    bench.steps(3)
    bench.instance.commit(bench.now)
    assert len(bench.rows()) == 1
    bench.send(1)
    bench.steps(1)
    bench.instance.close(bench.now)
    assert len(bench.rows()) == 2
