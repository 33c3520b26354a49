"""Planted bugs of restoration and of handing over, which the following worlds have to notice."""

from __future__ import annotations

from typing import Any

from millstream.log.log import Fetched
from millstream.runtime.following import Followed, Moved
from millstream.runtime.query_runner import QueryRunner
from millstream.runtime.restoration import Restoration
from tests.simulation.following import FollowingMutant
from tests.simulation.mutants import RashExecutor, Through
from tests.simulation.pure import PureExecutor
from tests.simulation.world import World


class Clinging(Restoration[Any]):
    """Continues to follow what it has granted."""

    def _grant(self, query: Followed[Any]) -> bool:
        kept = dict(query.followers)
        granted = super()._grant(query)
        query.followers.update(kept)
        return granted


class Generous(Restoration[Any]):
    """Grants requested tasks although they are being followed."""

    def prepare(self, query_id: str, wanted: frozenset[int]) -> frozenset[int]:
        super().prepare(query_id, wanted)
        return wanted


class Rejoining(Restoration[Any]):
    """Stands by for what is processed here, too."""

    def _arrange(self, query: Followed[Any], now: int) -> Moved:
        for partition in query.standby & query.ownership.processing:
            if partition not in {task.partition for task in query.followers}:
                query.open(partition, self._log, now)
        return super()._arrange(query, now)


class Clearing(Restoration[Any]):
    """Clears what is not followed, processed or not."""

    def _clear_left(self, query: Followed[Any], now: int) -> bool:
        processing = sorted(query.ownership.processing - query.standby)
        if processing and now % 50 == 0:
            query.clear(processing[0])
        return super()._clear_left(query, now)


class Remembering(Restoration[Any]):
    """Says of unused state what was once true of it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.once: dict[int, int] = {}

    def left(self, query_id: str) -> dict[int, int]:
        self.once |= super().left(query_id)
        return self.once


class Trusting(QueryRunner[Any]):
    """Assumes that granted state is complete and replays nothing itself."""

    def _open(self, now: int) -> None:
        super()._open(now)
        for runner in self.runners:
            for task in runner.tasks.values():
                task.target = task.restored
                task.arrive()
        self._settle_state()


class AheadReplica(Through):
    """Stores a position before the rows that belong to it."""

    def restore(self, partition: int, fetched: Fetched[Any]) -> None:
        self.inner.restore(
            partition,
            Fetched(fetched.topic, partition, (), 0, fetched.next_offset, fetched.end),
        )
        self.inner.commit({partition: fetched.next_offset})
        self.world.effect("replica.ahead")
        self.inner.restore(partition, fetched)


class StaleReplica(Through):
    """Keeps its rows in memory while another side processes them."""

    def open(self, partition: int) -> int:
        kept = self.inner.state.get(partition)
        position: int = self.inner.open(partition)
        if kept is not None:
            self.inner.state[partition] = kept
        return position


class WithReplica(FollowingMutant):
    def __init__(self, kind: type[Through]) -> None:
        self.kind = kind

    def replica(self, world: World, executor: PureExecutor) -> Any:
        return self.kind(executor, world)


class WithRestoration(FollowingMutant):
    def __init__(self, kind: type[Restoration[Any]]) -> None:
        self.kind = kind

    def restoration(self) -> type[Restoration[Any]]:
        return self.kind


class WithTrust(FollowingMutant):
    def execution(self) -> type[QueryRunner[Any]]:
        return Trusting


FOLLOWING_MUTANTS: dict[str, FollowingMutant] = {
    "followed on after handing over": WithRestoration(Clinging),
    "granted while followed": WithRestoration(Generous),
    "standing by for what is processed": WithRestoration(Rejoining),
    "cleared while processed": WithRestoration(Clearing),
    "unused state claimed although it is gone": WithRestoration(Remembering),
    "granted taken for complete": WithTrust(),
    "replica skips records": WithReplica(RashExecutor),
    "replica stores positions before rows": WithReplica(AheadReplica),
    "replica keeps rows over a handing over": WithReplica(StaleReplica),
}
"""By name, the fault of each."""
