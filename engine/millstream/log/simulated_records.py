"""The records of a simulated log: pieces, each of which may belong to a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic

from millstream.log.log import Batch, TopicPartition


class Fate(Enum):
    """The state of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True)
class Transaction:
    """A transaction: records and positions that become visible together or never."""

    identity: str
    group: str
    positions: Mapping[TopicPartition, int]
    fate: Fate = Fate.OPEN


@dataclass(frozen=True, slots=True)
class RecordRun(Generic[Batch]):
    """Records at consecutive offsets from `first`; a marker is a piece without records that takes
    one offset."""

    first: int
    next: int
    batch: Batch
    transaction: Transaction | None
    marker: bool = False

    @property
    def fate(self) -> Fate:
        """The state of its transaction; committed without one."""
        return self.transaction.fate if self.transaction else Fate.COMMITTED


@dataclass(slots=True)
class Partition(Generic[Batch]):
    """The records of a partition between its first and its next offset."""

    start: int = 0
    next: int = 0
    pieces: list[RecordRun[Batch]] = field(default_factory=list)

    def stable(self) -> int:
        """The offset before which every transaction is complete."""
        opened = (piece.first for piece in self.pieces if piece.fate is Fate.OPEN)
        return next(opened, self.next)

    def add(self, batch: Batch, count: int, transaction: Transaction | None) -> None:
        """Append records."""
        self.pieces.append(RecordRun(self.next, self.next + count, batch, transaction))
        self.next += count

    def mark(self, batch: Batch) -> None:
        """Append the marker that ends a transaction; `batch` is an empty one."""
        self.pieces.append(RecordRun(self.next, self.next + 1, batch, None, marker=True))
        self.next += 1


def undo(held: Partition[Batch], transaction: Transaction) -> None:
    """Reuse an aborted transaction's offsets if nothing follows them; otherwise they stay as a
    gap."""
    while held.pieces and held.pieces[-1].transaction is transaction:
        held.next = held.pieces.pop().first
