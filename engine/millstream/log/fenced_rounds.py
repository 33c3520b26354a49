"""Commit rounds of the member of a group: one credential for all its queries.

The order is what makes a round safe. The credential is asked for first. Only when it is there does
each query check whether its tasks were lost: a loss that came before the credential is visible
then, and one that comes later makes the brokers refuse the credential, or the next owner wait for
the end of the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from millstream.log.log import Outcome, Result

Credential = TypeVar("Credential")
Entry = TypeVar("Entry")
"""What one writer contributes to a transaction."""

ATTEMPTS = 5
"""How often a round is tried while the group changes again and again."""


class RefusedCredentialError(Exception):
    """The brokers refuse the credential of a transaction, and nothing of it was written: the group
    has changed, which need not concern the tasks of the queries in it."""


def fenced_round(
    entries: Sequence[Callable[[], Entry | None]],
    ask: Callable[[Credential | None], Credential | None],
    commit: Callable[[Sequence[Entry], Credential], Sequence[Result]],
) -> list[Result]:
    """The results of a round. `entries`: what each query contributes, None if its tasks were lost;
    they are called when the credential is there. `ask`: the credential, another one than that which
    was refused; None if there is none. `commit`: the results of a transaction with a credential."""
    results: dict[int, Result] = {}
    left: Sequence[int] = range(len(entries))
    refused: Credential | None = None
    for _ in range(ATTEMPTS):
        credential = ask(refused) if left else None
        ready = dict(_ready(entries, left, results))
        if credential is None:
            break
        outcomes = commit(list(ready.values()), credential) if ready else ()
        results |= dict(zip(ready, outcomes, strict=True))
        left = [number for number in ready if isinstance(results[number], RefusedCredentialError)]
        refused = credential
    return [_told(results.get(number, Outcome.ABORTED)) for number in range(len(entries))]


def _ready(
    entries: Sequence[Callable[[], Entry | None]],
    numbers: Sequence[int],
    results: dict[int, Result],
) -> list[tuple[int, Entry]]:
    """The entries of those that still have their tasks; the others have their result."""
    ready = []
    for number in numbers:
        try:
            entry = entries[number]()
        except Exception as error:
            results[number] = error
            continue
        if entry is None:
            results[number] = Outcome.ABORTED
        else:
            ready.append((number, entry))
    return ready


def _told(result: Result) -> Result:
    return Outcome.ABORTED if isinstance(result, RefusedCredentialError) else result
