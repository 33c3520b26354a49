"""The assignment of a query's tasks to the instances that share it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol

from millstream.log.log import Batch, TopicPartition, Writer

if TYPE_CHECKING:
    from millstream.log.log import Log


@dataclass(frozen=True, slots=True)
class Assignment:
    """The tasks of a query that one member holds: partition p stands for task p of each of its
    sub-topologies that has a task p.

    `epoch` grows with each change. Tasks held before the epoch `lost` may belong to another member
    already: they must be dropped, not committed.
    """

    epoch: int
    partitions: frozenset[int]
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group has read: the `ends` of partitions, and the positions that it had committed
    after these were requested; partitions without one are left out."""

    positions: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


class Member(Protocol[Batch]):
    """One instance's membership in a group whose members share the tasks of a query.

    The assignment can change at any time, from other threads; no call waits for that.
    """

    def claim(self) -> Assignment:
        """The current assignment of this member."""

    def settled(self, epoch: int) -> None:
        """Acknowledge the assignment of `epoch`: everything else is committed or dropped. The next
        owners may be waiting for this."""

    def writer(self, epoch: int, *, size: int = 0) -> Writer[Batch]:
        """The writer of this member for the assignment of `epoch`; opening it aborts what its
        earlier writers left open. Once that assignment is lost, `transact` returns ABORTED and
        nothing of it becomes visible. `size`: as of `Log.writer`. Raises FencedError when another
        process has taken this member's identity."""

    def lag(self, topic_partitions: Collection[TopicPartition]) -> Lag | None:
        """How far the whole group has read, as measured since the last call; None without a
        response. Starts a new request, without blocking."""

    def close(self) -> None:
        """Leave the group; the caller has committed or dropped its tasks before. Idempotent."""


class SoleMember(Generic[Batch]):
    """The member of a group of one, which holds all tasks for ever: for a log that belongs to one
    process, and for queries that a process runs for itself."""

    def __init__(
        self,
        log: Log[Batch],
        identity: str,
        partitions: int,
        held: frozenset[int] | None = None,
    ) -> None:
        """`identity`: of its writers; a newer writer fences it. `held`: the tasks, where it is not
        all of them."""
        self._log = log
        self._identity = identity
        self._claim = Assignment(1, frozenset(range(partitions)) if held is None else held)

    def claim(self) -> Assignment:
        """See `Member`."""
        return self._claim

    def settled(self, epoch: int) -> None:
        """See `Member`; there are no others to wait."""

    def writer(self, epoch: int, *, size: int = 0) -> Writer[Batch]:
        """See `Member`."""
        return self._log.writer(self._identity, size=size)

    def lag(self, topic_partitions: Collection[TopicPartition]) -> Lag | None:
        """See `Member`; there are no other members."""
        return Lag({}, {})

    def close(self) -> None:
        """See `Member`; there is no group to leave."""
