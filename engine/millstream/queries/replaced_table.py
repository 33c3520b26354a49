"""Computes the difference between a table and its recomputed content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from millstream.history.reading import all_records
from millstream.history.splits import whole
from millstream.history.workspace import Workspace
from millstream.log.log import Appended, Log
from millstream.model.batch import NO_RECORDS, RAW_SCHEMA

_LAST = (
    "SELECT key, value, n FROM {} QUALIFY row_number() OVER (PARTITION BY key ORDER BY n DESC) = 1"
)
_CHANGED = (
    f"SELECT recomputed.n FROM ({_LAST.format('recomputed_rows')}) recomputed"
    f" LEFT JOIN ({_LAST.format('existing_rows')}) existing USING (key)"
    " WHERE recomputed.value IS DISTINCT FROM existing.value ORDER BY recomputed.n"
)
_DELETED = (
    f"SELECT existing.n FROM ({_LAST.format('existing_rows')}) existing"
    " ANTI JOIN recomputed_rows USING (key) WHERE existing.value IS NOT NULL ORDER BY existing.n"
)


def difference(
    log: Log[pa.Table],
    topic: str,
    width: int,
    recomputed: Sequence[Appended[pa.Table]],
    workspace: Workspace,
) -> Iterator[Appended[pa.Table]]:
    """The records that turn a table into its recomputed content: for each key that is gone, a
    deletion with the time of the key's last row; for each other key, its last row, unless the table
    has the same one already. `recomputed`: the records that the job produced."""
    topic_partitions = [(topic, partition) for partition in range(width)]
    for topic_partition, split in whole(log, topic_partitions).items():
        batches = [
            _plain(item.batch)
            for item in recomputed
            if (item.topic, item.partition) == topic_partition
        ]
        new = pa.concat_tables([NO_RECORDS, *batches])
        rows = _changed(_plain(all_records(log, split)), new, workspace)
        if rows.num_rows:
            yield Appended(*topic_partition, rows, rows.num_rows, rows.nbytes)


def _plain(records: pa.Table) -> pa.Table:
    """The records without arrival numbers, since they get new ones when they are written."""
    return records.select(RAW_SCHEMA.names).cast(RAW_SCHEMA)


def _changed(existing: pa.Table, recomputed: pa.Table, workspace: Workspace) -> pa.Table:
    with workspace.store() as store, store.cursor() as con:
        for name, rows in (("existing_rows", existing), ("recomputed_rows", recomputed)):
            numbered = rows.select(["key", "value"])
            con.register(name, numbered.append_column("n", pa.array(np.arange(rows.num_rows))))
        changed = recomputed.take(con.sql(_CHANGED).to_arrow_table()["n"])
        last = existing.take(con.sql(_DELETED).to_arrow_table()["n"])
    at = last.schema.get_field_index("value")
    deletions = last.set_column(at, RAW_SCHEMA.field("value"), pa.nulls(last.num_rows, pa.binary()))
    return pa.concat_tables([deletions, changed])
