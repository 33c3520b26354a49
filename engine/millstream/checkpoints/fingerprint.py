"""Tells whether a changelog is the one that a checkpoint was made of.

Copies of a file have the same ids, and so have logs that have lost their ends and gone on. Their
records are others, so the last one before its position tells whether a checkpoint belongs to them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pyarrow as pa

from millstream.log.log import DirectReader, Log

_WINDOWS = (4, 64)
"""Offsets in which a record is looked for: some are those of the markers of transactions."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A record of a changelog: its offset, and the SHA-256 of its value."""

    offset: int
    sha256: str


def fingerprint_of(
    log: Log[pa.Table], changelog: str, partition: int, position: int
) -> Fingerprint | None:
    """The last record before a position; None if it is not there any more."""
    start = log.start_offset(changelog, partition)
    for window in _WINDOWS:
        first = max(start, position - window)
        if first < position and (
            found := _last(log, changelog, partition, first, window, position)
        ):
            return found
    return None


def agrees(log: Log[pa.Table], changelog: str, partition: int, fingerprint: Fingerprint) -> bool:
    """Whether a changelog has this record."""
    at = fingerprint.offset
    if not log.start_offset(changelog, partition) <= at < log.end_offset(changelog, partition):
        return False
    return _last(log, changelog, partition, at, 1, at + 1) == fingerprint


def _last(
    log: Log[pa.Table], changelog: str, partition: int, first: int, count: int, end: int
) -> Fingerprint | None:
    fetched = DirectReader(log).read(changelog, partition, first, count, end)
    records = fetched.records()
    if not records.num_rows:
        return None
    value = records["value"][-1].as_buffer()
    return Fingerprint(records["offset"][-1].as_py(), hashlib.sha256(value).hexdigest())
