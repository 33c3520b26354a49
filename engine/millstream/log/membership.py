"""Who holds which tasks of a query, when several instances share it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol

from millstream.log.log import Batch, TopicPartition, Writer

if TYPE_CHECKING:
    from millstream.log.log import Log


@dataclass(frozen=True, slots=True)
class Assignment:
    """The tasks of a query that are one member's: partition p stands for task p of each of its
    sub-topologies that has so many.

    `epoch` grows with each change. What was held before the epoch `lost` may be somebody else's
    already: it has to be dropped, not committed.
    """

    epoch: int
    partitions: frozenset[int]
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group has come: the `ends` of partitions, and the positions that it had committed
    after these were asked for; those that have none are left out."""

    positions: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


class Member(Protocol[Batch]):
    """One instance's part in a group whose members share the tasks of a query.

    The claim is moved by others, at any time and in other threads; no call waits for them.
    """

    def claim(self) -> Assignment:
        """What this member is to hold now."""

    def settled(self, epoch: int) -> None:
        """Nothing is held any more that is not in the claim of `epoch`: committed or dropped.
        Whoever is given it may be waiting for that."""

    def writer(self, epoch: int, *, size: int = 0) -> Writer[Batch]:
        """The appending side of this member for what it claimed at `epoch`; opening it settles
        (aborts) what its earlier writers left open. Once that claim is lost, `transact` returns
        ABORTED and nothing of it becomes visible. `size`: as of `Log.writer`. FencedError when
        another one has taken this member's identity."""

    def lag(self, topic_partitions: Collection[TopicPartition]) -> Lag | None:
        """How far the whole group has come, as was found out since this was asked last; None while
        nobody has answered. Asks anew, without waiting."""

    def close(self) -> None:
        """Leave the group; what is held was settled before. Idempotent."""


class SoleMember(Generic[Batch]):
    """The member of a group of one, which holds all tasks for ever: where a log belongs to one
    process, and for what a process runs for itself alone."""

    def __init__(
        self,
        log: Log[Batch],
        identity: str,
        partitions: int,
        held: frozenset[int] | None = None,
    ) -> None:
        """`identity`: of its writers; a newer one fences it. `held`: the tasks, where it is not
        all of them."""
        self._log = log
        self._identity = identity
        self._claim = Assignment(1, frozenset(range(partitions)) if held is None else held)

    def claim(self) -> Assignment:
        """See `Member`."""
        return self._claim

    def settled(self, epoch: int) -> None:
        """See `Member`; nobody waits."""

    def writer(self, epoch: int, *, size: int = 0) -> Writer[Batch]:
        """See `Member`."""
        return self._log.writer(self._identity, size=size)

    def lag(self, topic_partitions: Collection[TopicPartition]) -> Lag | None:
        """See `Member`; nobody else has anything."""
        return Lag({}, {})

    def close(self) -> None:
        """See `Member`; there is no group to leave."""
