"""The tasks of one query, all of them or none: what a process may do for the query alone.

On a log that other instances of the service work on too, whoever holds a task is a member of the
query's group (docs/adr/0009-members-of-a-group.md). A pipeline joins it only when nobody is there,
and leaves it as soon as somebody else comes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import pyarrow as pa

from millstream.log.log import Appended, Log, Outcome, TopicPartition, Writer
from millstream.log.membership import Assignment, Member
from millstream.model.errors import MillstreamError, UnavailableError

CLAIM_SECONDS = 60.0
"""How long nobody may say whose the tasks are: brokers wait for others who may join a new group."""
_PAUSE_SECONDS = 0.02
_LARGE = 4_000_000
"""Bytes of a transaction that a writer must be told of before."""
_COMMITS = 3
"""So often records are written, while nothing of them becomes visible and the tasks are kept."""


class ExclusiveAssignment:
    """What a process holds of a query between `ask` and `close`. One thread works on the query,
    any other one may call `step_aside`."""

    def __init__(self, log: Log[pa.Table], query_id: str, count: int) -> None:
        self._log = log
        self._query_id = query_id
        self._all = frozenset(range(count))
        self._member: Member[pa.Table] | None = None
        self._writer: Writer[pa.Table] | None = None
        self._epoch = 0
        """That of the claim for which the writer was opened."""
        self._working = threading.Lock()

    def ask(self) -> None:
        """Take part in the group, without waiting for the tasks. UnavailableError (code
        E-PIPELINE-BUSY) while others are in it."""
        with self._working:
            self._join()

    @contextmanager
    def held(self, taken: Callable[[], None]) -> Iterator[None]:
        """All tasks are this process's meanwhile, or nothing can be committed. `taken` is called
        where they were not, or not without a break, since the last time.

        UnavailableError where others have them, or the log does not answer.
        """
        with self._working:
            try:
                self._take(self._join(), taken)
                yield
            finally:
                self._leave_if_wanted()

    def commit(
        self,
        records: Sequence[Appended[pa.Table]],
        positions: Mapping[TopicPartition, int],
    ) -> None:
        """Records and positions, both or neither, inside of `held`. UnavailableError when neither
        was written, as the tasks were lost, or when that is not known."""
        size = sum(record.bytes for record in records)
        outcome = None
        try:
            outcome = self._transacted(records, positions, size)
        finally:
            if outcome is not Outcome.COMMITTED or size > _LARGE:
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
        if size > _LARGE:
            self._open(member, size)
        outcome = Outcome.ABORTED
        for _ in range(_COMMITS):
            assert self._writer is not None
            outcome = self._writer.transact(self._query_id, records, positions)
            # A group that has just changed makes brokers refuse what was not lost.
            if outcome is not Outcome.ABORTED or member.claim().lost > self._epoch:
                break
        return outcome

    def step_aside(self, *, wanted: bool) -> None:
        """Leave the group if others are in it, or if somebody wants that for another reason;
        after this epoch, when one is being worked on."""
        if self._working.acquire(blocking=False):
            try:
                if wanted:
                    self._leave()
                else:
                    self._leave_if_wanted()
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

    def _take(self, member: Member[pa.Table], taken: Callable[[], None]) -> None:
        claim = self._claimed(member)
        if self._writer is None or claim.epoch != self._epoch:
            self._epoch = claim.epoch
            # It settles what an earlier one has left open; only then are positions looked at.
            self._open(member)
            taken()

    def _claimed(self, member: Member[pa.Table]) -> Assignment:
        deadline = time.monotonic() + CLAIM_SECONDS
        while (claim := member.claim()).partitions != self._all:
            if claim.partitions or time.monotonic() > deadline:
                self._leave()
                raise _busy(self._query_id)
            time.sleep(_PAUSE_SECONDS)
        return claim

    def _open(self, member: Member[pa.Table], size: int = 0) -> None:
        self._close_writer()
        self._writer = member.writer(self._epoch, size=size)

    def _leave_if_wanted(self) -> None:
        if self._member is not None:
            with suppress(MillstreamError):
                claim = self._member.claim()
                if claim.epoch == 0 or claim.partitions == self._all:
                    return
            self._leave()

    def _leave(self) -> None:
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
        hint="The pipeline takes it as soon as they have ended. One that was killed counts until"
        " its session is over.",
        code="E-PIPELINE-BUSY",
    )


def _refused(query_id: str, outcome: Outcome) -> UnavailableError:
    if outcome is Outcome.ABORTED:
        return UnavailableError(
            f"What an epoch of query {query_id} has made was not committed: other instances of the"
            " service have taken the query meanwhile",
            hint="The pipeline takes it again as soon as they have ended.",
            code="E-PIPELINE-BUSY",
        )
    return UnavailableError(
        f"Nobody knows whether an epoch of query {query_id} was committed",
        hint="The next epoch goes on from what was.",
        code="E-TXN",
    )
