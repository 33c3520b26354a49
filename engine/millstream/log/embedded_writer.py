"""The writer of an embedded log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from millstream.log.checks import closed
from millstream.log.log import Appended, Outcome, TopicPartition
from millstream.log.logfile import InDoubtError


class Write(Protocol):
    """Append records and move a group's positions in one transaction, or raise."""

    def __call__(
        self,
        identity: str,
        epoch: int,
        appended: Sequence[Appended[pa.Table]],
        group: str = "",
        positions: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Run the transaction; raises FencedError, StatementError, UnavailableError."""


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
        self._write(self._identity, self._epoch, appended)

    def transact(
        self,
        group: str,
        appended: Sequence[Appended[pa.Table]],
        positions: Mapping[TopicPartition, int],
    ) -> Outcome:
        """See `Writer`. Raises UnavailableError (E-LOG-FULL, E-DISK-IO) when nothing was written
        and the same transaction can be tried again."""
        self._require_open()
        try:
            self._write(self._identity, self._epoch, appended, group, positions)
        except InDoubtError:
            return Outcome.UNKNOWN
        return Outcome.COMMITTED

    def close(self) -> None:
        """See `Writer`."""
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise closed(f"writer '{self._identity}'")
