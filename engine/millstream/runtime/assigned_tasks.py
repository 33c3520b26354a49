"""Tracks which tasks of a query this instance holds, and whether other instances may be waiting for
them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic

from millstream.log.log import (
    Assignment,
    Batch,
    Lag,
    Log,
    Member,
    Outcome,
    TopicPartition,
    Writer,
)
from millstream.log.membership import SoleMember
from millstream.model.errors import MillstreamError
from millstream.runtime.ports import Restorer
from millstream.runtime.spec import QuerySpec

KEEP_POSITIONS_MS = 6 * 3_600_000
"""How often the positions of a query that commits nothing are committed again. A broker deletes
those that are older than `offsets.retention.minutes`, a week by default."""
_KEEP_AGAIN_MS = 60_000


@dataclass(frozen=True, slots=True)
class Change:
    """`assignment` is the assignment to hold from now on. `dropping`: the open tasks may already be
    assigned to another instance and must not be committed."""

    assignment: Assignment
    dropping: bool


class AssignedTasks(Generic[Batch]):
    """One query's membership in its group. It joins on first use, which may fail like any
    request."""

    def __init__(self, spec: QuerySpec[Batch], log: Log[Batch], restorer: Restorer) -> None:
        self._spec = spec
        self._log = log
        self._restorer = restorer
        self._member: Member[Batch] | None = None
        self._assignment = Assignment(0, frozenset())
        self._open: frozenset[int] = frozenset()
        self._kept: Mapping[TopicPartition, int] = {}
        """The positions as they were committed last."""
        self._kept_epoch = 0
        """The assignment for which that was."""
        self._keep_at = 0

    def change(self) -> Change | None:
        """The change to make, if any: a new assignment, or that more of the assignment can be
        opened. Raises FencedError when another process uses the name of this one."""
        assignment = self._joined().assignment()
        if assignment.epoch != self._assignment.epoch:
            return Change(assignment, assignment.lost > self._assignment.epoch)
        if self._open != assignment.partitions and self._prepared(assignment) != self._open:
            return Change(assignment, dropping=False)
        return None

    def settle(self, change: Change) -> None:
        """Note that no task is open; `open` says what to open next."""
        if change.dropping:
            # Tasks that are assigned again come from other instances.
            self._restorer.prepare(self._spec.query_id, frozenset())
        self._assignment = change.assignment
        self._open = self._prepared(change.assignment)
        self._joined().settled(change.assignment.epoch)

    def _prepared(self, assignment: Assignment) -> frozenset[int]:
        return self._restorer.prepare(self._spec.query_id, assignment.partitions)

    @property
    def joined(self) -> bool:
        """Whether this instance is a member of the group."""
        return self._member is not None

    @property
    def shared(self) -> bool:
        """Whether tasks held here may already be assigned to other instances."""
        return self._member is not None and not isinstance(self._member, SoleMember)

    @property
    def open(self) -> frozenset[int]:
        """The partitions whose tasks are to be open."""
        return self._open

    @property
    def pending(self) -> bool:
        """Whether more tasks may be opened soon: the assignment is not known yet, or their state is
        not restored yet."""
        return self._assignment.epoch == 0 or self._open != self._assignment.partitions

    def keep_positions(self, positions: Mapping[TopicPartition, int], now: int) -> None:
        """Commit the positions that are committed once more if that was long ago, for brokers to
        keep them; also those of a query that is paused or has failed. `positions`: another object
        after each commit."""
        epoch = self._assignment.epoch
        if positions is not self._kept:
            self._kept, self._kept_epoch = positions, epoch
            self._keep_at = now + KEEP_POSITIONS_MS
        elif positions and now >= self._keep_at and self.shared and epoch == self._kept_epoch:
            self._keep_at = now + _KEEP_AGAIN_MS
            with suppress(MillstreamError):
                writer = self.writer()
                try:
                    if writer.transact(self._spec.group, (), positions) is Outcome.COMMITTED:
                        self._keep_at = now + KEEP_POSITIONS_MS
                finally:
                    writer.close()

    def writer(self) -> Writer[Batch]:
        """The writer for the assigned tasks."""
        return self._joined().writer(self._assignment.epoch)

    def lag(self, topic_partitions: Collection[TopicPartition]) -> Lag | None:
        """See `Member`."""
        return self._joined().lag(topic_partitions)

    def close(self) -> None:
        """Leave the group. No task may be open any more."""
        self._restorer.prepare(self._spec.query_id, frozenset())
        member, self._member = self._member, None
        if member is not None:
            member.close()

    def _joined(self) -> Member[Batch]:
        if self._member is None:
            spec = self._spec
            tasks = max((executor.partitions for executor in spec.executors), default=0)
            self._member = (
                SoleMember(self._log, spec.query_id, tasks, spec.tasks)
                if spec.transient
                else self._log.join(spec.group, tasks)
            )
        return self._member
