"""The writer of one identity, with a producer of its own.

Appends without positions are transactions too, so that a fenced writer can write nothing at all,
not even an INSERT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from millstream.log.kafka.patience import Patience
from millstream.log.kafka.transactions import Entry, RefusedError, Transactions, WriterContext
from millstream.log.log import Appended, Outcome, Participant, Result
from millstream.log.log import TopicPartition as Place
from millstream.log.rounds import one_by_one
from millstream.model.errors import UnavailableError


class KafkaWriter:
    """One transactional producer; opening it has fenced the earlier ones of its identity."""

    def __init__(
        self,
        identity: str,
        context: WriterContext,
        *,
        patience: Patience,
    ) -> None:
        """The groups whose positions it moves must have no members."""
        self.identity = identity
        self._context = context
        self._transactions = Transactions(identity, context, patience)

    def append(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Durable and readable when this returns; raises UnavailableError when that is not
        known."""
        outcome = self._transactions.carry_out([Entry(appended)])
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
        return self._transactions.carry_out([self._entry(group, appended, positions)])

    def transact_all(self, participants: Sequence[Participant[pa.Table]]) -> list[Result]:
        """The transactions of several groups, all of this writer, as one; see `Log`."""
        entries = [self._entry(one.group, one.appended, one.positions) for one in participants]
        try:
            return [self._transactions.carry_out(entries)] * len(entries)
        except RefusedError:
            return one_by_one(participants)
        except Exception as error:
            return [error] * len(entries)

    def close(self) -> None:
        """Give up the identity; idempotent."""
        self._transactions.close()

    def _entry(
        self, group: str, appended: Sequence[Appended[pa.Table]], positions: Mapping[Place, int]
    ) -> Entry:
        if not positions:
            return Entry(appended)
        credential = self._context.outsider(self._context.namespace + group)
        return Entry(appended, group, positions, credential)


def not_appended(identity: str, outcome: Outcome) -> UnavailableError:
    """The error for an append that is not known to be durable."""
    return UnavailableError(
        f"Could not append as '{identity}': the outcome of the write is {outcome.value}",
        hint="Look whether the records are there before trying again.",
    )
