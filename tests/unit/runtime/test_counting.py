"""What a query counts: how long its commits take, when it ran, how many records it read."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from millstream.log.log import Appended
from millstream.runtime.durations import BOUNDS_MS, MS, RECENT, Durations
from tests.unit.runtime.queries import LONE, SETTINGS, Bench


def test_nothing_yet() -> None:
    assert Durations().quantile(0.99) == 0
    assert sum(Durations().buckets) == 0


def test_a_bound_belongs_to_its_bucket() -> None:
    durations = Durations().plus(2 * MS).plus(2 * MS + 1).plus(10**12)
    assert durations.buckets[BOUNDS_MS.index(2)] == 1
    assert durations.buckets[BOUNDS_MS.index(5)] == 1
    assert durations.buckets[-1] == 1


@given(st.lists(st.integers(0, 10**11), min_size=1, max_size=300))
def test_figures_of_any_series(series: list[int]) -> None:
    durations = Durations()
    for took in series:
        durations = durations.plus(took)
    assert (durations.count, durations.total) == (len(series), sum(series))
    assert (durations.last, durations.longest) == (series[-1], max(series))
    assert sum(durations.buckets) == len(series)
    recent = sorted(series[-RECENT:])
    assert durations.quantile(1.0) == recent[-1]
    assert durations.quantile(0.5) == recent[(len(recent) + 1) // 2 - 1]


def test_commits_are_timed_by_the_stopwatch_that_is_handed_in() -> None:
    ticks = iter(range(0, 10**9, 3 * MS))
    bench = Bench(settings=replace(SETTINGS, stopwatch=lambda: next(ticks)))
    bench.query([(LONE, bench.executor(LONE))])
    bench.send(1, 2)
    bench.rest()
    took = bench.status().metrics.commit_took
    assert took.count == bench.status().metrics.commits > 0
    assert took.last == took.longest == 3 * MS
    assert took.total == took.count * 3 * MS


def test_the_last_run_is_the_last_that_consumed_something() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))])
    bench.rest()
    assert bench.status().metrics.last_run == 0
    bench.now = 70_000
    bench.send(1)
    bench.rest()
    first = bench.status().metrics.last_run
    assert first >= 70_000
    bench.rest()
    assert bench.status().metrics.last_run == first


def test_markers_of_transactions_are_not_records() -> None:
    bench = Bench(markers=True)
    bench.query([(LONE, bench.executor(LONE))])
    for key in range(3):
        bench.producer.transact("none", [Appended("in", 0, ((key, "v"),), 1)], {})
    bench.rest()
    status = bench.status()
    assert dict(status.positions) == {("in", 0): 6}
    assert status.metrics.records_in == status.sub_topologies[0].metrics.records_in == 3
