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

from millstream.log.kafka.transactions import Entry, RefusedError, Transactions
from millstream.log.log import Outcome, Result
from millstream.log.rounds import in_halves
from millstream.model.errors import StatementError, UnavailableError


class ProducerPool:
    """Lends producers to the threads that commit; callable from any thread."""

    def __init__(self, open_transactions: Callable[[int], Transactions]) -> None:
        """`open_transactions` opens the producer of a number, which ends what an earlier one of
        this number left open. Raises UnavailableError."""
        self._open_transactions = open_transactions
        self._lock = threading.Lock()
        self._resolving = threading.Lock()
        self._idle: list[Transactions] = []
        self._in_doubt: list[int] = []
        """The numbers of producers with a transaction of unknown outcome."""
        self._numbers: dict[str, int] = {}
        """The number of each producer by its identity."""
        self._count = 0
        self._closed = False

    def carry_out(self, entries: Sequence[Entry]) -> list[Result]:
        """One transaction for all entries; if it cannot be carried out because of some of them, the
        others are committed without these."""
        results: dict[int, Result] = {}
        left = list(enumerate(entries))
        while left:
            found = in_halves([entry for _, entry in left], self._attempt, _of_all)
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
                opened = self._opened(number)
                with self._lock:
                    self._in_doubt.remove(number)
                self._return(opened)

    def close(self) -> None:
        """Close the producers that are not in use, and the others when they are returned."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()

    def _attempt(self, entries: Sequence[Entry]) -> Outcome:
        self.resolve()
        taken = self._take()
        try:
            return taken.carry_out(entries)
        finally:
            if taken.in_doubt:
                taken.close()
                with self._lock:
                    self._in_doubt.append(self._numbers[taken.identity])
            else:
                self._return(taken)

    def _take(self) -> Transactions:
        with self._lock:
            if self._closed:
                raise UnavailableError("The log is closed")
            if self._idle:
                return self._idle.pop()
            number, self._count = self._count, self._count + 1
        try:
            return self._opened(number)
        except BaseException:
            with self._lock:
                self._in_doubt.append(number)
            raise

    def _opened(self, number: int) -> Transactions:
        opened = self._open_transactions(number)
        self._numbers[opened.identity] = number
        return opened

    def _return(self, transactions: Transactions) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(transactions)
                return
        transactions.close()


def _of_all(error: Exception) -> bool:
    """Whether the halves would not do better: the error is that of all, or says whose it is."""
    return not isinstance(error, StatementError)
