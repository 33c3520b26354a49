"""State changes as records: one Arrow IPC batch for each table, partition and commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.ipc import pack, unpack
from millstream.log.log import Appended
from millstream.model.batch import PART, raw_batch
from millstream.operators.program import StateTable
from millstream.state.store import Session
from millstream.state.tables import DELETED, columns_of

_TABLE = b"millstream.table"
_RUN = "$run"


def latest(
    con: duckdb.DuckDBPyConnection, table: StateTable, written: Sequence[pa.Table]
) -> pa.Table:
    """The last row of each key of several runs, each of which wrote a key at most once."""
    pieces = [_complete(rows, table) for rows in written]
    return pa.concat_tables(pieces) if table.appended else _last(con, table, pieces)


def _last(con: duckdb.DuckDBPyConnection, table: StateTable, pieces: list[pa.Table]) -> pa.Table:
    """The last row of each key of several pieces, each of which has a key at most once."""
    if len(pieces) == 1:
        return pieces[0]
    numbered = [
        rows.append_column(_RUN, pa.array(np.full(rows.num_rows, run, np.int32)))
        for run, rows in enumerate(pieces)
    ]
    rows = pa.concat_tables(numbered, promote_options="default")
    key = ", ".join(f't."{name}"' for name in (PART, *(name for name, _ in table.key)))
    con.register("$written", rows)
    kept = con.sql(
        f'SELECT t.* EXCLUDE ("{_RUN}") FROM "$written" t '
        f'QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY "{_RUN}" DESC) = 1'
    ).to_arrow_table()
    con.unregister("$written")
    return kept


def _complete(rows: pa.Table, table: StateTable) -> pa.Table:
    """The table's columns, then `$deleted`."""
    if DELETED not in rows.column_names:
        rows = rows.append_column(DELETED, pa.array(np.zeros(rows.num_rows, np.bool_)))
    return rows.select([*columns_of(table), DELETED])


def changelog_records(
    topic: str, changed: Mapping[str, pa.Table]
) -> tuple[Appended[pa.Table], ...]:
    """Records for each partition that has changes. Their time is 0: they are not events."""
    result = []
    for name, rows in changed.items():
        parts = rows[PART].to_numpy()
        for part in np.unique(parts).tolist():
            own = rows if len(parts) == 0 else rows.filter(pa.array(parts == part))
            named = own.replace_schema_metadata({_TABLE: name.encode()})
            blob = pack(named)
            batch = raw_batch([(None, blob, 0)])
            result.append(Appended(topic, part, batch, 1, len(blob)))
    return tuple(result)


def apply(
    session: Session, partition: int, records: pa.Table
) -> tuple[list[tuple[str, pa.Table]], int]:
    """Write changelog records into the state tables, the last row of each key; gives what was
    written and how many rows the records held. Tables that the program no longer has are passed
    over."""
    pieces: dict[str, list[pa.Table]] = {}
    for value in records["value"]:
        rows = unpack(value.as_buffer())
        name = (rows.schema.metadata or {}).get(_TABLE, b"").decode()
        if name in session.tables and rows.num_rows:
            own = pa.array(np.full(rows.num_rows, partition, np.int32))
            rows = rows.set_column(rows.column_names.index(PART), PART, own)
            rows = _widened(rows.replace_schema_metadata(None), session.tables[name])
            pieces.setdefault(name, []).append(_complete(rows, session.tables[name]))
    count = sum(rows.num_rows for found in pieces.values() for rows in found)
    written = []
    for name, found in pieces.items():
        rows = _last(session.connection, session.tables[name], found)
        if not pc.any(rows[DELETED]).as_py():
            rows = rows.drop_columns([DELETED])
        session.upsert(name, rows)
        written.append((name, rows))
    return written, count


def _widened(rows: pa.Table, table: StateTable) -> pa.Table:
    """The rows with the columns that the table has got since they were written."""
    for name in columns_of(table):
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows))
    return rows
