"""How long transactions may take, for who writes them and for who waits for their end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """`commit_seconds`: how long records are delivered, and a commit is tried again before its
    outcome counts as unknown; well below `transaction_seconds`, after which the coordinator gives
    the transaction up."""

    commit_seconds: float
    transaction_seconds: float


_SHARING_SECONDS = 15.0
_ALONE_SECONDS = 60.0
_LONGEST_SECONDS = 900.0
"""What brokers allow unless they are told otherwise (`transaction.max.timeout.ms`)."""
_SLOWEST = 1_000_000
"""So many bytes a second are written of a large transaction at least."""


def sharing(size: int = 0) -> Patience:
    """Of one whose successors wait until the positions he may have moved are settled. `size`: as of
    `alone`."""
    seconds = min(_LONGEST_SECONDS, _SHARING_SECONDS + size / _SLOWEST)
    return Patience(seconds * 8 / 15, seconds)


def alone(size: int = 0) -> Patience:
    """Of one whom nobody waits for: who comes after him opens his identity, which ends it. `size`:
    bytes of his largest transaction."""
    seconds = min(_LONGEST_SECONDS, _ALONE_SECONDS + size / _SLOWEST)
    return Patience(seconds / 2, seconds)
