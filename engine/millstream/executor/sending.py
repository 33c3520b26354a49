"""What processors have sent in a run, as records for the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa

from millstream.executor.sink import Encoded, destinations
from millstream.log.log import Appended
from millstream.model.batch import PART, RAW_SCHEMA
from millstream.model.errors import StatementError
from millstream.processors.sending import Sent

TopicPartitions = Callable[[str], int]
"""The number of partitions of a topic; raises StatementError if there is none of this name."""


def appended(
    sent: Iterable[Sent], partitions: TopicPartitions | None
) -> tuple[Appended[pa.Table], ...]:
    """The records by topic and partition, each in the order in which they were sent. Raises
    StatementError for a topic, or a partition of it, that does not exist, and in back-fills."""
    topics: dict[str, list[Sent]] = {}
    for record in sent:
        topics.setdefault(record.topic, []).append(record)
    if topics and partitions is None:
        raise StatementError(
            f"A back-fill cannot send records, and a processor sends to {min(topics)}",
            hint="Have it forward to a sink, or create the query without BACKFILL.",
        )
    found: tuple[Appended[pa.Table], ...] = ()
    for topic, records in topics.items():
        assert partitions is not None
        found += _encoded(records, partitions(topic)).appended(topic)
    return found


def _encoded(records: Sequence[Sent], width: int) -> Encoded:
    """The records of a topic with so many partitions."""
    rows = pa.Table.from_pylist(
        [
            {
                "offset": 0,
                "timestamp": record.timestamp_ms,
                "key": record.key,
                "value": record.value,
                "headers": [{"key": name, "value": text} for name, text in record.headers] or None,
            }
            for record in records
        ],
        schema=RAW_SCHEMA,
    )
    tasks = rows.append_column(PART, pa.array([record.task for record in records], pa.int32()))
    destination = destinations(rows["key"].combine_chunks(), tasks, width)
    for place, record in enumerate(records):
        if record.partition is not None:
            destination[place] = _checked(record, width)
    return Encoded(rows, destination, np.arange(len(records)))


def _checked(record: Sent, width: int) -> int:
    assert record.partition is not None
    if not 0 <= record.partition < width:
        raise StatementError(
            f"A processor cannot send to partition {record.partition} of topic {record.topic}:"
            f" it has {width}"
        )
    return record.partition
