"""State changes as records: Arrow IPC batches, of one table and partition each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.ipc import pack, pieces, unpack
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
    whole = pa.concat_tables(pieces)
    runs = [rows.num_rows for rows in pieces]
    return whole if table.appended else _last_of_keys(con, table, whole, runs)


def _last_of_keys(
    con: duckdb.DuckDBPyConnection, table: StateTable, rows: pa.Table, runs: Sequence[int]
) -> pa.Table:
    """The last row of each key; `runs`: lengths of stretches that have no key twice."""
    if len(runs) == 1:
        return rows
    number = np.repeat(np.arange(len(runs), dtype=np.int32), runs)
    key = ", ".join(f't."{name}"' for name in (PART, *(name for name, _ in table.key)))
    con.register("$written", rows.append_column(_RUN, pa.array(number)))
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
            for piece in pieces(named):
                blob = pack(piece)
                batch = raw_batch([(None, blob, 0)])
                result.append(Appended(topic, part, batch, 1, len(blob)))
    return tuple(result)


def apply(
    session: Session, partition: int, records: pa.Table
) -> tuple[list[tuple[str, pa.Table]], int]:
    """Write changelog records into the state tables, the last row of each key; gives what was
    written and how many rows the records held. Tables that the program no longer has are skipped.
    """
    pieces = rows_by_table(records, session.tables)
    written = []
    for name, found in pieces.items():
        table = session.tables[name]
        rows = last_rows(session.connection, table, found, partition)
        if not pc.any(rows[DELETED]).as_py():
            rows = rows.drop_columns([DELETED])
        session.upsert(name, rows)
        written.append((name, rows))
    return written, sum(rows.num_rows for found in pieces.values() for rows in found)


def rows_by_table(records: pa.Table, tables: Collection[str]) -> dict[str, list[pa.Table]]:
    """The rows in changelog records: for each of these tables, those of its records in order."""
    found: dict[str, list[pa.Table]] = {}
    for value in records["value"]:
        rows = unpack(value.as_buffer())
        name = (rows.schema.metadata or {}).get(_TABLE, b"").decode()
        if name in tables:
            found.setdefault(name, []).append(rows.replace_schema_metadata(None))
    return found


def last_rows(
    con: duckdb.DuckDBPyConnection, table: StateTable, found: Sequence[pa.Table], partition: int
) -> pa.Table:
    """The last row of each key of several changelog records, as those of a partition."""
    rows = owned_rows(pa.concat_tables(found, promote_options="default"), table, partition)
    return _last_of_keys(con, table, rows, [each.num_rows for each in found])


def owned_rows(rows: pa.Table, table: StateTable, partition: int) -> pa.Table:
    """The rows as those of a partition, with the columns that the table has got since they were
    written."""
    own = pa.array(np.full(rows.num_rows, partition, np.int32))
    rows = rows.set_column(rows.column_names.index(PART), PART, own)
    for name in columns_of(table):
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(rows.num_rows))
    rows = _complete(rows, table)
    deleted = pc.fill_null(rows[DELETED], False)
    return rows.set_column(rows.column_names.index(DELETED), DELETED, deleted)
