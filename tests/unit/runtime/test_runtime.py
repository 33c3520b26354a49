from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from millstream.log.log import DirectReader, Fetched, Participant, Result, Topic
from millstream.log.simulated import Fault
from millstream.model.errors import ConflictError, FencedError, StatementError, UnavailableError
from millstream.model.problem import Problem
from millstream.runtime.ports import RunResult
from millstream.runtime.record_collector import ALONE_BYTES, CARRIED_BYTES
from millstream.runtime.runtime import QueryState
from tests.simulation.pure import Disk, Job
from tests.unit.runtime.queries import (
    AT_LEAST,
    COUNT,
    LONE,
    REKEY,
    SETTINGS,
    Bench,
    WatchedExecutor,
)


def test_a_query_with_a_repartition_counts_across_partitions() -> None:
    bench = Bench(partitions=2)
    bench.query([(REKEY, bench.executor(REKEY)), (COUNT, bench.executor(COUNT))])
    bench.send(1, 2, 1)
    bench.send(1, 2, partition=1)
    bench.rest()
    assert sorted(number for _key, (number, _v) in bench.rows(partition=1)) == [1, 2, 3]
    assert sorted(number for _key, (number, _v) in bench.rows(partition=0)) == [1, 2]
    status = bench.status()
    assert status.state is QueryState.RUNNING
    assert [str(task.id) for task in status.tasks] == ["0_0", "0_1", "1_0", "1_1"]
    assert set(status.lag.values()) == {0}
    assert (status.metrics.records_in, status.metrics.records_out) == (10, 10)


def test_consumed_repartition_records_are_deleted_after_the_commit() -> None:
    bench = Bench()
    bench.query([(REKEY, bench.executor(REKEY)), (COUNT, bench.executor(COUNT))])
    bench.send(1, 2, 3)
    bench.rest()
    assert bench.log.start_offset("rep", 0) == 3
    assert bench.log.start_offset("in", 0) == 0


def test_a_lone_record_goes_through_at_once_at_least_once() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))], guarantee=AT_LEAST)
    bench.rest()
    bench.send(7)
    assert bench.instance.step(bench.now).progress
    assert bench.rows() == [], "the next step commits, and carries the row along"
    assert bench.instance.step(bench.now).progress
    assert bench.rows() == [(7, (1, "v0"))]


def test_at_least_once_outputs_do_not_wait_for_a_later_commit() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))], guarantee=AT_LEAST)
    bench.rest()
    bench.send(7)
    while bench.instance.step(bench.now).progress:
        pass
    bench.send(8)
    assert bench.instance.step(bench.now).progress
    assert bench.rows() == [(7, (1, "v0")), (8, (1, "v0"))]


def test_many_at_least_once_outputs_are_not_carried_by_the_commit() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))], guarantee=AT_LEAST)
    bench.rest()
    bench.send(*range(CARRIED_BYTES // 10 + 1))
    assert bench.instance.step(bench.now).progress
    assert len(bench.rows()) == CARRIED_BYTES // 10 + 1


def test_exactly_once_outputs_wait_for_the_commit() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))])
    bench.rest()
    bench.send(7)
    bench.now += 1000
    bench.steps(1)
    assert bench.rows() == []
    bench.steps(1)
    assert bench.rows() == [(7, (1, "v0"))]


def test_batches_take_the_backlog_up_to_the_bound() -> None:
    bench = Bench(settings=replace(SETTINGS, max_batch_records=4))
    executor = bench.executor(LONE)
    bench.query([(LONE, executor)])
    bench.send(*range(10))
    bench.rest()
    assert [inputs[0].count for inputs in executor.handed] == [4, 4, 2]


def test_partitions_that_are_behind_share_the_batch() -> None:
    bench = Bench(partitions=2, settings=replace(SETTINGS, max_batch_records=8))
    executor = bench.executor(LONE)
    bench.query([(LONE, executor)])
    bench.send(*range(40))
    bench.send(1, partition=1)
    bench.rest()
    assert [len(inputs) for inputs in executor.handed] == [2] * len(executor.handed)
    assert max(inputs[0].count for inputs in executor.handed) == 8


def test_reads_are_bounded_by_bytes_once_the_record_size_is_known() -> None:
    bench = Bench(settings=replace(SETTINGS, max_batch_records=5, max_partition_bytes=20))
    executor = bench.executor(LONE)
    bench.query([(LONE, executor)])
    bench.send(*range(9))
    bench.rest()
    assert [inputs[0].count for inputs in executor.handed] == [5, 2, 2]


def test_much_pending_output_brings_the_commit_forward() -> None:
    bench = Bench(settings=replace(SETTINGS, commit_interval_ms=10**9, max_pending_bytes=15))
    bench.query([(LONE, bench.executor(LONE))])
    bench.send(1, 2, 3)
    bench.rest()
    assert len(bench.rows()) == 3


def test_so_does_much_output_that_a_executor_keeps() -> None:
    job = replace(LONE, coalesce=True)
    bench = Bench(settings=replace(SETTINGS, commit_interval_ms=10**9, max_pending_bytes=2))
    bench.query([(job, bench.executor(job))])
    bench.send(1, 2)
    bench.rest()
    assert not bench.rows()
    bench.send(3)
    bench.rest()
    assert len(bench.rows()) == 3
    bench.send(4, 5)
    bench.rest()
    assert len(bench.rows()) == 3


def test_what_is_made_of_a_part_of_a_record_is_committed_as_well() -> None:
    bench = Bench()
    executor = PartOfARecord(bench.executor(LONE).inner)
    bench.query([(LONE, executor)])
    bench.send(1)
    bench.rest()
    assert "flush" in executor.calls


class PartOfARecord(WatchedExecutor):
    """Keeps the output of some rows of the first record; the others wait."""

    def run(
        self, inputs: Sequence[Fetched[Any]], *, together: bool = False, closing: bool = False
    ) -> RunResult[Any]:
        kept = 0 if "run" in self.calls else 1
        self.calls.append("run")
        return RunResult((), {}, kept=kept)


def test_held_back_input_is_handed_in_again() -> None:
    bench = Bench()
    executor = bench.executor(LONE, hold=0.7)
    bench.query([(LONE, executor)])
    bench.send(*range(30))
    bench.rest()
    assert [key for key, _value in bench.rows()] == list(range(30))
    assert len(executor.handed) > 1


def test_each_run_gets_every_partition_even_without_records() -> None:
    bench = Bench(partitions=3)
    executor = bench.executor(LONE)
    bench.query([(LONE, executor)])
    bench.send(1, partition=2)
    bench.rest()
    assert [(one.partition, one.count, one.end) for one in executor.handed[0]] == [
        (0, 0, True),
        (1, 0, True),
        (2, 1, True),
    ]


def test_state_is_restored_from_where_the_disk_left_off() -> None:
    bench = Bench()
    disk = Disk()
    bench.query([(LONE, bench.executor(LONE, disk))])
    bench.send(1, 1, 2)
    bench.rest()
    bench.instance.close(bench.now)
    for next_disk, replayed in ((disk, 0), (Disk(), 2)):
        bench.query([(LONE, bench.executor(LONE, next_disk))])
        bench.rest()
        assert bench.status().metrics.restored == replayed
        bench.instance.close(bench.now)
    bench.query([(LONE, bench.executor(LONE, disk))])
    bench.send(1)
    bench.rest()
    assert bench.rows()[-1] == (1, (3, "v0"))


class NotedReader(DirectReader[Any]):
    """A reader that notes when it is closed."""

    closed = False

    def close(self) -> None:
        object.__setattr__(self, "closed", True)


def test_a_changelog_is_read_by_a_reader_alone_that_is_closed_after_it() -> None:
    """Without anything to replay there is no such reader."""
    bench = Bench()
    disk = Disk()
    bench.query([(LONE, bench.executor(LONE, disk))])
    bench.send(1, 1, 2)
    bench.rest()
    bench.instance.close(bench.now)
    for next_disk, readers in ((disk, [(False, False)]), (Disk(), [(False, False), (True, True)])):
        opened: list[tuple[bool, NotedReader]] = []

        def reader(*, alone: bool = False, opened: Any = opened) -> NotedReader:
            opened.append((alone, NotedReader(bench.log)))
            return opened[-1][1]

        bench.log.reader = reader  # type: ignore[method-assign]
        bench.query([(LONE, bench.executor(LONE, next_disk))])
        bench.rest()
        assert [(alone, made.closed) for alone, made in opened] == readers
        bench.instance.close(bench.now)


def test_state_ahead_of_its_changelog_is_refused() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE, Disk({0: (5, {1: 1})})))])
    bench.rest()
    assert (bench.status().state, bench.status().code) == (QueryState.ERROR, "E-STATE-AHEAD")


def test_a_failing_executor_stops_its_query_and_no_other() -> None:
    bench = Bench()
    bad, good = bench.executor(LONE), bench.executor(Job(("in2",), "out2"))

    def explode() -> tuple[Problem, ...]:
        raise ZeroDivisionError("no such number")

    bad.before_run = explode
    bench.query([(LONE, bad)], "BAD")
    bench.query([(good.inner.job, good)], "GOOD")
    bench.send(1)
    bench.send(2, topic="in2")
    bench.rest()
    status = bench.status("BAD")
    assert (status.state, status.error) == (
        QueryState.ERROR,
        "ZeroDivisionError: no such number",
    )
    assert bad.calls[-1] == "discard"
    assert bench.rows() == []
    assert bench.rows("out2") == [(2, "v0")]
    assert bench.status("GOOD").state is QueryState.RUNNING


def test_resume_after_an_error_tries_again() -> None:
    bench = Bench()
    executor = bench.executor(LONE)

    def explode() -> tuple[Problem, ...]:
        raise ValueError("once")

    executor.before_run = explode
    bench.query([(LONE, executor)])
    bench.send(1)
    bench.rest()
    executor.before_run = tuple
    bench.instance.resume("Q")
    bench.rest()
    assert bench.rows() == [(1, (1, "v0"))]
    assert bench.status().error == ""


def test_an_unavailable_resource_is_waited_for() -> None:
    bench = Bench()
    executor = bench.executor(LONE)
    failures = iter((True, True, False))

    def full() -> tuple[Problem, ...]:
        if next(failures, False):
            raise UnavailableError("the disk is full", code="E-DISK-FULL")
        return ()

    executor.before_run = full
    bench.query([(LONE, executor)])
    bench.send(1)
    bench.steps(3)
    waiting = bench.instance.step(bench.now)
    assert not waiting.progress
    assert waiting.wake_at == bench.now + SETTINGS.backoff_ms
    assert bench.status().code == "E-DISK-FULL"
    bench.rest()
    assert bench.rows() == [(1, (1, "v0"))]
    assert bench.status().metrics.reopened == 2


def test_problems_go_to_the_processing_log() -> None:
    bench = Bench()
    executor = bench.executor(LONE)
    problem = Problem("EXPRESSION", "division by zero", "in", 0)
    executor.before_run = lambda: (problem,)
    bench.query([(LONE, executor)])
    bench.send(1)
    bench.rest()
    assert bench.problems == [("Q", (problem,))]


def test_pause_commits_and_stops_and_resume_goes_on() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))])
    bench.send(1)
    bench.steps(3)
    bench.instance.pause("Q")
    bench.rest()
    assert bench.rows() == [(1, (1, "v0"))]
    assert bench.status().state is QueryState.PAUSED
    bench.send(1)
    bench.rest()
    assert len(bench.rows()) == 1
    assert bench.instance.step(bench.now).wake_at is None
    bench.instance.resume("Q")
    bench.rest()
    assert bench.rows()[-1] == (1, (2, "v0"))


def test_removing_commits_by_default_and_closes_the_executors() -> None:
    for commit, rows in ((True, 1), (False, 0)):
        bench = Bench()
        executor = bench.executor(LONE)
        bench.query([(LONE, executor)])
        bench.send(1)
        bench.steps(3)
        bench.instance.remove_query("Q", bench.now, commit=commit)
        bench.instance.remove_query("Q")
        assert len(bench.rows()) == rows
        assert executor.calls[-1] == "close"
        with pytest.raises(StatementError):
            bench.instance.query_status("Q")


def test_what_may_not_be_added() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))])
    with pytest.raises(ConflictError):
        bench.query([(LONE, bench.executor(LONE))])
    with pytest.raises(StatementError, match="two places"):
        bench.query([(LONE, bench.executor(LONE)), (LONE, bench.executor(LONE))], "R")


def test_a_fenced_query_cannot_be_resumed() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))])
    bench.rest()
    bench.log.writer("Q")
    bench.send(1)
    bench.rest()
    assert bench.status().state is QueryState.FENCED
    assert bench.rows() == []
    with pytest.raises(FencedError):
        bench.instance.resume("Q")


def test_nothing_to_run_never_wakes() -> None:
    step = Bench().instance.step(0)
    assert (step.progress, step.wake_at) == (False, None)


def with_due_commits(bench: Bench, names: Sequence[str]) -> None:
    """Queries that copy the input to a topic of their own, and have copied a record."""
    for name in names:
        job = Job(("in",), f"out of {name}")
        bench.log.create_topic(Topic(job.target, 1))
        bench.query([(job, bench.executor(job))], name)
    bench.rest()
    bench.send(7)
    for name in names:
        while bench.instance.advance(name, bench.now, commits=False).progress:
            pass


@pytest.mark.parametrize(("limit", "parts"), [(1 << 20, [5]), (25, [2, 2, 1]), (1, [1] * 5)])
def test_a_round_with_much_to_write_is_several_transactions(limit: int, parts: list[int]) -> None:
    bench = Bench(settings=replace(SETTINGS, max_pending_bytes=limit))
    names = [f"Q{number}" for number in range(5)]
    with_due_commits(bench, names)
    sizes: list[int] = []
    transact_all = bench.log.transact_all

    def noting(participants: Sequence[Participant[Any]]) -> list[Result]:
        sizes.append(len(participants))
        return transact_all(participants)

    bench.log.transact_all = noting  # type: ignore[method-assign]
    bench.instance.commit_round(names, bench.now)
    assert sizes == parts
    assert [bench.rows(f"out of {name}") for name in names] == [[(7, "v0")]] * 5
    assert (bench.instance.rounds.commits, bench.instance.rounds.largest) == (5, 5)


def test_a_query_that_cannot_open_its_writer_is_not_in_the_round() -> None:
    bench = Bench()
    names = ["Q0", "Q1"]
    with_due_commits(bench, names)
    bench.instance._queries["Q0"].collector._writer = None
    bench.faults["writer"] = Fault.REQUEST_LOST
    bench.instance.commit_round(names, bench.now)
    assert [bench.rows(f"out of {name}") for name in names] == [[], [(7, "v0")]]
    assert "not answered" in bench.status("Q0").error
    bench.faults.clear()
    bench.now += 1000
    bench.rest()
    assert bench.rows("out of Q0") == [(7, "v0")]


def test_a_query_with_much_to_write_does_not_wait_for_a_round() -> None:
    """The others of the round would wait for it."""
    bench = Bench()
    with_due_commits(bench, ["small", "large"])
    bench.instance._queries["large"].collector.kept = ALONE_BYTES
    bench.now += 1000
    small, large = (
        bench.instance.advance(name, bench.now, commits=False) for name in ("small", "large")
    )
    assert (small.progress, small.due) == (False, True)
    assert (large.progress, large.due) == (True, False)
    assert [bench.rows(f"out of {name}") for name in ("small", "large")] == [[], [(7, "v0")]]


def test_a_query_whose_commit_has_failed_commits_alone_until_it_succeeds() -> None:
    """The others of a round would wait for it, again and again."""
    bench = Bench()
    with_due_commits(bench, ["Q"])
    query = bench.instance._queries["Q"]
    assert query.pending
    query.retry_state.failures = 1
    assert not query.pending
    bench.now += 1000
    assert bench.instance.advance("Q", bench.now, commits=False).progress
    assert bench.rows("out of Q") == [(7, "v0")]
    bench.send(7)
    bench.now += 1
    assert bench.instance.advance("Q", bench.now, commits=False).progress
    assert query.pending
