"""Following changelogs: for starting tasks and standbys, and the ownership of tasks."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from millstream.log.log import Appended, Fetched, Topic
from millstream.log.simulated import Fault, SimulatedLog
from millstream.model.errors import ConflictError
from millstream.runtime.ports import NoRestorer
from millstream.runtime.restoration import FollowSpec, Restoration, Role
from millstream.runtime.task_ownership import OwnershipError, TaskOwnership
from tests.simulation.pure import Disk, PureExecutor
from tests.simulation.world import ROWS
from tests.unit.runtime.queries import COUNT, SETTINGS

SMALL = replace(SETTINGS, restore_records=5, restore_tolerance=2)

LONG = 500
"""More ms than the next attempt after a failure is away, less than state is kept."""
KEPT = 100_000


def these(*partitions: int) -> frozenset[int]:
    return frozenset(partitions)


class Host:
    """A log with changelogs, a disk for each of them, and a restoration."""

    def __init__(self, partitions: int = 1, settings: Any = SMALL, queries: str = "Q") -> None:
        self.faults: dict[str, Fault] = {}
        self.log = SimulatedLog(ROWS, fault=lambda name: self.faults.get(name, Fault.NONE))
        self.partitions = partitions
        self.disks = {query: Disk() for query in queries}
        self.writer = self.log.writer("owner")
        self.told: list[str] = []
        self.restoration: Restoration[Any] = Restoration(
            self.log, settings, on_ready=self.told.append
        )
        for query in queries:
            self.log.create_topic(Topic(query, partitions))
            self.restoration.add_query(query, (self.spec(query),))
        self.now = 0

    def spec(self, query: str) -> FollowSpec[Any]:
        job = replace(COUNT, changelog=query)
        executor = PureExecutor(job, self.partitions, self.disks[query], Random(1), 0.0)
        return FollowSpec(0, executor, query, self.partitions)

    def change(self, *rows: tuple[int, int], query: str = "Q", partition: int = 0) -> None:
        self.writer.append([Appended(query, partition, rows, len(rows))])

    def changes(self, count: int, query: str = "Q", partition: int = 0) -> None:
        self.change(*((n % 4, n) for n in range(count)), query=query, partition=partition)

    def rest(self) -> None:
        for _ in range(300):
            step = self.restoration.step(self.now)
            waits = step.wake_at is None or not 5 < step.wake_at - self.now < LONG
            if not step.progress and waits:
                return
            self.now += 1 if step.progress else 20
        raise AssertionError("does not come to rest")

    def state(self, query: str = "Q", partition: int = 0) -> tuple[int, dict[int, int]]:
        return self.disks[query].saved.get(partition, (0, {}))


def test_what_is_asked_for_is_granted_once_its_state_is_replayed() -> None:
    host = Host(partitions=2)
    host.changes(12, partition=1)
    assert host.restoration.prepare("Q", these(1)) == these()
    host.rest()
    assert host.told == ["Q"]
    assert host.state(partition=1) == (10, {0: 8, 1: 9, 2: 6, 3: 7})
    assert host.restoration.prepare("Q", these(1)) == these(1)
    assert host.restoration.prepare("Q", these(0, 1)) == these(1)
    host.rest()
    assert host.restoration.prepare("Q", these(0, 1)) == these(0, 1)


def test_what_needs_no_replaying_is_granted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each grant makes the query open all of its tasks again."""
    host = Host(partitions=4)
    host.changes(12, partition=3)
    asked: list[int] = []
    ends = host.log.written_ends

    def counted(topic_partitions: Any) -> Any:
        asked.append(len(topic_partitions))
        return ends(topic_partitions)

    monkeypatch.setattr(host.log, "written_ends", counted)
    assert host.restoration.prepare("Q", these(0, 1, 2, 3)) == these()
    host.restoration.step(host.now)
    assert host.told == ["Q"]
    assert host.restoration.prepare("Q", these(0, 1, 2, 3)) == these(0, 1, 2)
    assert asked == [4], "one request for all ends"
    host.rest()
    assert host.restoration.prepare("Q", these(0, 1, 2, 3)) == these(0, 1, 2, 3)


def test_a_task_is_granted_within_the_tolerance_and_not_touched_any_more() -> None:
    host = Host()
    host.changes(12)
    host.restoration.prepare("Q", these(0))
    while not host.told:
        host.restoration.step(host.now)
    assert host.state()[0] == 10
    host.rest()
    assert host.state()[0] == 10
    assert host.restoration.prepare("Q", these(0)) == these(0)


def test_no_state_is_no_reason_to_wait() -> None:
    host = Host()
    assert host.restoration.prepare("unknown", these(0, 3)) == these(0, 3)
    assert host.restoration.prepare("Q", these(0, 3)) == these(3)
    assert NoRestorer().prepare("Q", these(0, 3)) == these(0, 3)


def test_a_standby_follows_for_ever_and_is_granted_when_it_is_wanted() -> None:
    host = Host()
    host.restoration.standby("Q", these(0))
    host.changes(3)
    host.rest()
    assert host.state()[0] == 3
    host.change((9, 9))
    host.rest()
    assert host.state() == (4, {0: 0, 1: 1, 2: 2, 9: 9})
    assert host.restoration.ready("Q") == these(0)
    host.changes(30)
    assert host.restoration.prepare("Q", these(0)) == these()
    host.rest()
    assert host.restoration.prepare("Q", these(0)) == these(0)
    assert host.state()[0] >= 32


def test_a_standby_that_is_processed_here_is_followed_again_when_it_is_given_back() -> None:
    host = Host()
    host.restoration.standby("Q", these(0))
    host.restoration.prepare("Q", these(0))
    host.rest()
    assert host.restoration.prepare("Q", these(0)) == these(0)
    host.changes(4)
    host.rest()
    assert host.state()[0] == 0
    # The side that processes it has stored its changes.
    host.disks["Q"].saved[0] = (4, {0: 0, 1: 1, 2: 2, 3: 3})
    assert host.restoration.prepare("Q", these()) == these()
    host.change((7, 7))
    host.rest()
    assert host.state() == (5, {0: 0, 1: 1, 2: 2, 3: 3, 7: 7})


def test_the_state_of_what_is_left_for_long_is_cleared() -> None:
    host = Host(partitions=3, settings=replace(SMALL, state_kept_ms=KEPT))
    for partition in range(3):
        host.changes(8, partition=partition)
    host.restoration.standby("Q", these(0, 1, 2))
    host.rest()
    host.restoration.standby("Q", these(1))
    host.restoration.prepare("Q", these(2))
    host.rest()
    host.restoration.prepare("Q", these(2))
    left = host.now
    host.now = left + KEPT - LONG
    host.rest()
    assert host.state(partition=0)[0] == 8
    host.now = left + KEPT
    host.rest()
    assert [host.state(partition=p)[0] for p in range(3)] == [0, 8, 8]
    host.now += 5 * KEPT
    host.rest()
    host.restoration.standby("Q", these(0, 1))
    host.rest()
    assert host.state(partition=0) == host.state(partition=1)


def test_how_far_unused_state_is_can_be_asked() -> None:
    host = Host(partitions=3, settings=replace(SMALL, state_kept_ms=KEPT))
    for partition in range(3):
        host.changes(8, partition=partition)
    host.restoration.standby("Q", these(0, 1))
    host.rest()
    assert host.restoration.left("Q") == {}
    assert host.restoration.left("R") == {}
    host.rest()
    assert host.restoration.left("Q") == {}
    host.restoration.standby("Q", these(1))
    host.rest()
    assert host.restoration.left("Q") == {0: 8}
    host.changes(8)
    host.restoration.prepare("Q", these(0))
    host.rest()
    host.restoration.prepare("Q", these(0))
    host.rest()
    assert host.restoration.left("Q") == {}
    host.restoration.prepare("Q", these())
    host.rest()
    assert host.restoration.left("Q") == {0: 16}
    host.now += KEPT
    host.rest()
    assert host.restoration.left("Q") == {}


def test_what_is_wanted_again_in_time_is_kept() -> None:
    host = Host(settings=replace(SMALL, state_kept_ms=KEPT))
    host.changes(8)
    for _ in range(3):
        host.restoration.standby("Q", these(0))
        host.rest()
        host.restoration.standby("Q", these())
        host.now += KEPT - LONG
        host.rest()
    assert host.state()[0] == 8
    assert host.log.start_offset("Q", 0) == 0


def test_what_is_wanted_while_it_is_cleared_is_granted_empty() -> None:
    host = Host(settings=replace(SMALL, state_kept_ms=KEPT))
    host.changes(8)
    host.restoration.standby("Q", these(0))
    host.rest()
    host.restoration.standby("Q", these())
    host.rest()
    asked: list[frozenset[int]] = []
    (spec,) = host.restoration._queries["Q"].specs
    clear = spec.replica.clear

    def asking(partition: int, position: int) -> None:
        asked.append(host.restoration.prepare("Q", these(0)))
        clear(partition, position)

    vars(spec.replica)["clear"] = asking
    host.now += KEPT
    host.restoration.step(host.now)
    assert asked == [these()]
    assert host.state()[0] == 0
    host.rest()
    assert host.restoration.prepare("Q", these(0)) == these(0)
    assert host.state()[0] >= 6


def test_what_is_no_longer_wanted_is_dropped() -> None:
    host = Host()
    host.changes(20)
    host.restoration.prepare("Q", these(0))
    host.restoration.step(0)
    host.restoration.step(0)
    assert host.restoration.prepare("Q", these()) == these()
    host.rest()
    assert 0 < host.state()[0] < 20
    assert host.restoration.progress(0) == ()
    assert host.told == []


def test_starting_tasks_come_before_standbys_and_the_furthest_behind_first() -> None:
    host = Host(partitions=3)
    for partition, count in ((0, 20), (1, 12), (2, 40)):
        host.changes(count, partition=partition)
    host.restoration.standby("Q", these(2))
    host.restoration.prepare("Q", these(0, 1))
    while host.state(partition=0)[0] < 10:
        host.restoration.step(0)
    assert host.state(partition=1)[0] == 0
    while len(host.told) < 2:
        host.restoration.step(0)
    assert host.state(partition=2)[0] == 0
    host.rest()
    assert host.state(partition=2)[0] == 40


def test_a_step_replays_no_more_than_its_bound() -> None:
    host = Host()
    host.changes(50)
    host.restoration.standby("Q", these(0))
    before = 0
    while before < 50:
        host.restoration.step(0)
        assert host.state()[0] - before <= 5
        before = host.state()[0]


def test_a_changelog_that_was_truncated_behind_a_snapshot_is_followed_from_its_start() -> None:
    host = Host()
    host.restoration.standby("Q", these(0))
    host.change((1, 1), (2, 2))
    host.rest()
    host.change((1, 5), (3, 3), (4, 4))
    host.log.truncate("Q", 0, 3)
    host.rest()
    assert host.state() == (5, {3: 3, 4: 4})


def test_a_state_that_is_ahead_of_its_changelog_fails_alone_and_is_handed_on_as_it_is() -> None:
    host = Host(queries="QR")
    host.disks["Q"].saved[0] = (7, {})
    host.changes(3, query="R")
    host.restoration.standby("Q", these(0))
    host.restoration.standby("R", these(0))
    host.rest()
    assert "is at 7 of changelog Q, which ends at 0" in host.restoration.retry_errors()["Q"]
    assert host.state("R")[0] == 3
    assert host.restoration.prepare("Q", these(0)) == these(0)


def test_a_failure_hands_on_what_was_waiting() -> None:
    host = Host()
    host.disks["Q"].saved[0] = (7, {})
    assert host.restoration.prepare("Q", these(0)) == these()
    host.rest()
    assert host.told == ["Q"]
    assert host.restoration.prepare("Q", these(0)) == these(0)


def test_a_log_that_does_not_answer_is_asked_again_later() -> None:
    host = Host()
    host.changes(8)
    host.restoration.standby("Q", these(0))
    host.faults["read"] = Fault.REQUEST_LOST
    for _ in range(3):
        host.restoration.step(host.now)
    assert "not answered" in host.restoration.retry_errors()["Q"]
    step = host.restoration.step(host.now)
    assert (step.progress, step.wake_at) == (False, host.now + SMALL.backoff_ms)
    host.faults.clear()
    host.now += SMALL.backoff_ms
    host.rest()
    assert host.state()[0] == 8
    assert host.restoration.retry_errors() == {}


def test_progress_has_amounts_and_times() -> None:
    host = Host(partitions=2)
    host.changes(25)
    host.changes(10, partition=1)
    host.restoration.standby("Q", these(1))
    host.restoration.prepare("Q", these(0))
    for _ in range(4):
        host.restoration.step(0)
    (first, second) = sorted(host.restoration.progress(1000), key=lambda one: one.task)
    assert (first.role, first.position, first.target) == (Role.STARTING, 10, 25)
    assert (first.lag, first.rate) == (15, 10.0)
    assert (second.role, second.lag) == (Role.STANDBY, 10)
    assert host.restoration.progress(1000, "Q") == host.restoration.progress(1000)
    assert host.restoration.progress(1000, "another") == ()
    host.rest()
    host.changes(30, partition=1)
    host.now += SMALL.lag_interval_ms
    host.restoration.step(host.now)
    (second,) = host.restoration.progress(host.now)
    assert (second.position, second.target) == (15, 40)


def test_a_query_can_be_added_once_and_removed_at_any_time() -> None:
    host = Host()
    with pytest.raises(ConflictError):
        host.restoration.add_query("Q", ())
    host.changes(20)
    host.restoration.prepare("Q", these(0))
    host.restoration.step(0)
    host.restoration.remove_query("Q")
    assert host.restoration.step(0).wake_at is None
    assert host.restoration.prepare("Q", these(0)) == these(0)
    host.restoration.close()


def test_records_on_their_way_are_awaited() -> None:
    class Slow:
        def begin(self, *, together: bool = True) -> None:
            pass

        def read(self, topic: str, partition: int, offset: int, _limit: int) -> Fetched[Any]:
            return Fetched(topic, partition, (), 0, offset, False, awaited=True)

        def close(self) -> None:
            pass

    host = Host()
    host.log.reader = lambda *, alone: Slow()  # type: ignore[method-assign, assignment]
    host.changes(3)
    host.restoration.prepare("Q", these(0))
    assert host.restoration.step(0).progress
    step = host.restoration.step(0)
    assert (step.progress, step.awaiting) == (False, True)
    assert host.restoration.prepare("Q", these(0)) == these()


def test_task_ownership_refuses_two_owners_of_one_task() -> None:
    ownership = TaskOwnership().taken(these(0)).followed(these(1))
    with pytest.raises(OwnershipError):
        ownership.followed(these(0, 2))
    with pytest.raises(OwnershipError):
        ownership.taken(these(1))
    assert ownership.stopped(these(1)).taken(these(1)).given(these(0)) == TaskOwnership(
        these(1), these()
    )
