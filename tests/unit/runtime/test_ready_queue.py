"""The queue of the queries that have work."""

from __future__ import annotations

from millstream.log.watchers import News, changed, grown
from millstream.runtime.ready_queue import ROUND_MAX, ROUND_WAIT_MS, WINDOW, ReadyQueue
from millstream.runtime.spec import Step, Subscription


def queue_of(**topics: str) -> ReadyQueue:
    """Queries by name that read one topic each and have nothing to do."""
    queue = ReadyQueue()
    for name, topic in topics.items():
        queue.add(name, Subscription(frozenset({topic}), frozenset({name}), 0), 0)
        finish(queue, name)
    return queue


def finish(queue: ReadyQueue, name: str, wake_at: int | None = None) -> None:
    """Take a query and release it without more to do."""
    queue.take(name)
    queue.begin(name)
    queue.release(name, 0, Step(False, wake_at), committed=False)


def test_a_new_query_is_ready() -> None:
    queue = ReadyQueue()
    queue.add("A", Subscription(frozenset(), frozenset(), 0), 0)
    assert queue.candidates() == ["A"]
    assert not queue.settled


def test_an_idle_queue_waits_for_nothing() -> None:
    queue = queue_of(A="t", B="u")
    assert not queue.ready
    assert queue.settled
    assert queue.next_at() is None


def test_news_concern_those_that_have_subscribed() -> None:
    queue = queue_of(A="t", B="u", C="t")
    queue.tell(grown(["t", "unknown"]))
    assert queue.candidates() == ["A", "C"]
    queue.tell(changed("B", "t"))
    assert queue.candidates() == ["A", "C", "B"]


def test_growth_and_change_are_two_things() -> None:
    queue = queue_of(A="t")
    queue.tell(News(grown=frozenset({"A"}), changed=frozenset({"t"})))
    assert not queue.ready


def test_news_during_a_step_are_kept_and_news_before_it_are_not() -> None:
    queue = queue_of(A="t")
    queue.tell(grown(["t"]))
    queue.take("A")
    queue.tell(grown(["t"]))
    queue.begin("A")
    queue.release("A", 0, Step(False, None), committed=False)
    assert queue.settled, "the step has seen both"
    queue.wake("A")
    queue.take("A")
    queue.begin("A")
    queue.tell(grown(["t"]))
    queue.release("A", 0, Step(False, None), committed=False)
    assert queue.candidates() == ["A"]
    assert not queue.settled


def test_a_time_makes_it_ready_once() -> None:
    queue = queue_of(A="t", B="t")
    queue.wake("A")
    finish(queue, "A", wake_at=50)
    assert queue.next_at() == 50
    queue.fire(49)
    assert not queue.ready
    queue.fire(50)
    assert queue.candidates() == ["A"]
    assert queue.next_at() is None
    finish(queue, "A")
    queue.fire(1000)
    assert not queue.ready


def test_a_query_whose_time_has_come_is_a_candidate_behind_many_others() -> None:
    names = [f"Q{number}" for number in range(3 * WINDOW)]
    queue = queue_of(**dict.fromkeys(names, "t"), DUE="u")
    queue.wake("DUE")
    finish(queue, "DUE", wake_at=50)
    queue.tell(grown(["t", "u"]))
    assert "DUE" not in queue.candidates()
    queue.fire(50)
    assert "DUE" in queue.candidates()


def test_every_priority_has_candidates() -> None:
    queue = queue_of(**dict.fromkeys([f"Q{number}" for number in range(2 * WINDOW)], "t"))
    queue.add("URGENT", Subscription(frozenset(), frozenset(), 9), 0)
    queue.tell(grown(["t"]))
    assert "URGENT" in queue.candidates()
    assert len(queue.candidates()) == WINDOW + 1


def test_a_throttled_query_waits_for_its_time_or_for_quiet() -> None:
    queue = queue_of(A="t", B="u")
    for name in ("A", "B"):
        queue.wake(name)
    queue.take("A")
    queue.release("A", 100, Step(True, None), committed=False, rest_ms=30)
    assert queue.candidates() == ["B"]
    queue.take("B")
    queue.begin("B")
    assert queue.candidates() == [], "B is being worked on"
    queue.release("B", 100, Step(False, None), committed=False)
    assert queue.candidates() == ["A"], "nobody else needs the time"
    queue.wake("B")
    queue.fire(130)
    assert queue.candidates() == ["B", "A"]


def test_what_is_settled_for_now_is_looked_at_again_by_who_waits_for_all() -> None:
    queue = queue_of(A="t", B="t")
    queue.wake("B")
    queue.take("B")
    queue.begin("B")
    queue.release("B", 0, Step(False, 1000), committed=True)
    assert queue.settled
    queue.wake_unsettled()
    assert queue.candidates() == ["B"], "B asked to be looked at, so it may not know of everything"


def test_a_removed_query_leaves_nothing_behind() -> None:
    queue = queue_of(A="t", B="t")
    queue.wake("A")
    finish(queue, "A", wake_at=10)
    queue.wake("B")
    queue.remove("A")
    queue.remove("A")
    queue.tell(grown(["t"]))
    queue.fire(10)
    assert queue.candidates() == ["B"]
    queue.remove("B")
    assert queue.settled
    assert not queue.ready


def due_queue(count: int) -> ReadyQueue:
    """Queries Q0, Q1, … whose commit is due, each since one ms later."""
    queue = ReadyQueue()
    for number in range(count):
        name = f"Q{number}"
        queue.add(name, Subscription(frozenset({"t"}), frozenset(), 0), 0)
        queue.take(name)
        queue.begin(name)
        queue.release(name, number, Step(False, number, due=True), committed=False)
    return queue


def test_commits_are_made_at_once_where_nothing_else_is_ready() -> None:
    queue = due_queue(3)
    assert (queue.ready, queue.settled, queue.candidates()) == (True, False, [])
    assert queue.round(2, others=False) == ["Q0", "Q1", "Q2"]


def test_a_round_waits_for_others_until_the_oldest_has_waited_enough() -> None:
    queue = due_queue(3)
    assert queue.round(ROUND_WAIT_MS - 1, others=True) == []
    assert queue.round(ROUND_WAIT_MS, others=True) == ["Q0", "Q1", "Q2"]
    assert queue.round(ROUND_WAIT_MS, others=True, without={"Q0"}) == []
    assert queue.round(ROUND_WAIT_MS + 1, others=True, without={"Q0"}) == ["Q1", "Q2"]


def test_a_full_round_does_not_wait() -> None:
    queue = due_queue(ROUND_MAX + 1)
    together = queue.round(0, others=True)
    assert together == [f"Q{number}" for number in range(ROUND_MAX)]
    queue.take_round(together)
    assert queue.round(10**6, others=False) == [], "one round at a time"
    assert not queue.ready
    queue.end_round()
    assert queue.round(10**6, others=False) == [f"Q{ROUND_MAX}"]


def test_news_do_not_take_a_query_out_of_its_round() -> None:
    queue = due_queue(2)
    queue.tell(grown(["t"]))
    assert queue.candidates() == []
    queue.take_round(queue.round(1, others=False))
    queue.end_round()
    for name in ("Q0", "Q1"):
        queue.release(name, 2, Step(False, None), committed=True)
    assert queue.candidates() == ["Q0", "Q1"], "they were told meanwhile"


def test_removing_a_query_that_waits_for_its_round() -> None:
    queue = due_queue(2)
    queue.remove("Q0")
    assert queue.round(1, others=False) == ["Q1"]
    queue.remove("Q1")
    assert (queue.ready, queue.settled) == (False, True)


def test_a_rest_goes_on_after_a_round() -> None:
    queue = due_queue(0)
    queue.add("Q", Subscription(frozenset({"t"}), frozenset(), 0), 0)
    queue.take("Q")
    queue.release("Q", 0, Step(False, 0, due=True), committed=False, rest_ms=100)
    queue.take_round(queue.round(0, others=False))
    queue.end_round()
    queue.add("other", Subscription(frozenset(), frozenset(), 0), 0)
    queue.release("Q", 5, Step(True, None), committed=False)
    assert queue.candidates() == ["other"]
    assert queue.next_at() == 100


def lingering_queue(wake_at: int | None = None) -> ReadyQueue:
    """A query that lingers until 100, or that has a time of its own as well."""
    queue = queue_of()
    queue.add("A", Subscription(frozenset({"t"}), frozenset(), 0), 0)
    finish(queue, "A", wake_at)
    queue.tell(grown(["t"]))
    assert queue.linger("A", 10, 100)
    return queue


def test_a_lingering_query_is_not_ready_until_its_limit() -> None:
    queue = lingering_queue()
    assert (queue.ready, queue.length, queue.lingering) == (False, 0, ("A",))
    assert queue.next_at() == 100
    assert not queue.settled
    queue.fire(99)
    assert not queue.ready
    queue.fire(100)
    assert queue.candidates() == ["A"]
    assert not queue.linger("A", 100, 100), "its time has come"


def test_a_lingering_query_keeps_its_own_time() -> None:
    queue = lingering_queue(wake_at=50)
    assert queue.next_at() == 50
    queue.fire(50)
    assert not queue.linger("A", 50, 100), "it has to commit"


def test_a_later_time_of_its_own_does_not_prolong_lingering() -> None:
    assert lingering_queue(wake_at=500).next_at() == 100


def test_news_let_a_lingering_query_be_looked_at_and_change_nothing_else() -> None:
    queue = lingering_queue()
    queue.tell(grown(["t"]))
    assert (queue.candidates(), queue.lingering) == (["A"], ())
    assert queue.linger("A", 60, 100)
    assert queue.next_at() == 100


def test_a_woken_query_does_not_linger_before_its_next_step() -> None:
    queue = lingering_queue()
    queue.wake("A")
    assert queue.candidates() == ["A"]
    assert not queue.linger("A", 11, 100)
    queue.take("A")
    queue.release("A", 15, Step(True, None), committed=False)
    assert not queue.linger("A", 16, 100), "no step has begun since"
    queue.take("A")
    queue.begin("A")
    queue.release("A", 20, Step(False, None), committed=False)
    queue.tell(grown(["t"]))
    assert queue.linger("A", 21, 100)
    assert queue.next_at() == 120


def test_a_query_that_was_woken_while_it_worked_does_not_linger() -> None:
    queue = queue_of(A="t")
    queue.tell(grown(["t"]))
    queue.take("A")
    queue.begin("A")
    queue.wake("A")
    queue.release("A", 0, Step(False, None), committed=False)
    assert not queue.linger("A", 1, 100)


def test_who_has_not_run_for_long_does_not_linger() -> None:
    queue = queue_of(A="t")
    queue.tell(grown(["t"]))
    assert not queue.linger("A", 100, 100)
    assert queue.candidates() == ["A"]


def test_removing_a_lingering_query() -> None:
    queue = lingering_queue()
    queue.remove("A")
    assert (queue.settled, queue.lingering, queue.next_at()) == (True, (), None)
