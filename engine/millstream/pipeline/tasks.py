"""The exclusive assignment of a query: all of its tasks or none.

On a log that other instances of the service share, an instance that runs a task is a member of the
query's group (docs/adr/0009-members-of-a-group.md). A pipeline joins the group only if it is empty,
and leaves it when another member joins. Tasks are balanced over all queries of the service, so an
instance that comes may get all tasks of one query and none of another: the pipeline leaves all of
them when there are other members.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from millstream.log.log import Appended, Assignment, Log, Member, Outcome, TopicPartition, Writer
from millstream.model.errors import MillstreamError, UnavailableError

ASSIGNMENT_SECONDS = 60.0
"""The longest wait for an assignment. Brokers delay it, since more members may join a new group."""
_PAUSE_SECONDS = 0.02
_LARGE_BYTES = 4_000_000
"""The size above which a writer must be opened with the size of its transaction."""
_COMMIT_ATTEMPTS = 3
"""How often a transaction is tried while it is aborted and the tasks are still assigned."""


class ExclusiveAssignment:
    """A process's membership in the group of a query, from `join` to `close`. One thread processes
    the query; any other thread may call `yield_tasks`."""

    def __init__(self, log: Log[pa.Table], query_id: str, count: int) -> None:
        self._log = log
        self._query_id = query_id
        self._all = frozenset(range(count))
        self._member: Member[pa.Table] | None = None
        self._writer: Writer[pa.Table] | None = None
        self._epoch = 0
        """The epoch of the assignment for which the writer was opened."""
        self._working = threading.Lock()
        self._leaves_next = False
        """Whether it was to leave during `held`."""

    def join(self) -> None:
        """Join the group, without waiting for the tasks. Raises UnavailableError
        (E-PIPELINE-BUSY) while it has other members."""
        with self._working:
            self._join()

    @contextmanager
    def held(self, on_assigned: Callable[[], None]) -> Iterator[None]:
        """Hold all tasks. If they are lost during the block, `commit` fails. `on_assigned` is
        called if they were not held continuously since the last time.

        Raises UnavailableError if others have them, or the log does not respond.
        """
        with self._working:
            try:
                self._take(self._join(), on_assigned)
                yield
            finally:
                self._leave_if_shared()

    def commit(
        self,
        records: Sequence[Appended[pa.Table]],
        positions: Mapping[TopicPartition, int],
    ) -> None:
        """Commit records and positions in one transaction, within `held`. Raises UnavailableError
        if it was aborted because the tasks were lost, or if its outcome is unknown."""
        size = sum(record.bytes for record in records)
        outcome = None
        try:
            outcome = self._transacted(records, positions, size)
        finally:
            if outcome is not Outcome.COMMITTED or size > _LARGE_BYTES:
                self._close_writer()
        if outcome is not Outcome.COMMITTED:
            raise _refused(self._query_id, outcome)

    def _transacted(
        self,
        records: Sequence[Appended[pa.Table]],
        positions: Mapping[TopicPartition, int],
        size: int,
    ) -> Outcome:
        member = self._member
        assert member is not None
        if size > _LARGE_BYTES:
            self._open(member, size)
        outcome = Outcome.ABORTED
        for _ in range(_COMMIT_ATTEMPTS):
            assert self._writer is not None
            outcome = self._writer.transact(self._query_id, records, positions)
            # Brokers may refuse a transaction just after the group changed, although the tasks are
            # still assigned.
            if outcome is not Outcome.ABORTED or member.assignment().lost > self._epoch:
                break
        return outcome

    @property
    def shared(self) -> bool:
        """Whether others have got tasks of the query since it was joined, or may want them."""
        member = self._member
        if member is None:
            return False
        try:
            assignment = member.assignment()
            return assignment.epoch != 0 and (assignment.partitions != self._all or member.peers())
        except MillstreamError:
            return True

    def yield_tasks(self, *, force: bool) -> None:
        """Leave the group if it has other members, or with `force` in any case. During `held` it
        does nothing; `held` itself leaves at its end."""
        self._leaves_next |= force
        if self._working.acquire(blocking=False):
            try:
                if force:
                    self._leave()
                else:
                    self._leave_if_shared()
            finally:
                self._working.release()

    def close(self) -> None:
        """Leave the group; idempotent."""
        with self._working:
            self._leave()

    def _join(self) -> Member[pa.Table]:
        if self._member is None:
            if not self._log.vacant(self._query_id):
                raise _busy(self._query_id)
            self._member = self._log.join(self._query_id, len(self._all))
        return self._member

    def _take(self, member: Member[pa.Table], on_assigned: Callable[[], None]) -> None:
        assignment = self._await_assignment(member)
        if self._writer is None or assignment.epoch != self._epoch:
            self._epoch = assignment.epoch
            # Opening the writer ends the transactions of an earlier one. Positions must be read
            # after that.
            self._open(member)
            on_assigned()

    def _await_assignment(self, member: Member[pa.Table]) -> Assignment:
        deadline = time.monotonic() + ASSIGNMENT_SECONDS
        while (assignment := member.assignment()).partitions != self._all:
            if assignment.partitions or time.monotonic() > deadline:
                self._leave()
                raise _busy(self._query_id)
            time.sleep(_PAUSE_SECONDS)
        return assignment

    def _open(self, member: Member[pa.Table], size: int = 0) -> None:
        self._close_writer()
        self._writer = member.writer(self._epoch, size=size)

    def _leave_if_shared(self) -> None:
        if self._leaves_next or self.shared:
            self._leave()

    def _leave(self) -> None:
        self._leaves_next = False
        self._close_writer()
        member, self._member = self._member, None
        if member is not None:
            member.close()

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _busy(query_id: str) -> UnavailableError:
    return UnavailableError(
        f"Query {query_id} is processed by other instances of the service",
        hint="The pipeline takes it as soon as they have ended. An instance that was killed counts"
        " until its session expires.",
        code="E-PIPELINE-BUSY",
    )


def _refused(query_id: str, outcome: Outcome) -> UnavailableError:
    if outcome is Outcome.ABORTED:
        return UnavailableError(
            f"An epoch of query {query_id} was not committed: other instances of the service have"
            " taken the query meanwhile",
            hint="The pipeline takes it again as soon as they have ended.",
            code="E-PIPELINE-BUSY",
        )
    return UnavailableError(
        f"It is unknown whether an epoch of query {query_id} was committed",
        hint="The next epoch continues from the last commit.",
        code="E-TXN",
    )
