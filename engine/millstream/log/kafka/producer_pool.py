"""The transactional producers that all queries of an instance share.

A producer carries out one transaction at a time, for one query or for a commit round of many. There
are as many as transactions were ever under way at the same time, which is at most one for each
processing thread. Which of them carries out a query's transaction does not matter: the query waits
for the outcome before its next one.

A transaction whose outcome is unknown may still be open. It is ended before anything else is done
with the pool, by another producer of the same identity.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from millstream.log.kafka.idle_producers import IdleProducers
from millstream.log.kafka.transactions import (
    Entry,
    MemberCredential,
    RefusedError,
    Transactions,
)
from millstream.log.log import Outcome, Result
from millstream.log.rounds import in_halves
from millstream.model.errors import StatementError


class ProducerPool:
    """Lends producers to the threads that commit; callable from any thread."""

    def __init__(self, open_transactions: Callable[[int], Transactions]) -> None:
        """`open_transactions` opens the producer of a number, which ends what an earlier one of
        this number left open. Raises UnavailableError."""
        self._open_transactions = open_transactions
        self._lock = threading.Lock()
        self._resolving = threading.Lock()
        self._idle = IdleProducers[_Numbered]()
        self._in_doubt: list[int] = []
        """The numbers of producers with a transaction of unknown outcome."""
        self._count = 0

    def carry_out(
        self, entries: Sequence[Entry], credential: MemberCredential | None = None
    ) -> list[Result]:
        """One transaction for all entries; if it cannot be carried out because of some of them, the
        others are committed without these. RefusedCredentialError for all if the brokers do not
        accept the credential."""

        def attempt(some: Sequence[Entry]) -> Outcome:
            return self._attempt(some, credential)

        results: dict[int, Result] = {}
        left = list(enumerate(entries))
        while left:
            found = in_halves([entry for _, entry in left], attempt, _of_all)
            outcomes = list(zip(left, found, strict=True))
            left = []
            for (number, entry), result in outcomes:
                if not isinstance(result, RefusedError):
                    results[number] = result
                elif any(refused is entry for refused in result.entries):
                    results[number] = Outcome.ABORTED
                else:
                    left.append((number, entry))
        return [results[number] for number in range(len(entries))]

    def resolve(self) -> None:
        """End all transactions of unknown outcome: what a query has committed is stable then.
        Raises UnavailableError."""
        with self._resolving:
            while self._in_doubt:
                number = self._in_doubt[-1]
                opened = _Numbered(number, self._open_transactions(number))
                with self._lock:
                    self._in_doubt.remove(number)
                self._idle.give_back(opened)

    def close(self) -> None:
        """See `IdleProducers`."""
        self._idle.close()

    def _attempt(self, entries: Sequence[Entry], credential: MemberCredential | None) -> Outcome:
        self.resolve()
        taken = self._idle.take() or self._another()
        try:
            return taken.transactions.carry_out(entries, credential)
        finally:
            if taken.transactions.in_doubt:
                taken.close()
                with self._lock:
                    self._in_doubt.append(taken.number)
            else:
                self._idle.give_back(taken)

    def _another(self) -> _Numbered:
        with self._lock:
            number, self._count = self._count, self._count + 1
        try:
            return _Numbered(number, self._open_transactions(number))
        except BaseException:
            with self._lock:
                self._in_doubt.append(number)
            raise


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A producer and its number."""

    number: int
    transactions: Transactions

    def close(self) -> None:
        """Close the producer."""
        self.transactions.close()


def _of_all(error: Exception) -> bool:
    """Whether the halves would not do better: the error is that of all, or says whose it is."""
    return not isinstance(error, StatementError)
