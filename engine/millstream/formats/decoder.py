"""Decodes records outside of a query, in a database of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from millstream.catalog.source import Source
from millstream.formats.codec import Decoded, DecodeSpec, decode
from millstream.model.batch import PART
from millstream.model.duckdb_settings import SECURE
from millstream.model.schema import SourceKind
from millstream.model.schema_text import Schemas

Decoder = Callable[[pa.Table, int], Decoded]
"""Converts records of a partition (`RAW_SCHEMA`), with its number, to rows."""


def decode_spec(
    source: Source, columns: tuple[tuple[str, str], ...] = (), schemas: Schemas | None = None
) -> DecodeSpec:
    """How to read columns of a source; without columns, only the event times."""
    return DecodeSpec(
        source.key_format,
        source.value_format,
        source.schema,
        columns,
        source.window,
        source.timestamp,
        is_table=source.kind is SourceKind.TABLE,
        schemas=schemas,
    )


@contextmanager
def decoder(spec: DecodeSpec, topic: str) -> Iterator[Decoder]:
    """Decode records of a topic in a DuckDB of their own."""
    con = duckdb.connect(config={"threads": 1, **SECURE})

    def decoded(records: pa.Table, partition: int) -> Decoded:
        part = pa.array([partition] * records.num_rows, pa.int32())
        return decode(con, records.append_column(PART, part), spec, topic)

    try:
        yield decoded
    finally:
        con.close()
