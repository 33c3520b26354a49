"""Inserts the rows of a program: all of them in one transaction, converted by whole columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.log.log import Appended
from millstream.model.errors import StatementError
from millstream.model.event_time import LATEST
from millstream.model.schema import Column, SourceKind
from millstream.query.session import Session
from millstream.statements import wordings
from millstream.statements.column_values import Conversion, UnfitError, conversion, misfit
from millstream.statements.inserting import (
    Inserts,
    encoded_records,
    insertable_schema,
    refuse_insert,
    rowtime_error,
    target_columns,
)
from millstream.statements.row_tables import RowTable, RowValues, read_rows
from millstream_parser.statements import InsertValues

BATCH_ROWS = 100_000
"""How many rows are converted and encoded at once: few enough to stay in the processor's cache."""
_DATA, _STATEMENT = "The data", "INSERT INTO … VALUES"


@dataclass(frozen=True, slots=True)
class _Bulk:
    """Rows on their way into a source. `now`: the time of those without ROWTIME. `before`: how many
    rows to count before the first one."""

    source: Source
    data: RowTable
    targets: Sequence[Column]
    inserts: Inserts
    now: int
    before: int


class _RowError(Exception):
    """A row, counted from 0, cannot be inserted."""

    def __init__(self, row: int, error: StatementError) -> None:
        super().__init__(row)
        self.row = row
        self.error = error


def insert_rows(
    target: str,
    data: Any,
    columns: Sequence[str] | None,
    inserts: Inserts,
    session: Session,
    before: int = 0,
) -> int:
    """Append rows to a stream or table, all or none; returns their number. They are durable when
    this returns. `before`: how many rows errors count before the first one. Raises StatementError
    for a row that INSERT INTO … VALUES would refuse."""
    records = records_to_insert(target, data, columns, inserts, session, before)
    if records:
        inserts.writer.append(records)
        session.inserted = True
    return sum(record.count for record in records)


def records_to_insert(
    target: str,
    data: Any,
    columns: Sequence[str] | None,
    inserts: Inserts,
    session: Session,
    before: int = 0,
) -> list[Appended[pa.Table]]:
    """The records of `insert_rows`, which are not appended yet."""
    catalog = inserts.registry.catalog
    source = _source(target, catalog)
    _check_target(source, catalog, inserts, session)
    rows = read_rows(data, columns, len(insertable_schema(source).columns), before)
    known = {*source.schema.names, "ROWTIME"}
    names = [name if name in known else name.upper() for name in rows.names]
    if rows.rows == 0 and not names:
        return []
    return _all_records(source, rows, names, _DATA, inserts, before)


def insert_tuples(
    statement: InsertValues, data: Sequence[RowValues], inserts: Inserts, session: Session
) -> int:
    """`insert_rows` of the values of INSERT INTO … VALUES (?, …), one tuple for each execution."""
    catalog = inserts.registry.catalog
    source = catalog.find(statement.target)
    if source is None:
        hint = catalog.spelling_hint(statement.target)
        raise wordings.INSERT_INTO_UNKNOWN(name=statement.target, hint=hint)
    (values,) = statement.rows
    names = statement.columns
    target_columns(source, names, len(values), _STATEMENT)
    _check_target(source, catalog, inserts, session)
    rows = read_rows(data, names or None, len(insertable_schema(source).columns))
    return _insert(source, rows, names, _STATEMENT, inserts, session)


def _check_target(source: Source, catalog: Catalog, inserts: Inserts, session: Session) -> None:
    """Raise StatementError if a source takes no rows."""
    if not session.flag("ksql.insert.into.values.enabled"):
        raise wordings.INSERTS_DISABLED()
    refuse_insert(source, "insert values into", catalog, inserts.registry.settings)


def _insert(
    source: Source,
    rows: RowTable,
    names: Sequence[str],
    statement: str,
    inserts: Inserts,
    session: Session,
    before: int = 0,
) -> int:
    """Append rows whose columns have these names. `statement`: for errors."""
    if rows.rows == 0 and not names:
        return 0
    appended = _all_records(source, rows, names, statement, inserts, before)
    if appended:
        inserts.writer.append(appended)
        session.inserted = True
    return rows.rows


def records_of_rows(
    source: Source, data: Sequence[RowValues], inserts: Inserts
) -> list[Appended[pa.Table]]:
    """The records of rows by the names of columns, which are not appended yet. Raises as
    `insert_rows` does."""
    if not data:
        return []
    rows = read_rows(data, None, len(insertable_schema(source).columns))
    return _all_records(source, rows, rows.names, _DATA, inserts, 0)


def _all_records(
    source: Source,
    rows: RowTable,
    names: Sequence[str],
    statement: str,
    inserts: Inserts,
    before: int,
) -> list[Appended[pa.Table]]:
    """The records of rows, some at a time."""
    if not rows.columns:
        raise wordings.ROWS_REFUSED(given="rows without columns")
    targets = target_columns(source, names, len(rows.columns), statement)
    bulk = _Bulk(source, rows, targets, inserts, inserts.clock(), before)
    appended: list[Appended[pa.Table]] = []
    for start in range(0, rows.rows, BATCH_ROWS):
        appended += _records(bulk, start, min(BATCH_ROWS, rows.rows - start))
    return appended


def _source(target: str, catalog: Catalog) -> Source:
    """The source of exactly this name, or of the name as SQL folds it."""
    source = catalog.find(target) or catalog.find(target.upper())
    if source is None:
        hint = catalog.spelling_hint(target.upper())
        raise wordings.INSERT_INTO_UNKNOWN(name=target, hint=hint)
    return source


def _records(bulk: _Bulk, start: int, count: int) -> list[Appended[pa.Table]]:
    """The records of some rows. Raises StatementError or RecordError for the first row that cannot
    be inserted."""
    try:
        return _encoded(bulk, start, count)
    except _RowError as failed:
        # Another column, or the record as a whole, may refuse an earlier row.
        if failed.row > start:
            _records(bulk, start, failed.row - start)
        raise failed.error from None


def _encoded(bulk: _Bulk, start: int, count: int) -> list[Appended[pa.Table]]:
    inserts, source = bulk.inserts, bulk.source
    with conversion(inserts.registry) as convert:
        values = {
            column.name: _converted(bulk, number, start, count, convert)
            for number, column in enumerate(bulk.targets)
        }
    if source.kind is SourceKind.TABLE:
        for key in source.schema.key:
            absent = values[key.name].is_null() if key.name in values else pa.array([True] * count)
            row = absent.index(True).as_py()
            if row >= 0:
                missing = wordings.PRIMARY_KEY_NOT_INSERTED(source=source.name, key=key.name)
                raise _RowError(start + row, _of_row(bulk, start + row, missing))
    given = values.pop("ROWTIME", pa.nulls(count, pa.int64()))
    times = pc.fill_null(given, bulk.now)
    late = pc.index(pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, LATEST)), False)
    row = late.as_py()
    if row >= 0:
        raise _RowError(start + row, _of_row(bulk, start + row, rowtime_error(times[row].as_py())))
    return encoded_records(source, values, times, inserts, bulk.before + start + 1)


def _converted(bulk: _Bulk, number: int, start: int, count: int, convert: Conversion) -> pa.Array:
    """The values of a column, converted."""
    column, data = bulk.targets[number], bulk.data
    try:
        return convert.column(data.slice(number, start, count), column)
    except UnfitError as failure:
        reason = failure.reason
    fitting, failing = 0, count
    # The values before `fitting` fit; those before `failing` do not.
    while failing - fitting > 1:
        middle = (fitting + failing) // 2
        try:
            convert.column(data.slice(number, start + fitting, middle - fitting), column)
            fitting = middle
        except UnfitError as failure:
            failing, reason = middle, failure.reason
    unfit = misfit(data.value(number, start + fitting), column, reason)
    raise _RowError(start + fitting, _of_row(bulk, start + fitting, unfit))


def _of_row(bulk: _Bulk, row: int, error: StatementError) -> StatementError:
    """The error with the number of the row, counted from 1."""
    return wordings.ROW_OF_DATA(
        row=bulk.before + row + 1,
        source=bulk.source.name,
        reason=error.message,
        detail=error.detail,
        hint=error.hint,
    )
