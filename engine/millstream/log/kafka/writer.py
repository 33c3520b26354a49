"""The writer of one identity, with a producer of its own.

Appends without positions are transactions too, so that a fenced writer can write nothing at all,
not even an INSERT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from millstream.log.kafka.patience import Patience
from millstream.log.kafka.transactions import Entry, Transactions, WriterContext
from millstream.log.log import Appended, Outcome
from millstream.log.log import TopicPartition as Place
from millstream.model.errors import UnavailableError

Answer = Callable[[], object | None]


@dataclass(frozen=True, slots=True)
class Seat:
    """A writer's membership in a group. The brokers refuse positions of other clients.

    `ask` asks for the current membership credential and returns a function that waits for it; it is
    None without one, and the writer then aborts its transaction. `lease`: a position that can
    always be moved, so that the brokers check a transaction without other positions too.
    """

    group: str
    ask: Callable[[], Answer]
    lease: Place

    def entry(
        self,
        appended: Sequence[Appended[pa.Table]],
        positions: Mapping[Place, int],
        answer: Answer,
    ) -> Entry | None:
        """What the member contributes to a transaction; None without a membership. `answer`: what
        `ask` has returned for this transaction."""
        credential = answer()
        if credential is None:
            return None
        return Entry(appended, self.group, positions or {self.lease: 0}, credential)


class KafkaWriter:
    """One transactional producer; opening it has fenced the earlier ones of its identity."""

    def __init__(
        self,
        identity: str,
        context: WriterContext,
        seat: Seat | None = None,
        *,
        patience: Patience,
    ) -> None:
        """`seat`: membership in a group; without it, groups must have no members."""
        self.identity = identity
        self._context = context
        self._seat = seat
        self._transactions = Transactions(identity, context, patience)

    def append(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Durable and readable when this returns; raises UnavailableError when that is not
        known."""
        outcome = self._transaction(None, appended, {})
        if outcome is not Outcome.COMMITTED:
            raise not_appended(self.identity, outcome)

    def send(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """See `Writer`; a transaction as well."""
        self.append(appended)

    def transact(
        self,
        group: str,
        appended: Sequence[Appended[pa.Table]],
        positions: Mapping[Place, int],
    ) -> Outcome:
        """Records and positions, both or neither."""
        return self._transaction(group if positions else None, appended, positions)

    def close(self) -> None:
        """Give up the identity; idempotent."""
        self._transactions.close()

    def _transaction(
        self,
        group: str | None,
        appended: Sequence[Appended[pa.Table]],
        positions: Mapping[Place, int],
    ) -> Outcome:
        if self._seat is not None:
            entry = self._seat.entry(appended, positions, self._seat.ask())
        else:
            name = None if group is None else self._context.namespace + group
            credential = None if name is None else self._context.outsider(name)
            entry = Entry(appended, group, positions, credential)
        return Outcome.ABORTED if entry is None else self._transactions.carry_out([entry])


def not_appended(identity: str, outcome: Outcome) -> UnavailableError:
    """The error for an append that is not known to be durable."""
    return UnavailableError(
        f"Could not append as '{identity}': the outcome of the write is {outcome.value}",
        hint="Look whether the records are there before trying again.",
    )
