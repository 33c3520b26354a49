"""Reads the records of an embedded log from its tables, and checks that they are those."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa

from millstream.log.stored import Segment, Stored
from millstream.log.tables import HEADERS_TYPE
from millstream.model.batch import ARRIVAL
from millstream.model.errors import CorruptionError


def read_records(
    cursor: duckdb.DuckDBPyConnection, stored: Stored, partition: int, first: int, stop: int
) -> pa.Table:
    """The records of a partition with offsets in [first, stop), in the schema of the topic; see
    `_read_segment`."""
    segments = stored.segments_between(partition, first, stop)
    bounds = [segment.first[partition] for segment in segments]
    pieces = [
        _read_segment(cursor, stored, segment, partition, max(first, low), high)
        for segment, low, high in zip(segments, bounds, [*bounds[1:], stop], strict=True)
    ]
    return pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces)


def read_sparse(
    cursor: duckdb.DuckDBPyConnection,
    stored: Stored,
    partition: int,
    first: int,
    stop: int,
    most: int,
) -> tuple[pa.Table, int]:
    """At most `most` records of a partition with offsets in [first, stop), some of which have none;
    and the offset behind what was read. Raises CorruptionError when they are not in order."""
    pieces: list[pa.Table] = []
    segments = stored.segments_between(partition, first, stop)
    bounds = [*(segment.first[partition] for segment in segments[1:]), stop]
    for segment, end in zip(segments, bounds, strict=True):
        where = f"part = {partition} AND off >= {first} AND off < {end} LIMIT {most}"
        piece = _select(cursor, stored, segment, where)
        if segment.generation == 0:
            _check_dense(stored, partition, piece, first, min(end, first + most))
        elif not _ascending(piece, first):
            raise _disordered(stored, partition, first, end)
        pieces.append(piece)
        most -= piece.num_rows
        if most == 0:
            return pa.concat_tables(pieces), int(piece["offset"][-1].as_py()) + 1
        first = end
    return pa.concat_tables(pieces), stop


def _ascending(records: pa.Table, first: int) -> bool:
    """Whether the offsets ascend, from `first` or later."""
    offsets = records["offset"].to_numpy()
    return not len(offsets) or bool(offsets[0] >= first and np.all(np.diff(offsets) > 0))


def _disordered(stored: Stored, partition: int, first: int, stop: int) -> CorruptionError:
    return CorruptionError(
        f"Topic '{stored.topic.name}', partition {partition}: the records at offsets {first} "
        f"to {stop - 1} are not in order."
    )


def _read_segment(
    cursor: duckdb.DuckDBPyConnection,
    stored: Stored,
    segment: Segment,
    partition: int,
    first: int,
    stop: int,
) -> pa.Table:
    """The records of one segment with offsets in [first, stop), in the schema of the topic.

    Raises CorruptionError when any of them is missing. Rows of a partition lie in the order of
    their offsets, so no sort is needed, and zone maps skip what is outside the range.
    """
    where = f"part = {partition} AND off >= {first} AND off < {stop}"
    rows = _select(cursor, stored, segment, where)
    _check_dense(stored, partition, rows, first, stop)
    return rows


def _select(
    cursor: duckdb.DuckDBPyConnection, stored: Stored, segment: Segment, where: str
) -> pa.Table:
    headers = ", headers" if segment.headers else f", NULL::{HEADERS_TYPE} AS headers"
    arrival = f", {ARRIVAL}" if stored.topic.numbered else ""
    rows = cursor.sql(
        f'SELECT off AS "offset", ts AS timestamp, key, value{headers}{arrival} '
        f"FROM {stored.relation(segment)} WHERE {where}"
    ).to_arrow_table()
    return rows.cast(stored.schema)


def _check_dense(stored: Stored, partition: int, rows: pa.Table, first: int, stop: int) -> None:
    found = rows["offset"].to_numpy()
    if len(found) != stop - first or not np.array_equal(found, np.arange(first, stop)):
        raise CorruptionError(
            f"Topic '{stored.topic.name}', partition {partition}: the records at offsets {first} "
            f"to {stop - 1} are not all there."
        )
