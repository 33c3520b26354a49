"""Positions of a query that commits nothing are committed again, before brokers delete them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from millstream.log.log import Appended, Assignment, Lag, Outcome, TopicPartition
from millstream.model.errors import UnavailableError
from millstream.runtime.assigned_tasks import KEEP_POSITIONS_MS, AssignedTasks
from millstream.runtime.ports import NoRestorer
from tests.unit.runtime.queries import EXACTLY

HERE = {("in", 0): 7}


@dataclass
class Spy:
    """A log, a member and a writer at once; `outcome` may raise."""

    at: Assignment = field(default_factory=lambda: Assignment(1, frozenset({0})))
    outcome: Callable[[], Outcome] = lambda: Outcome.COMMITTED
    committed: list[Mapping[TopicPartition, int]] = field(default_factory=list)
    open_writers: int = 0

    def join(self, group: str, tasks: int) -> Spy:
        return self

    def assignment(self) -> Assignment:
        return self.at

    def settled(self, epoch: int) -> None:
        """Nobody waits."""

    def lag(self, places: object) -> Lag | None:
        return None

    def writer(self, epoch: int, *, size: int = 0) -> Spy:
        assert epoch == self.at.epoch
        self.open_writers += 1
        return self

    def transact(
        self,
        group: str,
        appended: Sequence[Appended[Any]],
        positions: Mapping[TopicPartition, int],
    ) -> Outcome:
        assert not appended
        self.committed.append(positions)
        return self.outcome()

    def close(self) -> None:
        self.open_writers -= 1


@dataclass
class Spec:
    query_id: str = "q"
    group: str = "q"
    transient: bool = False
    executors: tuple[()] = ()
    guarantee: object = EXACTLY


@pytest.fixture
def spy() -> Spy:
    return Spy()


@pytest.fixture
def holding(spy: Spy) -> AssignedTasks[Any]:
    made: AssignedTasks[Any] = AssignedTasks(Spec(), spy, NoRestorer())  # type: ignore[arg-type]
    follow(made)
    return made


def follow(holding: AssignedTasks[Any]) -> None:
    change = holding.change()
    assert change is not None
    holding.settle(change)


def test_old_positions_are_committed_again(spy: Spy, holding: AssignedTasks[Any]) -> None:
    for now in (0, 1, KEEP_POSITIONS_MS - 1):
        holding.keep_positions(HERE, now)
    assert spy.committed == []
    holding.keep_positions(HERE, KEEP_POSITIONS_MS)
    holding.keep_positions(HERE, KEEP_POSITIONS_MS + 1)
    assert spy.committed == [HERE]
    holding.keep_positions(HERE, 2 * KEEP_POSITIONS_MS)
    assert spy.committed == [HERE, HERE]
    assert spy.open_writers == 0


def test_a_commit_makes_them_new(spy: Spy, holding: AssignedTasks[Any]) -> None:
    holding.keep_positions(HERE, 0)
    holding.keep_positions(dict(HERE), KEEP_POSITIONS_MS)
    assert spy.committed == []


def test_positions_of_an_earlier_assignment_are_left_alone(
    spy: Spy, holding: AssignedTasks[Any]
) -> None:
    """Another instance may have moved them on: a query that has failed is not opened again."""
    holding.keep_positions(HERE, 0)
    spy.at = Assignment(2, frozenset())
    follow(holding)
    holding.keep_positions(HERE, KEEP_POSITIONS_MS)
    assert spy.committed == []


@pytest.mark.parametrize("fault", [Outcome.ABORTED, UnavailableError("away")])
def test_a_failure_is_tried_again_and_harms_nothing(
    spy: Spy, holding: AssignedTasks[Any], fault: Outcome | Exception
) -> None:
    def fail() -> Outcome:
        if isinstance(fault, Exception):
            raise fault
        return fault

    spy.outcome = fail
    holding.keep_positions(HERE, 0)
    holding.keep_positions(HERE, KEEP_POSITIONS_MS)
    holding.keep_positions(HERE, KEEP_POSITIONS_MS + 1)
    assert spy.committed == [HERE]
    spy.outcome = lambda: Outcome.COMMITTED
    holding.keep_positions(HERE, KEEP_POSITIONS_MS + 60_000)
    holding.keep_positions(HERE, KEEP_POSITIONS_MS + 120_000)
    assert spy.committed == [HERE, HERE]
    assert spy.open_writers == 0


def test_where_one_process_has_the_log_nothing_is_committed() -> None:
    class Sole(Spy):
        def join(self, group: str, tasks: int) -> Any:
            from millstream.log.membership import SoleMember

            return SoleMember(self, group, 1)  # type: ignore[type-var]

    spy = Sole()
    holding: AssignedTasks[Any] = AssignedTasks(Spec(), spy, NoRestorer())  # type: ignore[arg-type]
    follow(holding)
    holding.keep_positions(HERE, 0)
    holding.keep_positions(HERE, KEEP_POSITIONS_MS)
    assert spy.committed == []
