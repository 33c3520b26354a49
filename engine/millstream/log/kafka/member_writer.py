"""The writers of a member of a query's group on Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from millstream.log.kafka.plain_producers import PlainProducers
from millstream.log.kafka.producer_pool import ProducerPool
from millstream.log.kafka.transactions import Entry
from millstream.log.kafka.writer import Answer, KafkaWriter, Seat, not_appended
from millstream.log.log import Appended, Assignment, Outcome, Participant, Result
from millstream.log.log import TopicPartition as Place
from millstream.log.rounds import one_by_one
from millstream.model.errors import FencedError, MillstreamError, UnavailableError


class Holder(Protocol):
    """The owner of the assignment; see `KafkaMember`."""

    def assignment(self) -> Assignment:
        """The current assignment; raises FencedError when another process has the member's name."""
        ...

    def holds(self, epoch: int) -> bool:
        """Whether the assignment of `epoch` has not been lost."""
        ...


class MemberWriter:
    """`Writer` for a member's assignment at one epoch, with a producer of its own: for transactions
    that take long."""

    def __init__(self, member: Holder, epoch: int, writer: KafkaWriter) -> None:
        self._member = member
        self._epoch = epoch
        self._writer = writer

    def append(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Durable and readable when this returns; raises UnavailableError when that is not known,
        or when the assignment was lost."""
        try:
            self._writer.append(appended)
        except FencedError as error:
            self._member.assignment()
            raise UnavailableError(str(error)) from error

    def send(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """See `Writer`; a transaction as well."""
        self.append(appended)

    def transact(
        self, group: str, appended: Sequence[Appended[pa.Table]], positions: Mapping[Place, int]
    ) -> Outcome:
        """Records and positions, both or neither; ABORTED when the assignment was lost.

        The identity belongs to this process alone. A newer writer of it only means that another
        process took this one for dead: the group decides which process owns the tasks.
        """
        if not self._member.holds(self._epoch):
            return Outcome.ABORTED
        try:
            return self._writer.transact(group, appended, positions)
        except FencedError:
            self._member.assignment()
            return Outcome.UNKNOWN

    def close(self) -> None:
        """Give up the identity; idempotent."""
        self._writer.close()


class PooledWriter:
    """`Writer` for a member's assignment at one epoch, with the producers that all members of this
    process share."""

    def __init__(
        self,
        member: Holder,
        epoch: int,
        seat: Seat,
        pool: ProducerPool,
        plain: PlainProducers,
    ) -> None:
        """Ends earlier transactions of unknown outcome; raises UnavailableError."""
        self._member = member
        self._epoch = epoch
        self._seat = seat
        self._pool = pool
        self._plain = plain
        self._closed = False
        pool.resolve()

    def append(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """See `MemberWriter`."""
        outcome = self._carry_out(appended, {})
        if outcome is not Outcome.COMMITTED:
            raise not_appended(self._seat.group, outcome)

    def send(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Append outside of a transaction; raises UnavailableError when the assignment is known to
        be lost."""
        self._require_open()
        if not self._member.holds(self._epoch):
            raise not_appended(self._seat.group, Outcome.ABORTED)
        self._plain.send(appended)

    def transact(
        self, group: str, appended: Sequence[Appended[pa.Table]], positions: Mapping[Place, int]
    ) -> Outcome:
        """See `MemberWriter`."""
        return self._carry_out(appended, positions)

    def close(self) -> None:
        """Write nothing more; idempotent."""
        self._closed = True

    def _carry_out(
        self, appended: Sequence[Appended[pa.Table]], positions: Mapping[Place, int]
    ) -> Outcome:
        entry = self.entry(appended, positions, self.ask())
        if entry is None:
            return Outcome.ABORTED
        result = self.concluded(self._pool.carry_out([entry])[0])
        if isinstance(result, Exception):
            raise result
        return result

    def ask(self) -> Answer:
        """Begin to ask for the credential of the next transaction."""
        return self._seat.ask()

    def entry(
        self,
        appended: Sequence[Appended[pa.Table]],
        positions: Mapping[Place, int],
        answer: Answer,
    ) -> Entry | None:
        """What it contributes to a transaction; None when the assignment was lost. `answer`: what
        `ask` has returned. Raises UnavailableError when it is closed, FencedError as
        `Holder.assignment` does."""
        self._require_open()
        if not self._member.holds(self._epoch):
            return None
        return self._seat.entry(appended, positions, answer)

    def _require_open(self) -> None:
        if self._closed:
            raise UnavailableError(f"The writer of '{self._seat.group}' is closed")

    def concluded(self, result: Result) -> Result:
        """What became of its entry. A producer of the pool is fenced only by its successor, or by a
        coordinator that took it for dead."""
        if not isinstance(result, FencedError):
            return result
        try:
            self._member.assignment()
        except MillstreamError as error:
            return error
        return Outcome.UNKNOWN


def transact_all(pool: ProducerPool, participants: Sequence[Participant[pa.Table]]) -> list[Result]:
    """Carry out the transactions of members as one; others have producers of their own."""
    writers = [one.writer if isinstance(one.writer, PooledWriter) else None for one in participants]
    # All are asked before the first answer is waited for: each comes from another thread.
    answers = [None if writer is None else writer.ask() for writer in writers]
    results: dict[int, Result] = {}
    entries: dict[int, tuple[PooledWriter, Entry]] = {}
    for number, one in enumerate(participants):
        writer, answer = writers[number], answers[number]
        if writer is None or answer is None:
            results[number] = one_by_one([one])[0]
            continue
        try:
            entry = writer.entry(one.appended, one.positions, answer)
        except Exception as error:
            results[number] = error
            continue
        if entry is None:
            results[number] = Outcome.ABORTED
        else:
            entries[number] = writer, entry
    outcomes = pool.carry_out([entry for _, entry in entries.values()])
    for (number, (writer, _)), outcome in zip(entries.items(), outcomes, strict=True):
        results[number] = writer.concluded(outcome)
    return [results[number] for number in range(len(participants))]
