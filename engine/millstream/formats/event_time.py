"""Event time from a column: applies TIMESTAMP and TIMESTAMP_FORMAT to a batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.catalog.source import TimestampColumn
from millstream.model.errors import RecordError
from millstream.model.event_time import LATEST
from millstream.model.java_time import compile_pattern, parse_timestamp
from millstream.model.types import BIGINT, TIMESTAMP, SqlType

INVALID = np.iinfo(np.int64).min
"""Placeholder for an event time that cannot be determined."""


def usable(times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of them are valid event times: from 1970 on, and early enough that adding a duration
    does not overflow."""
    return (times >= 0) & (times <= LATEST)


def event_times(
    column: pa.Array, sql_type: SqlType, timestamp: TimestampColumn
) -> npt.NDArray[np.int64]:
    """Milliseconds since the epoch of each row; not `usable` without one.

    Texts are read by the column's Java pattern, in UTC unless the pattern names a zone.
    """
    if sql_type is BIGINT:
        times = column
    elif sql_type is TIMESTAMP:
        times = pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms"))
        times = times.cast(pa.int64())
    else:
        times = _from_text(column, timestamp.format or "")
    return np.asarray(times.fill_null(int(INVALID)).to_numpy(zero_copy_only=False), np.int64)


def _from_text(column: pa.Array, text: str) -> pa.Array:
    pattern = compile_pattern(text)
    coded = column.dictionary_encode()
    known: list[int | None] = []
    for value in coded.dictionary.to_pylist():
        try:
            known.append(parse_timestamp(pattern, value))
        except RecordError:
            known.append(None)
    return pc.take(pa.array(known, pa.int64()), coded.indices)
