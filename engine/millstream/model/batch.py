"""Names and shapes of the Arrow batches that travel between the rooms.

A *raw* batch holds records as they lie on a log. A *typed* batch holds the columns of a schema
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
"""INT8: +1 the row enters, -1 it leaves, 0 a record without a value: for a stream one whose value
is NULL, for a table the deletion of a key that was not there. All rows of a stream are +1 or 0.
A table update is -1 old, +1 new, with one `$seq`."""
MOMENT = "$m"
"""INT64: the place of the record that caused the row in the order between partitions: its arrival
number, or how far event time had come in its partition; see `kernel.order`."""
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
"""What most reads of many partitions find; making it takes longer than the read."""
ARRIVAL = "arrival"
"""INT64: the record's number in the order in which a log received all of its records. What a query
writes has the number of the record that caused it."""
NUMBERED_SCHEMA = RAW_SCHEMA.append(pa.field(ARRIVAL, pa.int64()))
"""Raw batches of topics whose records are numbered as they arrive (`Topic.numbered`). In a batch to
append the number may be missing: the log gives the next one."""
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
