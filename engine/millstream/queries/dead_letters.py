"""The dead letter topic of a query: the records that it could not process, as they were.

The headers, and that a record is copied as it is, are those of KIP-1034.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.executor.problems import PROCESSOR
from millstream.log.log import Appended, Log, TopicPartition
from millstream.model.batch import RAW_SCHEMA
from millstream.model.clock import now_ms
from millstream.model.problem import Problem

HEADER = "__streams.errors."
_LOST = frozenset({"DESERIALIZATION", "TIMESTAMP", PROCESSOR})
"""The kinds of problems for which a record is skipped."""
_PAGE = 10_000
"""The offsets that are read at a time."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The topic of a query, empty if it has none."""

    log: Log[pa.Table]
    topic: str

    def letters(self, problems: Iterable[Problem]) -> tuple[Appended[pa.Table], ...]:
        """The records that were skipped, to be appended. They are read from the log again, so this
        raises what `Log.read` does; a record that was deleted meanwhile becomes a letter without
        key and value."""
        if not self.topic:
            return ()
        lost = [problem for problem in problems if problem.kind in _LOST and problem.offset >= 0]
        found = self.log.topic(self.topic) if lost else None
        partitions = 1 if found is None else found.partitions
        made = []
        for place, some in groupby(sorted(lost, key=_place), key=_place):
            letters = self._of(place, list(some))
            partition = place[1] % partitions
            made.append(Appended(self.topic, partition, letters, letters.num_rows, letters.nbytes))
        return tuple(made)

    def _of(self, place: TopicPartition, problems: Sequence[Problem]) -> pa.Table:
        """The letters of one partition."""
        named = {at: each for each in problems for at in (each.offset, *each.others)}
        rows = self._rows(place, sorted(named))
        return pa.Table.from_pylist(
            [_letter(named[at], at, rows.get(at)) for at in sorted(named)], schema=RAW_SCHEMA
        )

    def _rows(self, place: TopicPartition, offsets: Sequence[int]) -> dict[int, dict[str, Any]]:
        """The records at these offsets, which ascend. Those not far apart are read together."""
        rows: dict[int, dict[str, Any]] = {}
        first = self.log.start_offset(*place)
        for start, end in _pages([at for at in offsets if at >= first]):
            at = start
            while at < end:
                fetched = self.log.read(*place, at, end - at)
                if fetched.next_offset <= at:
                    break
                wanted = pc.is_in(fetched.batch["offset"], pa.array(offsets, pa.int64()))
                rows |= {row["offset"]: row for row in fetched.batch.filter(wanted).to_pylist()}
                at = fetched.next_offset
        return rows


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of a dead letter topic: where the record came from, and as it was there."""

    topic: str
    partition: int
    record: Mapping[str, Any]

    @property
    def gone(self) -> bool:
        """Whether the record had been deleted already when the letter was made."""
        return self.record["key"] is None and self.record["value"] is None


def letter_of(row: Mapping[str, Any]) -> Letter | None:
    """What a record of a dead letter topic holds; None for one that is no letter."""
    headers = row["headers"] or ()
    told = {each["key"]: each["value"] or b"" for each in headers if _tells(each)}
    partition = told.get(HEADER + "partition", b"").decode(errors="replace")
    topic = told.get(HEADER + "topic", b"").decode(errors="replace")
    if not (topic and partition.isascii() and partition.isdecimal() and len(partition) < 10):
        return None
    own = [each for each in headers if not _tells(each)]
    return Letter(topic, int(partition), {**row, "offset": 0, "headers": own or None})


def _tells(header: Mapping[str, Any]) -> bool:
    return str(header["key"]).startswith(HEADER)


def _place(problem: Problem) -> TopicPartition:
    return problem.topic, problem.partition


def _pages(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges of at most `_PAGE` offsets that hold all of them."""
    start = end = -1
    for at in offsets:
        if start < 0 or at >= start + _PAGE:
            if start >= 0:
                yield start, end
            start = at
        end = at + 1
    if start >= 0:
        yield start, end


def _letter(problem: Problem, offset: int, row: Mapping[str, Any] | None) -> dict[str, Any]:
    """A record of the dead letter topic."""
    # Retention is by time, so a letter of the distant past would be deleted at once.
    known = row or {"key": None, "value": None, "timestamp": now_ms(), "headers": None}
    told = {
        "exception": problem.kind,
        "message": problem.message,
        "topic": problem.topic,
        "partition": str(problem.partition),
        "offset": str(offset),
    }
    headers = [{"key": HEADER + name, "value": text.encode()} for name, text in told.items()]
    return {
        "offset": 0,
        "timestamp": known["timestamp"],
        "key": known["key"],
        "value": known["value"],
        "headers": [*(known["headers"] or ()), *headers],
    }
