from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.runtime.scheduling import (
    BRIEF_RECORDS,
    LINGER_RECORDS,
    STARVED_MS,
    USERS_RUN_MS,
    Candidate,
    choose,
    next_batch,
    rest_ms,
)
from tests.draws import draws
from tests.unit.runtime.queries import LONE, Bench

FULL = 1000


def chosen(candidates: tuple[Candidate, ...]) -> str | None:
    """The query that is chosen."""
    best = choose(candidates, FULL)
    return None if best is None else best.query_id


def test_no_candidates_no_choice() -> None:
    assert choose((), FULL) is None


def test_the_query_with_most_work_goes_first() -> None:
    assert chosen((Candidate("a", 10), Candidate("b", 100), Candidate("c", 1))) == "b"


def test_alike_amounts_leave_it_to_the_priority() -> None:
    assert chosen((Candidate("a", 700), Candidate("b", 600, priority=1))) == "b"
    assert chosen((Candidate("a", 9 * FULL), Candidate("b", FULL, priority=1))) == "b"


def test_then_the_query_that_has_waited_longest() -> None:
    assert chosen((Candidate("a", 9, waited_ms=3), Candidate("b", 9, waited_ms=4))) == "b"


def test_a_commit_that_is_due_comes_before_records() -> None:
    assert chosen((Candidate("a", FULL), Candidate("b", due=True))) == "b"


@settings(max_examples=draws(30))
@given(
    st.lists(
        st.tuples(st.integers(0, 10**7), st.integers(-9, 9), st.booleans()), min_size=2, max_size=8
    ),
    st.integers(1, 3),
)
def test_no_query_starves(queries: list[tuple[int, int, bool]], threads: int) -> None:
    """Whatever the others have to do, each gets a slice in bounded time."""
    slice_ms = 50
    free_since = dict.fromkeys(range(len(queries)), 0)
    longest = STARVED_MS + slice_ms * (len(queries) + 1)
    for now in range(0, 10 * longest, slice_ms):
        for _ in range(threads):
            candidates = [
                Candidate(str(number), *queries[number][:2], now - since, queries[number][2])
                for number, since in free_since.items()
                if since <= now
            ]
            best = chosen(tuple(candidates))
            if best is not None:
                free_since[int(best)] = now + slice_ms
        assert all(now - since <= longest for since in free_since.values())


def test_what_commits_may_wait_for() -> None:
    assert Candidate("a", BRIEF_RECORDS).brief
    assert not Candidate("a", BRIEF_RECORDS + 1).brief
    assert not Candidate("a", 1, slow=True).brief


def test_which_records_may_wait_for_company() -> None:
    assert Candidate("a", LINGER_RECORDS).may_linger
    assert not Candidate("a", LINGER_RECORDS + 1).may_linger
    assert not Candidate("a", 0, due=True).may_linger
    assert not Candidate("a", 1, slow=True).may_linger


def test_batches_fit_the_time_they_take() -> None:
    size = FULL
    for _ in range(10):
        size = next_batch(size, FULL, size, took_ms=10 * size, good_ms=USERS_RUN_MS)
    assert 1 <= size <= USERS_RUN_MS
    for _ in range(20):
        size = next_batch(size, FULL, size, took_ms=1, good_ms=USERS_RUN_MS)
    assert size == FULL


def test_a_run_that_had_little_to_do_says_nothing_of_larger_ones() -> None:
    assert next_batch(100, FULL, 3, took_ms=1, good_ms=USERS_RUN_MS) == 100


def test_a_waiting_query_need_not_rest() -> None:
    assert rest_ms(1000, 100) == 0
    assert rest_ms(100, 100) == 900


def test_queries_advance_one_by_one() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))], priority=3)
    assert bench.instance.query_ids() == ("Q",)
    while bench.instance.advance("Q", bench.now).progress:
        pass
    bench.send(1, 2, 3)
    (waiting,) = bench.instance.candidates({"Q": 7, "gone": 9}, bench.now)
    assert waiting == Candidate("Q", 3, 3, 7, False)
    step = bench.instance.advance("Q", bench.now)
    assert (step.progress, step.records) == (True, 3)
    bench.now += 1000
    (waiting,) = bench.instance.candidates({"Q": 0}, bench.now)
    assert waiting.due
    assert not bench.instance.advance("gone", bench.now).progress


def test_a_query_that_is_failed_may_be_resumed() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))])
    bench.send(1)
    bench.steps(3)
    bench.instance.fail("Q", RuntimeError("a fault"))
    assert "a fault" in bench.status().error
    bench.instance.resume("Q")
    bench.rest()
    assert bench.rows() == [(1, (1, "v0"))]


def test_activity_changes_when_the_counters_are_complete() -> None:
    """A sampler that reads both during a run must find another number after it."""
    bench = Bench()
    executor = bench.executor(LONE)
    bench.query([(LONE, executor)])
    while bench.instance.advance("Q", bench.now).progress:
        pass
    idle = bench.instance.activity()
    assert not bench.instance.advance("Q", bench.now).progress
    assert bench.instance.activity() == idle
    during: list[dict[str, int]] = []
    executor.before_run = lambda: during.append(bench.instance.activity()) or ()  # type: ignore[func-returns-value]
    bench.send(1, 2, 3)
    assert bench.instance.advance("Q", bench.now).records == 3
    assert during == [idle]
    assert bench.instance.activity() != idle
