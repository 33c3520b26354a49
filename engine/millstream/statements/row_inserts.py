"""Inserts rows that a client sends as JSON objects into a stream."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millstream.catalog.source import Source
from millstream.formats.json import read_json
from millstream.formats.json_value import text_behind
from millstream.formats.payload import Layout
from millstream.model.errors import MillstreamError, StatementError
from millstream.model.event_time import LATEST
from millstream.model.physical import arrow_type
from millstream.model.schema import Column, SourceKind
from millstream.model.types import BIGINT, DATE, STRING, TIME, TIMESTAMP
from millstream.query.session import Session
from millstream.statements import wordings
from millstream.statements.inserting import (
    Inserts,
    append,
    insertable_schema,
    refuse_insert,
    rowtime_error,
)
from millstream.statements.row_values import truncated_fractions

_ROWTIME = Column("ROWTIME", BIGINT)
_TEMPORAL = (DATE, TIME, TIMESTAMP)
_DECODER = json.JSONDecoder()
_READ_MAX = 300
"""The most rows that Python reads sooner than DuckDB begins a statement over them."""
_QUOTED_MAX = 40
"""The most characters of unexpected text that an error shows."""


@dataclass(frozen=True, slots=True)
class InsertResult:
    """The number of rows that were appended, and the error of the row after them, if any."""

    count: int
    error: MillstreamError | None = None


class RowInserts:
    """Inserts rows into one stream. Members of the objects match columns regardless of case, as in
    the JSON format. Missing members are NULL, unknown ones are ignored; ROWTIME is allowed."""

    def __init__(self, source: Source, inserts: Inserts) -> None:
        """Does not check whether the source accepts rows: `open_inserts` does."""
        self._source = source
        self._inserts = inserts
        self._columns = (*insertable_schema(source).columns, _ROWTIME)
        # Clients send times as ISO text, not as the numbers of the JSON format.
        json_columns = tuple(
            Column(c.name, STRING if c.type in _TEMPORAL else c.type) for c in self._columns
        )
        self._layout = Layout(json_columns, tuple(range(len(json_columns))))

    def insert(self, rows: Sequence[bytes]) -> InsertResult:
        """Append rows up to the first invalid one. They are durable when this returns."""
        cursor = self._inserts.registry.store.cursor()
        try:
            decoded = read_json(cursor, pa.array(rows, pa.binary()), self._layout)
            errors = {
                **truncated_fractions(rows, self._columns),
                **_trailing_text_errors(cursor, rows),
                **decoded.bad,
            }
        finally:
            cursor.close()
        first = min(errors, default=len(rows))
        error: MillstreamError | None = None
        if first < len(rows):
            error = wordings.ROW_REFUSED(source=self._source.name, bad=errors[first])
        columns: dict[str, pa.Array] = {}
        for column, values in zip(self._columns, decoded.columns, strict=True):
            try:
                columns[column.name] = _cast(values.slice(0, first), column)
            except pa.ArrowInvalid as failure:
                if len(rows) == 1:
                    return InsertResult(0, _type_error(column, self._source, failure))
                return self._one_by_one(rows[:first], error)
        times = self._times(columns.pop("ROWTIME"))
        invalid = pc.index(pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, LATEST)), False)
        if invalid.as_py() >= 0:
            first = invalid.as_py()
            error = rowtime_error(times[first].as_py())
            columns = {name: values.slice(0, first) for name, values in columns.items()}
        if first:
            append(self._source, columns, times.slice(0, first), self._inserts)
        return InsertResult(first, error)

    def _one_by_one(self, rows: Sequence[bytes], error: MillstreamError | None) -> InsertResult:
        for number, row in enumerate(rows):
            done = self.insert([row])
            if done.error is not None:
                return InsertResult(number, done.error)
        return InsertResult(len(rows), error)

    def _times(self, rowtimes: pa.Array) -> pa.Array:
        return pc.fill_null(rowtimes, pa.scalar(self._inserts.clock(), pa.int64()))


def open_inserts(target: str, inserts: Inserts, session: Session) -> RowInserts:
    """Open a stream for inserts; raises StatementError if it accepts none."""
    if not session.flag("ksql.insert.into.values.enabled"):
        raise wordings.INSERTS_DISABLED()
    source = inserts.registry.catalog.find(target)
    if source is None:
        raise wordings.ROWS_INTO_UNKNOWN(
            name=target, hint=inserts.registry.catalog.spelling_hint(target)
        )
    if source.kind is SourceKind.TABLE:
        raise wordings.ROWS_INTO_TABLE(
            hint=f"{source.name} is a table: INSERT INTO … VALUES writes rows into tables."
        )
    if source.schema.headers:
        names = ", ".join(column.name for column in source.schema.headers)
        raise wordings.INSERTED_HEADER(names=names)
    refuse_insert(source, "insert values into", inserts.registry.catalog, inserts.registry.settings)
    return RowInserts(source, inserts)


def _trailing_text_errors(
    cursor: duckdb.DuckDBPyConnection, rows: Sequence[bytes]
) -> dict[int, str]:
    """The errors of the rows with text after their object, by index. A record of a topic may have
    such text. A request may not: the text is most likely the next row without a line break."""
    suspects: Sequence[int] = range(len(rows))
    if len(rows) > _READ_MAX:
        table = pa.table({"n": suspects, "j": pa.array(rows, pa.binary())})
        invalid = cursor.from_arrow(table).filter("try(json_valid(decode(j))) IS NOT TRUE")
        suspects = [number for (number,) in invalid.project("n").fetchall()]
    errors: dict[int, str] = {}
    for number in suspects:
        try:
            trailing = text_behind(rows[number], _DECODER)
        except ValueError:
            continue  # `read_json` reports the error.
        if trailing:
            errors[number] = (
                f"the row is followed by more text on its line: {trailing[:_QUOTED_MAX]!r}"
            )
    return errors


def _cast(values: pa.Array, column: Column) -> pa.Array:
    """Cast values to the column's Arrow type. Times are parsed from ISO text."""
    kind = arrow_type(column.type)
    if column.type not in _TEMPORAL:
        return values.cast(kind)
    if column.type is TIME:
        values = pc.binary_join_element_wise("1970-01-01T", values, "")
    return values.cast(pa.timestamp("us")).cast(kind)


def _type_error(column: Column, source: Source, failure: Exception) -> StatementError:
    bad = f"the value of {column.name} is no {column.type}"
    return wordings.ROW_REFUSED(source=source.name, bad=bad, detail=str(failure))
