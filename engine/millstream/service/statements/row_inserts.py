"""Rows of a client, as JSON objects, that become records of a stream one after another."""

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
from millstream.service import wordings
from millstream.service.engine import Engine
from millstream.service.session import Session
from millstream.service.statements.inserting import (
    append,
    insertable,
    refuse_insert,
    wrong_time,
)
from millstream.service.statements.row_values import cut_fractions

_ROWTIME = Column("ROWTIME", BIGINT)
_TEMPORAL = (DATE, TIME, TIMESTAMP)
_DECODER = json.JSONDecoder()
_QUOTED = 40
"""How many characters of wrong text an error shows."""


@dataclass(frozen=True, slots=True)
class Inserted:
    """How many rows were appended, and why the one behind them was not."""

    count: int
    error: MillstreamError | None = None


class RowInserts:
    """Inserts into one stream. Members of the objects are found whatever their case, as in the JSON
    format; missing ones are NULL, unknown ones are ignored, ROWTIME may be given."""

    def __init__(self, source: Source, engine: Engine) -> None:
        """StatementError for a target that takes no rows; see `open_inserts`."""
        self._source = source
        self._engine = engine
        self._columns = (*insertable(source).columns, _ROWTIME)
        # Times come as ISO text here, not as the numbers of the JSON format.
        read = tuple(
            Column(c.name, STRING if c.type in _TEMPORAL else c.type) for c in self._columns
        )
        self._layout = Layout(read, tuple(range(len(read))))

    def insert(self, rows: Sequence[bytes]) -> Inserted:
        """Append rows up to the first that cannot be; they are durable when this returns."""
        cursor = self._engine.store.cursor()
        try:
            read = read_json(cursor, pa.array(rows, pa.binary()), self._layout)
            cut = cut_fractions(rows, self._columns)
            bad = {**cut, **_continued(cursor, rows), **read.bad}
        finally:
            cursor.close()
        first = min(bad, default=len(rows))
        error: MillstreamError | None = None
        if first < len(rows):
            error = wordings.ROW_REFUSED(source=self._source.name, bad=bad[first])
        given: dict[str, pa.Array] = {}
        for column, values in zip(self._columns, read.columns, strict=True):
            try:
                given[column.name] = _as(values.slice(0, first), column)
            except pa.ArrowInvalid as failure:
                if len(rows) == 1:
                    return Inserted(0, _unfit(column, self._source, failure))
                return self._one_by_one(rows[:first], error)
        times = self._times(given.pop("ROWTIME"))
        wrong = pc.index(pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, LATEST)), False)
        if wrong.as_py() >= 0:
            first = wrong.as_py()
            error = wrong_time(times[first].as_py())
            given = {name: values.slice(0, first) for name, values in given.items()}
        if first:
            append(self._source, given, times.slice(0, first), self._engine)
        return Inserted(first, error)

    def _one_by_one(self, rows: Sequence[bytes], error: MillstreamError | None) -> Inserted:
        for number, row in enumerate(rows):
            done = self.insert([row])
            if done.error is not None:
                return Inserted(number, done.error)
        return Inserted(len(rows), error)

    def _times(self, given: pa.Array) -> pa.Array:
        return pc.fill_null(given, pa.scalar(self._engine.clock(), pa.int64()))


def open_inserts(target: str, engine: Engine, session: Session) -> RowInserts:
    """The inserts into a stream; StatementError where it takes none."""
    if not session.flag("ksql.insert.into.values.enabled"):
        raise wordings.INSERTS_DISABLED()
    source = engine.catalog.find(target)
    if source is None:
        raise wordings.ROWS_INTO_UNKNOWN(name=target, hint=engine.catalog.spelling_hint(target))
    if source.kind is SourceKind.TABLE:
        raise wordings.ROWS_INTO_TABLE(
            hint=f"{source.name} is a table: INSERT INTO … VALUES writes rows into tables."
        )
    if source.schema.headers:
        names = ", ".join(column.name for column in source.schema.headers)
        raise wordings.INSERTED_HEADER(names=names)
    refuse_insert(source, "insert values into", engine.catalog, engine.settings)
    return RowInserts(source, engine)


def _continued(cursor: duckdb.DuckDBPyConnection, rows: Sequence[bytes]) -> dict[int, str]:
    """Why each row with text behind its object is refused. A record of a topic may have such text,
    a request may not: what follows is most likely a row without its line break."""
    table = pa.table({"n": range(len(rows)), "j": pa.array(rows, pa.binary())})
    doubtful = cursor.from_arrow(table).filter("try(json_valid(decode(j))) IS NOT TRUE")
    found: dict[int, str] = {}
    for (number,) in doubtful.project("n").fetchall():
        try:
            behind = text_behind(rows[number], _DECODER)
        except ValueError:
            continue  # The reader says what is wrong with it.
        if behind:
            found[number] = f"the row is followed by more text on its line: {behind[:_QUOTED]!r}"
    return found


def _as(values: pa.Array, column: Column) -> pa.Array:
    """Values in the column's Arrow type, times from ISO text."""
    kind = arrow_type(column.type)
    if column.type not in _TEMPORAL:
        return values.cast(kind)
    if column.type is TIME:
        values = pc.binary_join_element_wise("1970-01-01T", values, "")
    return values.cast(pa.timestamp("us")).cast(kind)


def _unfit(column: Column, source: Source, failure: Exception) -> StatementError:
    bad = f"the value of {column.name} is no {column.type}"
    return wordings.ROW_REFUSED(source=source.name, bad=bad, detail=str(failure))
