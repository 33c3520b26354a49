"""Which member each task should have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from hypothesis import given
from hypothesis import strategies as st

from millstream.log.assignment import balance
from millstream.log.assignment.balance import Wanted
from millstream.log.assignment.group_assignment import NOBODY, Copies, Limits, Task

NONE = Copies()
AT_ONCE = Limits(warmups=0)
CAREFUL = Limits(acceptable_lag=10, warmups=2)


def balanced(
    current: Mapping[Task, str],
    members: Collection[str],
    queries: Mapping[str, int],
    copies: Copies,
    limits: Limits,
) -> Wanted:
    """All members run all queries."""
    tasks = [(group, p) for group, count in queries.items() for p in range(count)]
    everywhere = {task: current.get(task, NOBODY) for task in tasks}
    return balance.balanced(everywhere, dict.fromkeys(queries, members), copies, limits)


def counts(wanted: Wanted, group: str | None = None) -> Counter[str]:
    return Counter(m for task, m in wanted.targets.items() if group in (None, task[0]))


def unequal(targets: Mapping[Task, str], members: list[str]) -> int:
    found = Counter(targets.values())
    return max(found[m] for m in members) - min(found[m] for m in members)


def test_one_member_has_everything() -> None:
    wanted = balanced({}, ["a"], {"q": 3}, NONE, AT_ONCE)
    assert wanted.targets == {("q", 0): "a", ("q", 1): "a", ("q", 2): "a"}


def test_without_members_nobody_has_anything() -> None:
    assert balanced({("q", 0): "a"}, [], {"q": 1}, NONE, AT_ONCE).targets == {("q", 0): NOBODY}


def test_queries_of_one_task_are_spread() -> None:
    queries = {f"q{number}": 1 for number in range(50)}
    assert counts(balanced({}, ["a", "b"], queries, NONE, AT_ONCE)) == {"a": 25, "b": 25}


def test_a_task_stays_where_it_is() -> None:
    current = {("q", 0): "b", ("q", 1): "a", ("r", 0): "b", ("r", 1): "a"}
    assert balanced(current, ["a", "b"], {"q": 2, "r": 2}, NONE, AT_ONCE).targets == current


def test_a_new_member_gets_its_share_of_each_query() -> None:
    current = {(group, p): "a" for group in "qr" for p in range(4)}
    wanted = balanced(current, ["a", "b"], {"q": 4, "r": 4}, NONE, AT_ONCE)
    assert counts(wanted, "q") == counts(wanted, "r") == {"a": 2, "b": 2}


def test_a_task_with_state_moves_when_its_copy_is_up_to_date() -> None:
    current = {("q", p): "a" for p in range(4)}
    behind = Copies({"q"}, {("q", 3): {"b": 11}, ("q", 2): {"b": 9}})
    wanted = balanced(current, ["a", "b"], {"q": 4}, behind, CAREFUL)
    assert wanted.targets == {**current, ("q", 2): "b"}
    assert wanted.warmups == {("q", 3): "b"}


def test_few_copies_are_brought_up_to_date_at_once() -> None:
    current = {("q", p): "a" for p in range(10)}
    wanted = balanced(current, ["a", "b"], {"q": 10}, Copies({"q"}), CAREFUL)
    assert wanted.targets == current
    assert list(wanted.warmups.values()) == ["b", "b"]


def test_the_tasks_of_a_member_that_is_gone_go_to_their_copies() -> None:
    queries = {f"q{number}": 1 for number in range(6)}
    current = {(group, 0): "gone" for group in queries}
    lags = {(group, 0): {"b": 0} for group in queries}
    wanted = balanced(current, ["a", "b", "c"], queries, Copies(set(queries), lags), CAREFUL)
    assert counts(wanted) == {"b": 6}
    assert set(wanted.warmups.values()) == {"a", "c"}


def test_without_an_up_to_date_copy_the_nearest_one_is_taken() -> None:
    lags = {("q", 0): {"a": 5_000, "b": 200}}
    wanted = balanced({}, ["a", "b", "c"], {"q": 1}, Copies({"q"}, lags), CAREFUL)
    assert wanted.targets == {("q", 0): "b"}


def test_of_two_copies_that_are_up_to_date_the_better_one_takes_over() -> None:
    """Also if the other member has fewer tasks."""
    current = {("q", 0): "gone", ("q", 1): "b"}
    copies = Copies({"q"}, {("q", 0): {"a": 3, "b": 2}})
    wanted = balanced(current, ["a", "b"], {"q": 2}, copies, Limits(acceptable_lag=2))
    assert wanted.targets == {("q", 0): "b", ("q", 1): "b"}
    assert wanted.warmups == {("q", 0): "a"}


def test_where_it_is_not_known_which_queries_have_state_no_task_leaves_its_member() -> None:
    current = {("q", p): "a" for p in range(4)} | {("r", 0): "gone"}
    wanted = balanced(current, ["a", "b"], {"q": 4, "r": 1}, Copies(None), CAREFUL)
    assert wanted.targets == {**current, ("r", 0): "b"}


def test_of_several_copies_that_are_up_to_date_the_best_one_moves() -> None:
    """So a task that is taken over stays where its copy is complete."""
    current = {("q", 0): "a", ("q", 1): "a", ("q", 2): "a", ("q", 3): "gone"}
    lags = {("q", 0): {"b": 0}, ("q", 1): {"b": 2}, ("q", 3): {"a": 0, "b": 3}}
    wanted = balanced(current, ["a", "b"], {"q": 4}, Copies({"q"}, lags), CAREFUL)
    assert wanted.targets == {("q", 0): "b", ("q", 1): "b", ("q", 2): "a", ("q", 3): "a"}


def test_a_task_without_state_yet_moves_at_once() -> None:
    current = {("q", p): "a" for p in range(4)}
    copies = Copies({"q"}, empty={("q", 2)})
    wanted = balanced(current, ["a", "b"], {"q": 4}, copies, CAREFUL)
    assert wanted.targets == {**current, ("q", 2): "b"}
    assert wanted.warmups == {("q", 3): "b"}


def test_a_query_goes_to_members_that_run_it() -> None:
    current = {("q", 0): "a", ("q", 1): NOBODY, ("r", 0): "a", ("r", 1): NOBODY, ("s", 0): "a"}
    joined = {"q": ["b"], "r": ["a", "b"]}
    wanted = balance.balanced(current, joined, NONE, AT_ONCE)
    assert wanted.targets == {
        ("q", 0): "b",
        ("q", 1): "b",
        ("r", 0): "a",
        ("r", 1): "b",
        ("s", 0): NOBODY,
    }


_MEMBERS = st.lists(st.sampled_from("abcdef"), unique=True, min_size=1)
_QUERIES = st.dictionaries(st.sampled_from("pqrstu"), st.integers(1, 7))
_CURRENT = st.dictionaries(
    st.tuples(st.sampled_from("pqrstux"), st.integers(0, 9)), st.sampled_from("abcdefgh")
)


@given(_CURRENT, _MEMBERS, _QUERIES)
def test_members_are_equal_in_each_query_and_in_all(
    current: dict[Task, str], members: list[str], queries: dict[str, int]
) -> None:
    wanted = balanced(current, members, queries, NONE, AT_ONCE)
    tasks = {(group, p) for group, count in queries.items() for p in range(count)}
    assert wanted.targets.keys() == tasks
    assert set(wanted.targets.values()) <= set(members)
    for group in queries:
        own = {task: m for task, m in wanted.targets.items() if task[0] == group}
        assert unequal(own, members) <= 1
    assert unequal(wanted.targets, members) <= 1


@given(_CURRENT, _MEMBERS, _QUERIES)
def test_what_is_balanced_does_not_move(
    current: dict[Task, str], members: list[str], queries: dict[str, int]
) -> None:
    once = balanced(current, members, queries, NONE, AT_ONCE).targets
    assert balanced(once, members, queries, NONE, AT_ONCE).targets == once


@given(
    _CURRENT,
    _MEMBERS,
    _QUERIES,
    st.dictionaries(
        st.tuples(st.sampled_from("pqrstu"), st.integers(0, 6)),
        st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 20)),
    ),
)
def test_copies_that_catch_up_lead_to_balance(
    current: dict[Task, str],
    members: list[str],
    queries: dict[str, int],
    lags: dict[Task, dict[str, int]],
) -> None:
    """Each round, the copies that were asked for are up to date, and no task with state moves to a
    member whose copy is not, unless nobody had it."""
    held = {task: dict(of) for task, of in lags.items()}
    now = dict(current)
    for _ in range(60):
        wanted = balanced(now, members, queries, Copies(set(queries), held), CAREFUL)
        for task, member in wanted.targets.items():
            before = now.get(task)
            if member != before and before in members:
                assert held.get(task, {}).get(member, 99) <= CAREFUL.acceptable_lag
        assert len(wanted.warmups) <= CAREFUL.warmups
        for task, member in wanted.warmups.items():
            held.setdefault(task, {})[member] = 0
        for task, member in wanted.targets.items():
            held.setdefault(task, {})[member] = 0
        if wanted.targets == now and not wanted.warmups:
            break
        now = dict(wanted.targets)
    assert not wanted.warmups
    assert unequal(wanted.targets, members) <= 1
