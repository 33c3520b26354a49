"""Rates and restorations from counters that are looked at from time to time."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from millstream.metrics.sampling import SECOND_NS, WHOLE, Sampler, rates, restoration
from millstream.runtime.spec import (
    Metrics,
    QueryState,
    QueryStatus,
    SubTopologyMetrics,
    SubTopologyStatus,
    TaskStatus,
)
from millstream.runtime.tasks import TaskId, TaskState


@dataclass(slots=True)
class Stand:
    """Queries whose counters the test sets, and a clock."""

    at: int = 0
    queries: dict[str, QueryStatus] = field(default_factory=dict)
    polls: list[list[str]] = field(default_factory=list)

    def sampler(self) -> Sampler:
        return Sampler(self.polled, lambda: self.at * SECOND_NS, lambda: dict(self.queries))

    def statuses(self) -> tuple[QueryStatus, ...]:
        return tuple(self.queries.values())

    def polled(self, names: Collection[str]) -> tuple[QueryStatus, ...]:
        self.polls.append(sorted(names))
        return tuple(self.queries[name] for name in names)

    def put(self, name: str = "Q", *, read: int = 0, restored: int = 0, left: int = 0) -> None:
        self.queries[name] = QueryStatus(
            query_id=name,
            state=QueryState.RUNNING,
            transient=False,
            error="",
            code="",
            tasks=(TaskStatus(TaskId(0, 0), TaskState.RUNNING, left),),
            positions={},
            lag={},
            metrics=Metrics(records_in=read, records_out=2 * read, restored=restored),
            sub_topologies=(
                SubTopologyStatus(
                    0, ("in",), ("out",), 1, 0, left, SubTopologyMetrics(read, 2 * read)
                ),
            ),
        )


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_a_rate_is_the_mean_over_the_window(stand: Stand) -> None:
    sampler = stand.sampler()
    for second in range(1, 101):
        stand.at = second
        stand.put(read=10 * second if second <= 50 else 500)
        sampler.sample()
        read, written = rates(sampler.now(stand.statuses()), ("Q", WHOLE))
        assert written == 2 * read
        if second <= 50:
            assert read == pytest.approx(10)
        elif second >= 80:
            assert read == 0, "nothing for half a minute"
        else:
            assert 0 < read < 10


def test_without_samples_a_rate_is_the_mean_since_the_start(stand: Stand) -> None:
    sampler = stand.sampler()
    stand.at = 4
    stand.put(read=20)
    assert rates(sampler.now(stand.statuses()), ("Q", 0)) == (5, 10)


def test_a_rate_is_live_between_samples(stand: Stand) -> None:
    sampler = stand.sampler()
    stand.put()
    sampler.sample()
    stand.at = 2
    stand.put(read=8)
    assert rates(sampler.now(stand.statuses()), ("Q", WHOLE)) == (4, 8)
    assert rates(sampler.now(stand.statuses()), ("Q", WHOLE)) == (4, 8), "asking changes nothing"


def test_a_new_query_is_not_slowed_by_the_time_before_it(stand: Stand) -> None:
    sampler = stand.sampler()
    for second in range(1, 20):
        stand.at = second
        sampler.sample()
    stand.at = 21
    stand.put("NEW", read=30)
    assert rates(sampler.now(stand.statuses()), ("NEW", WHOLE))[0] == 15


def test_no_time_and_no_query_make_no_rate(stand: Stand) -> None:
    sampler = stand.sampler()
    stand.put(read=5)
    assert rates(sampler.now(stand.statuses()), ("Q", WHOLE)) == (0, 0)
    assert rates(sampler.now(stand.statuses()), ("OTHER", WHOLE)) == (0, 0)
    assert restoration(sampler.now(stand.statuses()), "OTHER") is None


def test_a_counter_that_falls_began_anew(stand: Stand) -> None:
    sampler = stand.sampler()
    for second, read in ((1, 50), (2, 70), (3, 4), (4, 12)):
        stand.at = second
        stand.put(read=read)
        sampler.sample()
    assert rates(sampler.now(stand.statuses()), ("Q", 0))[0] == (70 + 12) / 4


def test_few_samples_are_kept(stand: Stand) -> None:
    sampler = stand.sampler()
    for second in range(1000):
        stand.at = second
        sampler.sample()
    kept = sampler.now(())
    assert len(kept) <= 32 and kept[0].at == (999 - 30) * SECOND_NS


def test_a_restoration_counts_down(stand: Stand) -> None:
    sampler = stand.sampler()
    for second in range(101):
        stand.at = second
        stand.put(restored=5 * second, left=500 - 5 * second)
        found = restoration(sampler.now(stand.statuses()), "Q")
        sampler.sample()
        if second == 0:
            assert found is not None and found.eta_seconds is None, "no speed yet"
        elif second < 100:
            assert found is not None and (found.left, found.total) == (500 - 5 * second, 500)
            assert found.per_second == pytest.approx(5)
            assert found.eta_seconds == pytest.approx(100 - second)
            assert found.share == pytest.approx(second / 100)
        else:
            assert found is None


def test_a_second_restoration_starts_its_own_count(stand: Stand) -> None:
    sampler = stand.sampler()
    stand.put(restored=100, left=0)
    for second in range(10):
        stand.at = second
        sampler.sample()
    stand.at = 11
    stand.put(restored=120, left=60)
    found = restoration(sampler.now(stand.statuses()), "Q")
    assert found is not None and (found.left, found.total) == (60, 80)
    assert found.per_second == 10, "the time before it does not count"
    assert found.eta_seconds == 6


def test_a_changelog_with_gaps_counts_down_by_its_offsets(stand: Stand) -> None:
    sampler = stand.sampler()
    for second in range(10):
        stand.at = second
        stand.put(restored=second, left=20 - 2 * second)
        sampler.sample()
    found = restoration(sampler.now(stand.statuses()), "Q")
    assert found is not None and (found.left, found.total) == (2, 20)
    assert found.per_second == 2 and found.eta_seconds == 1


def test_only_queries_with_news_are_polled(stand: Stand) -> None:
    sampler = stand.sampler()
    for name in ("A", "B"):
        stand.put(name, read=1)
    for second, read in enumerate((1, 1, 5, 5), 1):
        stand.at = second
        stand.put("B", read=read)
        sampler.sample()
    assert stand.polls == [["A", "B"], ["B"]]
    assert rates(sampler.now(stand.statuses()), ("A", WHOLE)) == (0.25, 0.5)
    assert rates(sampler.now(stand.statuses()), ("B", WHOLE)) == (1.25, 2.5)


def test_a_dropped_query_leaves_the_samples(stand: Stand) -> None:
    sampler = stand.sampler()
    for name in ("A", "B"):
        stand.put(name, read=1)
    sampler.sample()
    del stand.queries["A"]
    stand.at = 1
    sampler.sample()
    assert {name for name, _ in sampler.now(())[1].counts} == {"A", "B"}
    assert {name for name, _ in sampler.now(())[2].counts} == {"B"}


def test_a_query_that_cannot_be_looked_at_leaves_the_samples_as_they_were(stand: Stand) -> None:
    def fail(_names: Collection[str]) -> tuple[QueryStatus, ...]:
        raise RuntimeError("no")

    sampler = Sampler(fail, lambda: stand.at, lambda: {"Q": 1})
    with pytest.raises(RuntimeError):
        sampler.sample()
    assert len(sampler.now(())) == 2


def test_the_thread_ends_on_request(stand: Stand) -> None:
    before = set(threading.enumerate())
    sampler = stand.sampler()
    sampler.start()
    (started,) = set(threading.enumerate()) - before
    sampler.stop()
    assert not started.is_alive()
    sampler.stop()
