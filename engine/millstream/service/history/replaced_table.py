"""A table that is made anew by another query: what of its rows is not as it was."""

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
_KEPT = (
    f"SELECT made.n FROM ({_LAST.format('made_rows')}) made"
    f" LEFT JOIN ({_LAST.format('there_rows')}) there USING (key)"
    " WHERE made.value IS DISTINCT FROM there.value ORDER BY made.n"
)
_GONE = (
    f"SELECT there.n FROM ({_LAST.format('there_rows')}) there"
    " ANTI JOIN made_rows USING (key) WHERE there.value IS NOT NULL ORDER BY there.n"
)


def difference(
    log: Log[pa.Table],
    topic: str,
    width: int,
    made: Sequence[Appended[pa.Table]],
    workspace: Workspace,
) -> Iterator[Appended[pa.Table]]:
    """What has to be written for a table to be what a job has made of it: a deletion, at the time
    of its last row, for each key that it has no more; of the others the last rows, unless they are
    there already."""
    places = [(topic, partition) for partition in range(width)]
    for place, split in whole(log, places).items():
        own = [_plain(item.batch) for item in made if (item.topic, item.partition) == place]
        new = pa.concat_tables([NO_RECORDS, *own])
        rows = _changed(_plain(all_records(log, split)), new, workspace)
        if rows.num_rows:
            yield Appended(*place, rows, rows.num_rows, rows.nbytes)


def _plain(records: pa.Table) -> pa.Table:
    """Without arrival numbers: what is written now arrives now."""
    return records.select(RAW_SCHEMA.names).cast(RAW_SCHEMA)


def _changed(there: pa.Table, made: pa.Table, workspace: Workspace) -> pa.Table:
    with workspace.store() as store, store.cursor() as con:
        for name, rows in (("there_rows", there), ("made_rows", made)):
            numbered = rows.select(["key", "value"])
            con.register(name, numbered.append_column("n", pa.array(np.arange(rows.num_rows))))
        kept = made.take(con.sql(_KEPT).to_arrow_table()["n"])
        gone = there.take(con.sql(_GONE).to_arrow_table()["n"])
    at = gone.schema.get_field_index("value")
    deleted = gone.set_column(at, RAW_SCHEMA.field("value"), pa.nulls(gone.num_rows, pa.binary()))
    return pa.concat_tables([deleted, kept])
