"""What a query has made, as it counts: all records of a stream, the last ones of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from millstream.log.log import Appended, Log
from millstream.model.schema import SourceKind

Record = tuple[int, bytes | None, bytes | None, int, str]
"""Partition, key (with its window), value, event time, headers."""


def records_in(partition: int, batch: pa.Table) -> Iterable[Record]:
    """The records of a batch."""
    for row in batch.to_pylist():
        yield partition, row["key"], row["value"], row["timestamp"], str(row["headers"] or [])


def written(log: Log[pa.Table], topic: str) -> list[Record]:
    """All records on a topic."""
    described = log.topic(topic)
    found: list[Record] = []
    for partition in range(described.partitions if described else 0):
        offset, end = 0, False
        while not end:
            fetched = log.read(topic, partition, offset, 100_000)
            found += records_in(partition, fetched.batch)
            offset, end = fetched.next_offset, fetched.end
    return found


def made(outputs: Iterable[Appended[pa.Table]]) -> list[Record]:
    """All records of what a bounded run hands out."""
    return [row for output in outputs for row in records_in(output.partition, output.batch)]


def final(records: Iterable[Record], kind: SourceKind) -> Any:
    """What is left of them in the end."""
    if kind is SourceKind.STREAM:
        return Counter(records)
    last = {(partition, key): rest for partition, key, *rest in records}
    return {place: rest for place, rest in last.items() if rest[0] is not None}
