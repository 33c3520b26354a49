"""The simulated log's faults: what is lost, what is in doubt, what a crash leaves."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from millstream.log.batches import LISTS
from millstream.log.log import Appended, Outcome, Topic
from millstream.log.simulated import Fault, SeededFaults, SimulatedCrash, SimulatedLog
from millstream.model.errors import FencedError, UnavailableError


def log_with(
    fault: Callable[[str], Fault] = lambda _: Fault.NONE,
    effect: Callable[[str], None] = lambda _: None,
    markers: bool = False,
) -> SimulatedLog[list[int]]:
    log = SimulatedLog(LISTS, fault=fault, effect=effect, markers=markers)
    log.create_topic(Topic("t", 1))
    return log


def once(at: str, fault: Fault) -> Callable[[str], Fault]:
    left = [at]

    def decide(name: str) -> Fault:
        if left and left[0] == name:
            left.pop()
            return fault
        return Fault.NONE

    return decide


def some(*numbers: int) -> list[Appended[list[int]]]:
    return [Appended("t", 0, list(numbers), len(numbers))]


def test_a_lost_commit_request_is_settled_by_the_next_writer() -> None:
    log = log_with(once("transact.commit", Fault.REQUEST_LOST))
    writer, other = log.writer("w"), log.writer("other")
    assert writer.transact("g", some(1), {("t", 0): 1}) is Outcome.UNKNOWN
    other.append(some(2))
    assert log.end_offset("t", 0) == 0
    assert log.read("t", 0, 0, 9).end
    with pytest.raises(UnavailableError):
        log.positions("g")
    log.writer("w")
    assert log.positions("g") == {}
    fetched = log.read("t", 0, 0, 9)
    assert (fetched.batch, fetched.next_offset) == ([2], 2)
    with pytest.raises(FencedError):
        writer.transact("g", some(3), {})


def test_a_lost_commit_response_was_carried_out() -> None:
    log = log_with(once("transact.commit", Fault.RESPONSE_LOST))
    assert log.writer("w").transact("g", some(1), {("t", 0): 1}) is Outcome.UNKNOWN
    assert log.positions("g") == {("t", 0): 1}
    assert log.read("t", 0, 0, 9).batch == [1]


@pytest.mark.parametrize(("fault", "kept"), [(Fault.REQUEST_LOST, []), (Fault.RESPONSE_LOST, [1])])
def test_an_append_without_an_answer(fault: Fault, kept: list[int]) -> None:
    log = log_with(once("append", fault))
    with pytest.raises(UnavailableError):
        log.writer("w").append(some(1))
    assert log.read("t", 0, 0, 9).batch == kept


@pytest.mark.parametrize(
    ("site", "kept"), [("transact", 0), ("transact.write", 0), ("transact.commit", 1)]
)
def test_a_crash_leaves_all_or_nothing(site: str, kept: int) -> None:
    armed: list[str] = []

    def effect(name: str) -> None:
        if name in armed:
            raise SimulatedCrash(name)

    log = log_with(effect=effect)
    writer = log.writer("w")
    armed.append(site)
    with pytest.raises(SimulatedCrash):
        writer.transact("g", some(1), {("t", 0): 1})
    armed.clear()
    log.writer("w")
    assert len(log.read("t", 0, 0, 9).batch) == len(log.positions("g")) == kept


def test_markers_and_aborted_records_leave_gaps() -> None:
    log = log_with(once("transact.commit", Fault.REQUEST_LOST), markers=True)
    log.writer("w").transact("g", some(1, 2), {})
    writer = log.writer("w")
    writer.transact("g", some(3), {})
    fetched = log.read("t", 0, 0, 9)
    assert (fetched.batch, fetched.next_offset, fetched.end) == ([3], 5, True)
    assert log.read("t", 0, 0, 0).batch == []


def test_the_same_seed_gives_the_same_faults() -> None:
    def outcomes(seed: int) -> list[Outcome]:
        faults = SeededFaults(random.Random(seed), 0.2, 0.2, calm=True)
        log = log_with(faults)
        faults.calm = False
        found = []
        for number in range(50):
            faults.calm = True
            writer = log.writer("w")
            faults.calm = False
            found.append(writer.transact("g", some(number), {("t", 0): number}))
        return found

    assert outcomes(1) == outcomes(1) != outcomes(2)
    assert set(outcomes(1)) == set(Outcome)
