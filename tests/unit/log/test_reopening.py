"""A writer that is replaced when it is of no use any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from millstream.log.log import Appended, Topic, Writer
from millstream.log.reopening import ReopeningWriter
from millstream.log.simulated import Fault, SimulatedLog
from millstream.model.errors import FencedError, UnavailableError
from tests.simulation.world import ROWS


class Host:
    """A log whose next write can be made to fail, and its writer."""

    def __init__(self, *, own: bool) -> None:
        self.faults: dict[str, Fault] = {}
        self.log = SimulatedLog(ROWS, fault=lambda name: self.faults.pop(name, Fault.NONE))
        self.log.create_topic(Topic("t", 1))
        self.opened = 0
        self.writer = ReopeningWriter(self._open, own=own)

    def _open(self) -> Writer[Any]:
        self.opened += 1
        return self.log.writer("me")

    def append(self, *numbers: int) -> None:
        self.writer.append([Appended("t", 0, tuple((n, n) for n in numbers), len(numbers))])

    def rows(self) -> Sequence[Any]:
        found: Sequence[Any] = self.log.read("t", 0, 0, 100).batch
        return found


def test_it_is_opened_once() -> None:
    host = Host(own=False)
    host.writer.open()
    host.append(1)
    host.append(2, 3)
    host.writer.close()
    assert (host.opened, len(host.rows())) == (1, 3)


def test_after_a_failure_the_next_append_opens_another() -> None:
    host = Host(own=False)
    host.append(1)
    host.faults["append"] = Fault.REQUEST_LOST
    with pytest.raises(UnavailableError):
        host.append(2)
    host.append(3)
    assert (host.opened, len(host.rows())) == (2, 2)


def test_an_identity_taken_by_another_writer_is_lost() -> None:
    host = Host(own=False)
    host.append(1)
    host.log.writer("me")
    with pytest.raises(FencedError):
        host.append(2)
    with pytest.raises(FencedError):
        host.append(3)
    assert (host.opened, len(host.rows())) == (1, 1)


def test_an_identity_of_its_own_is_taken_back() -> None:
    host = Host(own=True)
    host.append(1)
    host.log.writer("me").close()
    host.append(2)
    assert (host.opened, len(host.rows())) == (2, 2)
