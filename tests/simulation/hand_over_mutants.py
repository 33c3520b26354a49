"""Planted bugs in what is handed over in memory between the sub-topologies of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millstream.log.log import Appended, Log, TopicPartition
from millstream.runtime.hand_over import HandOver
from millstream.runtime.query_runner import QueryRunner
from millstream.runtime.subtopology_runners import SubTopologyRunners
from tests.simulation.mutants import Through, WithExecution, WithExecutor
from tests.simulation.world import Mutant


class LostHandOver(HandOver[Any]):
    def leave(self, at: TopicPartition) -> tuple[int, Sequence[Appended[Any]]]:
        first, _ = super().leave(at)
        return first, ()


class KeepingHandOver(HandOver[Any]):
    def leave(self, at: TopicPartition) -> tuple[int, Sequence[Appended[Any]]]:
        place = self._places.get(at)
        return (0, ()) if place is None else (place.first, tuple(place.records))

    def written(self, ends: Mapping[TopicPartition, int]) -> None:
        for at, end in ends.items():
            self._places[at].end = self._places[at].first = end


class InnerHandOver(HandOver[Any]):
    def durable(self, at: TopicPartition, position: int) -> int:
        return position


class EndlessHandOver(HandOver[Any]):
    def before(self, at: TopicPartition, bound: int | None) -> int | None:
        return bound

    def past(self, at: TopicPartition, offset: int) -> bool:
        return self.follows(at)


class OtherHandOver(QueryRunner[Any]):
    kind: type[HandOver[Any]]

    def _open(self, now: int) -> None:
        self.runners.hand_over.__class__ = self.kind
        super()._open(now)


class LostRows(OtherHandOver):
    """Does not write what is not processed at the commit."""

    kind = LostHandOver


class KeptRows(OtherHandOver):
    """Keeps in memory what it has written as well."""

    kind = KeepingHandOver


class InnerPositions(OtherHandOver):
    """Commits the numbers of records in memory as positions on the log."""

    kind = InnerHandOver


class PassedRows(OtherHandOver):
    """Reads what is in memory before what is on the log."""

    kind = EndlessHandOver


class WrittenLater(QueryRunner[Any]):
    """Writes what is not processed after the commit, by itself."""

    def _flush(self) -> Any:
        before = len(self.collector.pending)
        prepared = super()._flush()
        left = [one for one in self.collector.pending[before:] if one.topic == "rep"]
        del self.collector.pending[before:]
        self.left = left
        return prepared

    def _conclude(self, *arguments: Any) -> bool:
        if self.left:
            self.collector.writer.append(self.left)
        return super()._conclude(*arguments)


class AnyTasks(SubTopologyRunners[Any]):
    def gather(self, log: Log[Any]) -> None:
        super().gather(log)
        if not self.hand_over.active:
            self._hand_over(log)


class WithoutAllTasks(QueryRunner[Any]):
    """Hands over although other processes have tasks of the query."""

    def _open(self, now: int) -> None:
        self.runners.__class__ = AnyTasks
        super()._open(now)


class ForgetfulExecutor(Through):
    """Does not take note that records will have other offsets."""

    def hand_back(
        self, _topic: str, _partition: int, _first: int, records: Sequence[Appended[Any]]
    ) -> Sequence[Appended[Any]]:
        return records


HAND_OVER_MUTANTS: dict[str, Mutant] = {
    "handed over and lost": WithExecution(LostRows),
    "handed over and written": WithExecution(KeptRows),
    "position in memory committed": WithExecution(InnerPositions),
    "memory read before the log": WithExecution(PassedRows),
    "handed over and written after the commit": WithExecution(WrittenLater),
    "handed over without all tasks": WithExecution(WithoutAllTasks),
    "handed back with old offsets": WithExecutor(ForgetfulExecutor),
}
"""By name, the fault of each."""
