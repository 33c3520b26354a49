"""Names and shapes of the Arrow batches that are passed between the rooms.

A *raw* batch holds records in their form on the log. A *typed* batch holds the columns of a schema
under their physical names, followed by the bookkeeping columns named here.
"""

from __future__ import annotations

import pyarrow as pa

PART = "$part"
"""INT32: the partition of the task that owns the row."""
SEQ = "$seq"
"""INT64: processing order within the batch, unique in it, ascending within a partition."""
ROWTIME = "$rowtime"
"""INT64: event time, ms since the epoch, UTC."""
DIFF = "$diff"
"""INT8: +1 for an insertion, -1 for a deletion, 0 for a record without a value: in a stream one
whose value is NULL, in a table the deletion of an absent key. All rows of a stream are +1 or 0. A
table update is -1 old, +1 new, with one `$seq`."""
MOMENT = "$m"
"""INT64: orders the row's causing record between partitions: its arrival number, or the running
maximum of event time in its partition; see `executor.order`."""
SENDER = "$sender"
"""INT16, in the rows of a record on a repartition topic: the task that has sent the row. Missing
where an instance with all tasks has sent the record: these have merged their rows."""
HEADERS = "$headers"
"""LIST<STRUCT<key, value>>: headers of the record that caused the row; NULL means none."""

HEADER_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

RAW_SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADER_TYPE),
    ]
)
"""One partition's records, ascending by offset. `offset` is ignored when appending."""
NO_RECORDS = RAW_SCHEMA.empty_table()
"""The most common result of reading many partitions; building it takes longer than the read."""
ARRIVAL = "arrival"
"""INT64: the record's number in the order in which a log received all of its records. A record that
a query writes has the number of the record that caused it."""
NUMBERED_SCHEMA = RAW_SCHEMA.append(pa.field(ARRIVAL, pa.int64()))
"""The schema of raw batches of topics with arrival numbers (`Topic.numbered`). In a batch to append
the number may be missing: the log assigns the next one."""
NO_NUMBERED_RECORDS = NUMBERED_SCHEMA.empty_table()


def raw_batch(
    records: list[tuple[bytes | None, bytes | None, int]],
    headers: list[list[dict[str, bytes | str | None]] | None] | None = None,
) -> pa.Table:
    """A raw batch from (key, value, timestamp) triples; for tests and single inserts."""
    count = len(records)
    return pa.table(
        {
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([record[2] for record in records], pa.int64()),
            "key": pa.array([record[0] for record in records], pa.binary()),
            "value": pa.array([record[1] for record in records], pa.binary()),
            "headers": pa.array(headers or [None] * count, HEADER_TYPE),
        },
        schema=RAW_SCHEMA,
    )
