"""A pipeline has all tasks of a query or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from millstream.log.log import Appended, Assignment, Member, Outcome, Writer
from millstream.model.batch import raw_batch
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.pipeline import tasks as tasks_module
from millstream.pipeline.coordinator import yield_to_others
from millstream.pipeline.tasks import ExclusiveAssignment

ALL = frozenset({0, 1, 2})
COMMITTED, ABORTED, UNKNOWN = Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNKNOWN


class Group:
    """The log, the only member of a group, and its writers, in one object."""

    def __init__(self, *claims: Assignment) -> None:
        self.claims = list(claims)
        self.vacancy = True
        self.peers = False
        self.outcomes: list[Outcome] = []
        self.said: list[str] = []
        self.sizes: list[int] = []
        self.on_transact: Callable[[], None] = lambda: None

    def vacant(self, _group: str) -> bool:
        return self.vacancy

    def join(self, _group: str, _partitions: int) -> Member[Any]:
        self.said.append("join")
        return Membership(self)


class Membership:
    def __init__(self, group: Group) -> None:
        self.group = group

    def assignment(self) -> Assignment:
        claims = self.group.claims
        return claims.pop(0) if len(claims) > 1 else claims[0]

    def settled(self, epoch: int) -> None:
        """Nobody waits."""

    def peers(self) -> bool:
        return self.group.peers

    def writer(self, epoch: int, *, size: int = 0) -> Writer[Any]:
        self.group.said.append(f"open {epoch}")
        self.group.sizes.append(size)
        return Writing(self.group)

    def close(self) -> None:
        self.group.said.append("leave")


class Writing:
    def __init__(self, group: Group) -> None:
        self.group = group

    def append(self, appended: Sequence[Any]) -> None:
        raise AssertionError

    def transact(self, group: str, appended: Collection[Any], positions: object) -> Outcome:
        self.group.on_transact()
        return self.group.outcomes.pop(0)

    def close(self) -> None:
        self.group.said.append("close")


def epoch(tasks: ExclusiveAssignment, group: Group, *records: Appended[Any]) -> None:
    with tasks.held(lambda: group.said.append("taken")):
        tasks.commit(records, {})


def tasks_of(group: Group) -> ExclusiveAssignment:
    return ExclusiveAssignment(group, "Q", 3)  # type: ignore[arg-type]


def test_it_stays_from_epoch_to_epoch() -> None:
    group = Group(Assignment(0, frozenset()), Assignment(1, ALL))
    tasks = tasks_of(group)
    tasks.join()
    group.outcomes = [COMMITTED, COMMITTED]
    epoch(tasks, group)
    epoch(tasks, group)
    assert group.said == ["join", "open 1", "taken"]
    tasks.yield_tasks(force=False)
    tasks.close()
    tasks.close()
    assert group.said[3:] == ["close", "leave"]


def test_a_query_that_others_have_is_left_to_them() -> None:
    group = Group(Assignment(1, ALL))
    group.vacancy = False
    with pytest.raises(UnavailableError) as caught:
        epoch(tasks_of(group), group)
    assert caught.value.code == "E-PIPELINE-BUSY"
    assert not group.said


def test_part_of_the_tasks_is_given_back() -> None:
    group = Group(Assignment(1, frozenset({0, 2})))
    with pytest.raises(UnavailableError):
        epoch(tasks_of(group), group)
    assert group.said == ["join", "leave"]


def test_tasks_without_an_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_module, "ASSIGNMENT_SECONDS", 0.0)
    group = Group(Assignment(0, frozenset()))
    with pytest.raises(UnavailableError):
        epoch(tasks_of(group), group)
    assert group.said == ["join", "leave"]


@pytest.mark.parametrize("lost", [0, 2])
def test_others_come_while_an_epoch_runs(lost: int) -> None:
    """It is committed unless the tasks were lost, and then they are theirs."""
    group = Group(Assignment(1, ALL))
    tasks = tasks_of(group)
    group.outcomes = [ABORTED, COMMITTED]

    def come() -> None:
        group.claims = [Assignment(2, frozenset({0}), lost=lost)]
        tasks.yield_tasks(force=True)

    group.on_transact = come
    if lost:
        with pytest.raises(UnavailableError, match="was not committed"):
            epoch(tasks, group)
    else:
        epoch(tasks, group)
    assert len(group.outcomes) == (1 if lost else 0)
    assert group.said == ["join", "open 1", "taken", "close", "leave"]


def test_an_assignment_that_was_lost_and_came_back_is_another_one() -> None:
    group = Group(Assignment(1, ALL))
    tasks = tasks_of(group)
    group.outcomes = [COMMITTED, COMMITTED]
    epoch(tasks, group)
    group.claims = [Assignment(3, ALL, lost=2)]
    epoch(tasks, group)
    assert group.said == ["join", "open 1", "taken", "close", "open 3", "taken"]


def test_an_unknown_outcome_opens_a_new_writer() -> None:
    group = Group(Assignment(1, ALL))
    tasks = tasks_of(group)
    group.outcomes = [UNKNOWN, COMMITTED]
    with pytest.raises(UnavailableError) as caught:
        epoch(tasks, group)
    assert caught.value.code == "E-TXN"
    epoch(tasks, group)
    assert group.said == ["join", "open 1", "taken", "close", "open 1", "taken"]


def test_a_writer_that_fails_is_closed() -> None:
    group = Group(Assignment(1, ALL))
    tasks = tasks_of(group)

    def fail() -> None:
        raise MillstreamError("no")

    group.on_transact = fail
    with pytest.raises(MillstreamError, match="no"):
        epoch(tasks, group)
    assert group.said[-1] == "close"


def test_large_transactions_are_announced() -> None:
    group = Group(Assignment(1, ALL))
    tasks = tasks_of(group)
    group.outcomes = [COMMITTED]
    many = Appended("t", 0, raw_batch([(None, b"v", 0)]), 1, bytes=10**8)
    epoch(tasks, group, many)
    assert group.sizes == [0, 10**8]
    assert group.said == ["join", "open 1", "taken", "close", "open 1", "close"]


def test_it_leaves_after_an_epoch_although_it_has_kept_all() -> None:
    """Others have got tasks of another query."""
    group = Group(Assignment(1, ALL))
    tasks = tasks_of(group)
    group.outcomes = [COMMITTED, COMMITTED]
    group.on_transact = lambda: tasks.yield_tasks(force=True)
    epoch(tasks, group)
    assert group.said == ["join", "open 1", "taken", "close", "leave"]
    group.on_transact = lambda: tasks.yield_tasks(force=False)
    epoch(tasks, group)
    assert group.said[5:] == ["join", "open 1", "taken"]


@pytest.mark.parametrize(
    ("assignment", "shared"),
    [
        (Assignment(0, frozenset()), False),
        (Assignment(1, ALL), False),
        (Assignment(2, frozenset({1})), True),
        (Assignment(2, frozenset()), True),
    ],
)
def test_others_have_got_tasks(assignment: Assignment, shared: bool) -> None:
    tasks = tasks_of(Group(assignment))
    assert not tasks.shared
    tasks.join()
    assert tasks.shared == shared


def test_others_that_have_none_of_its_tasks_may_want_them() -> None:
    """They have as many tasks of other queries."""
    group = Group(Assignment(1, ALL))
    tasks = tasks_of(group)
    tasks.join()
    group.peers = True
    assert tasks.shared
    tasks.yield_tasks(force=False)
    assert group.said == ["join", "leave"]
    assert not tasks.shared


class Query:
    """A query of a pipeline."""

    def __init__(self, *, shared: bool) -> None:
        self.shared = shared
        self.forced: list[bool] = []

    def yield_tasks(self, *, force: bool) -> None:
        self.shared = False
        self.forced.append(force)


def test_an_instance_that_has_tasks_of_one_query_gets_all_queries() -> None:
    """They are balanced over all queries: it may have got none of another one."""
    queries = [Query(shared=False), Query(shared=True), Query(shared=False)]
    for _ in range(2):
        yield_to_others(queries)  # type: ignore[arg-type]
    assert [query.forced for query in queries] == [[True, False]] * 3
