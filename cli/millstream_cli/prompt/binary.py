"""`--output ARROW` and `--output PARQUET`: the result of a query on standard output, for programs
that read it with the types of its columns."""

from __future__ import annotations

from io import BytesIO
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet

from millstream.model.errors import StatementError
from millstream.query.results import Done
from millstream.service.database import Database

BINARY_FORMS = ("ARROW", "PARQUET")
"""A stream of Arrow's IPC format, which is what programs read from a pipe, or a file."""


def write_result(database: Database, text: str, form: str, sink: BinaryIO) -> None:
    """Execute a script and write the result of its last statement, which has to be a query that
    ends. Nothing is written if it fails. Raises StatementError if it is none."""
    result = database.execute(text)
    if result is None or isinstance(result, Done):
        raise StatementError(
            f"There is nothing to write as {form}: the last statement is no query.",
            hint="End with a SELECT, or leave out --output.",
        )
    try:
        table = result.arrow()
    finally:
        if hasattr(result, "close"):
            result.close()
    written = BytesIO()
    if form == "PARQUET":
        pyarrow.parquet.write_table(table, written)
    else:
        with pa.ipc.new_stream(written, table.schema) as writer:
            writer.write_table(table)
    sink.write(written.getbuffer())
    sink.flush()
