"""How long transactions may take, for their writers and for readers that wait for their end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """`commit_seconds`: how long records are delivered, and a commit is retried, before its outcome
    counts as unknown. It is well below `transaction_seconds`, after which the coordinator aborts
    the transaction."""

    commit_seconds: float
    transaction_seconds: float


_SHARING_SECONDS = 15.0
_ALONE_SECONDS = 60.0
_LONGEST_SECONDS = 900.0
"""What brokers allow by default (`transaction.max.timeout.ms`)."""
_SLOWEST = 1_000_000
"""The assumed least write rate of a large transaction, in bytes per second."""


def sharing(size: int = 0) -> Patience:
    """For a writer whose successors wait until the positions that it may have moved are stable.
    `size`: as of `alone`."""
    seconds = min(_LONGEST_SECONDS, _SHARING_SECONDS + size / _SLOWEST)
    return Patience(seconds * 8 / 15, seconds)


def alone(size: int = 0) -> Patience:
    """For a writer that no other waits for: its successor opens the same identity, which ends its
    transaction. `size`: bytes of its largest transaction."""
    seconds = min(_LONGEST_SECONDS, _ALONE_SECONDS + size / _SLOWEST)
    return Patience(seconds / 2, seconds)
