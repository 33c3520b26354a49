"""`--output ARROW` and `--output PARQUET`: the result of a query on standard output, for programs
that read it with the types of its columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from itertools import chain
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet

from millstream.model.errors import StatementError
from millstream.query.results import Done, History, Rows, Stream
from millstream.service.database import Database

BINARY_FORMS = ("ARROW", "PARQUET")
"""A stream of Arrow's IPC format, which is what programs read from a pipe, or a file."""


def write_result(database: Database, text: str, form: str, sink: BinaryIO) -> None:
    """Execute a script and write the result of its last statement, a query, as its rows come. One
    that fails before its first row writes nothing, one that fails or is interrupted later no end
    of the file or stream. A push query without LIMIT is a stream until it is interrupted. Raises
    StatementError if it is none, or does not end in a form that has to."""
    result = database.execute(text)
    if result is None or isinstance(result, Done):
        raise StatementError(
            f"There is nothing to write as {form}: the last statement is no query.",
            hint="End with a SELECT, or leave out --output.",
        )
    try:
        if form == "PARQUET":
            _write_file(result, sink)
        else:
            _write_stream(result, sink)
    finally:
        if hasattr(result, "close"):
            result.close()


def _write_file(result: Rows | Stream | History, sink: BinaryIO) -> None:
    # A push query without LIMIT is refused by `arrow`: a file ends.
    schema, tables = _rows(Rows(result.arrow()) if isinstance(result, Stream) else result)
    writer = pyarrow.parquet.ParquetWriter(sink, schema)
    for table in tables:
        writer.write_table(table)
    writer.close()
    sink.flush()


def _write_stream(result: Rows | Stream | History, sink: BinaryIO) -> None:
    schema, tables = _rows(result)
    writer = pa.ipc.new_stream(sink, schema)
    # Readers wait for the columns, which are written with the first rows, and those may be long in
    # coming.
    writer.write_batch(pa.RecordBatch.from_pylist([], schema))
    sink.flush()
    # A push query without LIMIT ends so, and its stream is whole then. No other result is.
    endless = isinstance(result, Stream) and result.limit is None
    with suppress(KeyboardInterrupt) if endless else nullcontext():
        for table in tables:
            writer.write_table(table)
            sink.flush()
    writer.close()
    sink.flush()


def _rows(result: Rows | Stream | History) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """The columns of a result, and its rows as they come."""
    match result:
        case Rows(table):
            return table.schema, iter([table])
        case Stream():
            schema = result.arrow_schema
            return schema, (table.cast(schema) for table in result.batches())
        case History():
            tables = result.batches()
            first = next(tables, result.empty)
            return first.schema, chain([first], tables)
