"""The writers of a simulated log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from millstream.log.checks import check_epoch, closed
from millstream.log.log import Appended, Batch, Outcome, TopicPartition
from millstream.model.errors import UnavailableError


@dataclass(frozen=True, slots=True)
class Part(Generic[Batch]):
    """What one writer commits."""

    identity: str
    epoch: int
    group: str
    appended: Sequence[Appended[Batch]]
    positions: Mapping[TopicPartition, int]


class WrittenLog(Protocol[Batch]):
    """What a writer needs of its log."""

    def write(self, appended: Sequence[Appended[Batch]], check: Callable[[], None]) -> None:
        """See `SimulatedLog`."""

    def epoch(self, identity: str) -> int:
        """See `SimulatedLog`."""

    def transact(self, parts: Sequence[Part[Batch]]) -> Outcome:
        """See `SimulatedLog`."""


class SimulatedWriter(Generic[Batch]):
    """`Writer` of one identity on a `SimulatedLog`."""

    def __init__(
        self, log: WrittenLog[Batch], identity: str, epoch: int, admitted: Callable[[], bool]
    ) -> None:
        self._log = log
        self._admitted = admitted
        self._identity = identity
        self._epoch = epoch
        self._closed = False

    def append(self, appended: Sequence[Appended[Batch]]) -> None:
        """See `Writer`."""
        self._require_open()
        self._log.write(appended, self._check)

    def send(self, appended: Sequence[Appended[Batch]]) -> None:
        """See `Writer`; nobody checks who makes it."""
        self._require_open()
        self._log.write(appended, lambda: None)

    def _check(self) -> None:
        check_epoch(self._identity, self._epoch, self._log.epoch(self._identity))
        if not self._admitted():
            raise UnavailableError(f"The assignment of '{self._identity}' is lost.")

    def transact(
        self,
        group: str,
        appended: Sequence[Appended[Batch]],
        positions: Mapping[TopicPartition, int],
    ) -> Outcome:
        """See `Writer`."""
        return self._log.transact((self.part(group, appended, positions),))

    def part(
        self,
        group: str,
        appended: Sequence[Appended[Batch]],
        positions: Mapping[TopicPartition, int],
    ) -> Part[Batch]:
        """The same transaction as a part of a larger one."""
        self._require_open()
        return Part(self._identity, self._epoch, group, appended, positions)

    def close(self) -> None:
        """See `Writer`."""
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise closed(f"writer '{self._identity}'")
