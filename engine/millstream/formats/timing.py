"""When the records of a topic happened, for those who want nothing else of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from millstream.catalog.source import Source
from millstream.formats.codec import DecodeSpec, decode
from millstream.model.batch import PART
from millstream.model.schema import SourceKind

Timing = Callable[[pa.Table, int], pa.Table]
"""From records of a partition (`RAW_SCHEMA`) to `$offset` and `$rowtime` of the usable ones."""


def timing_spec(source: Source) -> DecodeSpec:
    """How to read a source for nothing but its event times."""
    return DecodeSpec(
        source.key_format,
        source.value_format,
        source.schema,
        (),
        source.window,
        source.timestamp,
        is_table=source.kind is SourceKind.TABLE,
    )


@contextmanager
def timing(spec: DecodeSpec, topic: str) -> Iterator[Timing]:
    """Tell event times as `spec` (see `timing_spec`) says."""
    con = duckdb.connect(config={"threads": 1})

    def told(records: pa.Table, partition: int) -> pa.Table:
        part = pa.array([partition] * records.num_rows, pa.int32())
        return decode(con, records.append_column(PART, part), spec, topic).table

    try:
        yield told
    finally:
        con.close()
