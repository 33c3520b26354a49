"""What processors have sent in a run, as records for the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from millstream.formats.partition import partition_of
from millstream.log.log import Appended
from millstream.model.batch import RAW_SCHEMA
from millstream.model.errors import StatementError
from millstream.processors.sending import Sent

TopicPartitions = Callable[[str], int]
"""The number of partitions of a topic; raises StatementError if there is none of this name."""


def appended(
    sent: Iterable[Sent], partitions: TopicPartitions | None
) -> tuple[Appended[pa.Table], ...]:
    """The records by topic and partition, each in the order in which they were sent. Raises
    StatementError for a topic, or a partition of it, that does not exist, and in back-fills."""
    widths: dict[str, int] = {}
    rows: dict[tuple[str, int], list[dict[str, object]]] = {}
    for record in sent:
        if partitions is None:
            raise StatementError(
                f"A back-fill cannot send records, and a processor sends to {record.topic}",
                hint="Have it forward to a sink, or create the query without BACKFILL.",
            )
        if record.topic not in widths:
            widths[record.topic] = partitions(record.topic)
        place = (record.topic, _partition(record, widths[record.topic]))
        rows.setdefault(place, []).append(
            {
                "offset": 0,
                "timestamp": record.timestamp_ms,
                "key": record.key,
                "value": record.value,
                "headers": [{"key": name, "value": text} for name, text in record.headers] or None,
            }
        )
    tables = {place: pa.Table.from_pylist(some, schema=RAW_SCHEMA) for place, some in rows.items()}
    return tuple(
        Appended(*place, table, table.num_rows, table.nbytes) for place, table in tables.items()
    )


def _partition(record: Sent, width: int) -> int:
    if record.partition is not None:
        if not 0 <= record.partition < width:
            raise StatementError(
                f"A processor cannot send to partition {record.partition} of topic {record.topic}:"
                f" it has {width}"
            )
        return record.partition
    if record.key is None:
        return record.task % width
    return int(partition_of(pa.array([record.key], pa.binary()), width)[0])
