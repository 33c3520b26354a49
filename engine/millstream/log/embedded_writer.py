"""The writer of an embedded log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.log.checks import closed
from millstream.log.log import Appended, Outcome, TopicPartition
from millstream.log.logfile import InDoubtError


@dataclass(frozen=True, slots=True)
class Part:
    """What one writer appends, and how far it moves the positions of its group."""

    identity: str
    epoch: int
    appended: Sequence[Appended[pa.Table]]
    group: str = ""
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)


Write = Callable[[Sequence[Part]], None]
"""Writes the parts in one transaction, or raises FencedError, StatementError, UnavailableError."""


class EmbeddedWriter:
    """`Writer` of one identity on an `EmbeddedLog`."""

    def __init__(self, write: Write, identity: str, epoch: int) -> None:
        self._write = write
        self._identity = identity
        self._epoch = epoch
        self._closed = False

    def append(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """See `Writer`. UnavailableError with code E-LOG-FULL: nothing was written; with code
        E-LOG-UNKNOWN: it may have been."""
        self._require_open()
        self._write((Part(self._identity, self._epoch, appended),))

    def send(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """See `Writer`."""
        self.append(appended)

    def transact(
        self,
        group: str,
        appended: Sequence[Appended[pa.Table]],
        positions: Mapping[TopicPartition, int],
    ) -> Outcome:
        """See `Writer`. Raises UnavailableError (E-LOG-FULL, E-DISK-IO) when nothing was written
        and the same transaction can be tried again."""
        try:
            self._write((self.part(group, appended, positions),))
        except InDoubtError:
            return Outcome.UNKNOWN
        return Outcome.COMMITTED

    def part(
        self,
        group: str,
        appended: Sequence[Appended[pa.Table]],
        positions: Mapping[TopicPartition, int],
    ) -> Part:
        """The same transaction as a part of a larger one."""
        self._require_open()
        return Part(self._identity, self._epoch, appended, group, positions)

    def close(self) -> None:
        """See `Writer`."""
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise closed(f"writer '{self._identity}'")
