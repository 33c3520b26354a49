"""The member of a group without other members."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic

from millstream.log.log import Assignment, Batch, Lag, Log, TopicPartition, Writer


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
        self._assignment = Assignment(1, frozenset(range(partitions)) if held is None else held)

    def assignment(self) -> Assignment:
        """See `Member`."""
        return self._assignment

    def settled(self, epoch: int) -> None:
        """See `Member`; there are no others to wait."""

    def writer(self, epoch: int, *, size: int = 0) -> Writer[Batch]:
        """See `Member`."""
        return self._log.writer(self._identity, size=size)

    def lag(self, topic_partitions: Collection[TopicPartition]) -> Lag | None:
        """See `Member`; there are no other members."""
        return Lag({}, {})

    def peers(self) -> bool:
        """See `Member`; there are none."""
        return False

    def close(self) -> None:
        """See `Member`; there is no group to leave."""
