"""The writers of a query's member on Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from millstream.log.fenced_rounds import fenced_round
from millstream.log.kafka.plain_producers import PlainProducers
from millstream.log.kafka.producer_pool import ProducerPool
from millstream.log.kafka.transactions import Entry, MemberCredential, Transactions
from millstream.log.kafka.writer import not_appended
from millstream.log.log import Appended, Assignment, Outcome, Participant, Result
from millstream.log.log import TopicPartition as Place
from millstream.log.rounds import one_by_one
from millstream.model.errors import FencedError, MillstreamError, UnavailableError


class Credentials(Protocol):
    """The membership of the process; see `InstanceMember`."""

    def ask(self, refused: MemberCredential | None) -> MemberCredential | None:
        """The credential of the next transaction."""


class Holder(Protocol):
    """The owner of the assignment; see `KafkaMember`."""

    @property
    def instance(self) -> Credentials:
        """The membership of this process."""

    @property
    def group(self) -> str:
        """The group of the query."""

    def assignment(self) -> Assignment:
        """The current assignment; raises FencedError when another process has the member's name."""

    def holds(self, epoch: int) -> bool:
        """Whether the assignment of `epoch` has not been lost."""

    def entry(
        self, appended: Sequence[Appended[pa.Table]], positions: Mapping[Place, int]
    ) -> Entry:
        """What the query contributes to a transaction."""


Carry = Callable[[Sequence[Entry], MemberCredential], Sequence[Result]]
Share = tuple["_MemberWriter", Participant[pa.Table]]


class _MemberWriter:
    """`Writer` for a member's assignment at one epoch."""

    def __init__(self, member: Holder, epoch: int) -> None:
        self.member = member
        self._epoch = epoch
        self._closed = False

    def append(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Durable and readable when this returns; raises UnavailableError when that is not known,
        or when the assignment was lost."""
        outcome = self.transact(self.member.group, appended, {})
        if outcome is not Outcome.COMMITTED:
            raise not_appended(self.member.group, outcome)

    def transact(
        self, group: str, appended: Sequence[Appended[pa.Table]], positions: Mapping[Place, int]
    ) -> Outcome:
        """Records and positions, both or neither; ABORTED when the assignment was lost.

        The identity of the producer belongs to this process alone. A newer producer of it only
        means that another process took this one for dead: the group decides which process owns the
        tasks.
        """
        participant = Participant(self, group, appended, positions)
        (result,) = carried_out([(self, participant)], self._carry)
        if isinstance(result, Exception):
            raise result
        return result

    def send(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """See `Writer`; a transaction as well."""
        self.append(appended)

    def close(self) -> None:
        """Write nothing more; idempotent."""
        self._closed = True

    def _carry(self, entries: Sequence[Entry], credential: MemberCredential) -> Sequence[Result]:
        raise NotImplementedError

    def entry(self, participant: Participant[pa.Table]) -> Entry | None:
        """What it contributes to a transaction; None when the assignment was lost. Raises
        UnavailableError when it is closed, FencedError as `Holder.assignment` does."""
        self.require_open()
        if not self.member.holds(self._epoch):
            return None
        return self.member.entry(participant.appended, participant.positions)

    def require_open(self) -> None:
        """Raises UnavailableError when it is closed."""
        if self._closed:
            raise UnavailableError(f"The writer of '{self.member.group}' is closed")

    def concluded(self, result: Result) -> Result:
        """What became of its entry. A producer is fenced only by its successor, or by a coordinator
        that took it for dead."""
        if not isinstance(result, FencedError):
            return result
        try:
            self.member.assignment()
        except MillstreamError as error:
            return error
        return Outcome.UNKNOWN


class LargeWriter(_MemberWriter):
    """One with a producer of its own: for transactions that take long."""

    def __init__(self, member: Holder, epoch: int, transactions: Transactions) -> None:
        super().__init__(member, epoch)
        self._transactions = transactions

    def close(self) -> None:
        """Give up the identity; idempotent."""
        super().close()
        self._transactions.close()

    def _carry(self, entries: Sequence[Entry], credential: MemberCredential) -> Sequence[Result]:
        try:
            return [self._transactions.carry_out(entries, credential)]
        except Exception as error:
            return [error]


class PooledWriter(_MemberWriter):
    """One with the producers that all members of this process share."""

    def __init__(
        self, member: Holder, epoch: int, pool: ProducerPool, plain: PlainProducers
    ) -> None:
        """Ends earlier transactions of unknown outcome; raises UnavailableError."""
        super().__init__(member, epoch)
        self._pool = pool
        self._plain = plain
        pool.resolve()

    def send(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Append outside of a transaction; raises UnavailableError when the assignment is known to
        be lost."""
        self.require_open()
        if not self.member.holds(self._epoch):
            raise not_appended(self.member.group, Outcome.ABORTED)
        self._plain.send(appended)

    def _carry(self, entries: Sequence[Entry], credential: MemberCredential) -> Sequence[Result]:
        return self._pool.carry_out(entries, credential)


def carried_out(shares: Sequence[Share], carry: Carry) -> list[Result]:
    """A round of queries of this process; see `fenced_round`."""
    if not shares:
        return []

    def entry_of(share: Share) -> Callable[[], Entry | None]:
        writer, participant = share
        return lambda: writer.entry(participant)

    ask = shares[0][0].member.instance.ask
    results = fenced_round([entry_of(share) for share in shares], ask, carry)
    return [writer.concluded(result) for (writer, _), result in zip(shares, results, strict=True)]


def transact_all(pool: ProducerPool, participants: Sequence[Participant[pa.Table]]) -> list[Result]:
    """Carry out the transactions of members as one; others have producers of their own."""
    shares: dict[int, Share] = {
        number: (one.writer, one)
        for number, one in enumerate(participants)
        if isinstance(one.writer, PooledWriter)
    }
    results = dict(zip(shares, carried_out(list(shares.values()), pool.carry_out), strict=True))
    for number, one in enumerate(participants):
        if number not in results:
            results[number] = one_by_one([one])[0]
    return [results[number] for number in range(len(participants))]
