"""Executes historical queries, over the records of a stream or over a table as of the past."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millstream.cluster.scatter_gather import pull_schema
from millstream.historical.historical import Historical
from millstream.historical.planning import BoundedQuery, plan_historical
from millstream.historical.relations import BATCH_ROWS, Relations
from millstream.historical.running import rows_of
from millstream.historical.spool import Spool
from millstream.history.watch import CancelledError, Watch
from millstream.model.batch import DIFF, PART
from millstream.model.errors import MillstreamError
from millstream.model.physical import arrow_type
from millstream.model.schema import Schema, SourceKind
from millstream.operators.udfs import register_expressions
from millstream.query import wordings
from millstream.query.bounded import TIMED_OUT, TimeBudget, check_size
from millstream.query.constants import check_constants
from millstream.query.extended import Written
from millstream.query.failures import reason
from millstream.query.past import whole
from millstream.query.pull import plan_pull, steady
from millstream.query.results import History
from millstream.query.session import Bounds, Session
from millstream_parser import statements as s

Batches = Generator[pa.Table, None, None]


def execute_on_stream(
    query: s.Query, script: str, historical: Historical, session: Session
) -> History:
    """Execute a query of the dialect whose FROM is a stream: the rows that a persistent query would
    produce from the range."""
    bounded_query = plan_historical(query, historical, session, script)
    watch = Watch()
    if bounded_query.kind is SourceKind.STREAM and not bounded_query.order:
        rows = _stream_rows(bounded_query, query.limit, historical, session, watch)
    else:
        rows = _spooled_rows(bounded_query, query.limit, historical, session, watch)
    return _history(
        bounded_query.schema, _empty(bounded_query.schema), rows, watch, historical, session
    )


def execute_on_table(
    query: s.Query, script: str, historical: Historical, session: Session
) -> History:
    """Execute a pull query on a table as of a past moment, or on the table that a range of its
    records produces."""
    source = historical.registry.catalog.source(query.source.name)
    schema = pull_schema(source)
    alias = query.source.alias or source.name
    types = dict(historical.registry.catalog.types)
    plan = plan_pull(query, schema, alias, historical.registry.functions, types, script)
    plan = steady(plan, schema, [PART])
    bounded_query = plan_historical(
        whole(source.name, query.source.range, schema.names), historical, session, script
    )
    watch = Watch()

    def rows() -> Batches:
        with _cursor(historical, watch) as cursor:
            register_expressions(
                cursor,
                plan.expressions,
                historical.registry.functions,
                historical.registry.store.functions,
            )
            check_constants(plan.expressions, cursor, historical.registry.functions)
            spool = Spool(bounded_query, cursor)
            spool.fill(rows_of(bounded_query, historical, session, watch))
            yield from _read(cursor, plan.sql(f"({spool.relation()})"), plan.schema)

    return _history(plan.schema, _empty(plan.schema), rows(), watch, historical, session)


def execute_extended(written: Written, historical: Historical, session: Session) -> History:
    """Execute an extended query that reads a stream, or a source in a range of its history."""
    watch = Watch()
    cursor = historical.registry.store.cursor()
    try:
        relations = Relations(written, cursor, historical, session)
        empty = relations.empty()
    except duckdb.Error as error:
        cursor.close()
        raise wordings.PULL_FAILED(detail=reason(error)) from error
    except BaseException:
        cursor.close()
        raise

    def rows() -> Batches:
        watch.on_cancel = cursor.interrupt
        try:
            for bounded_query, spool in relations.spools:
                spool.fill(rows_of(bounded_query, historical, session, watch))
            watch.check()
            yield from relations.rows()
        finally:
            watch.on_cancel = None
            cursor.close()

    return _history(None, empty, rows(), watch, historical, session)


def _stream_rows(
    bounded_query: BoundedQuery,
    limit: int | None,
    historical: Historical,
    session: Session,
    watch: Watch,
) -> Batches:
    remaining = limit
    if remaining == 0:
        return
    for rows in rows_of(bounded_query, historical, session, watch, lazily=limit is not None):
        results = rows.filter(pc.equal(rows[DIFF], 1)).select(list(bounded_query.columns))
        results = results.rename_columns(list(bounded_query.schema.names))
        if remaining is not None:
            results = results.slice(0, remaining)
            remaining -= results.num_rows
        if results.num_rows:
            yield results
        if remaining == 0:
            return


def _spooled_rows(
    bounded_query: BoundedQuery,
    limit: int | None,
    historical: Historical,
    session: Session,
    watch: Watch,
) -> Batches:
    with _cursor(historical, watch) as cursor:
        spool = Spool(bounded_query, cursor)
        spool.fill(rows_of(bounded_query, historical, session, watch))
        yield from _read(cursor, spool.sorted_sql(limit), bounded_query.schema)


@contextmanager
def _cursor(historical: Historical, watch: Watch) -> Iterator[duckdb.DuckDBPyConnection]:
    cursor = historical.registry.store.cursor()
    watch.on_cancel = cursor.interrupt
    try:
        yield cursor
    finally:
        watch.on_cancel = None
        cursor.close()


def _read(cursor: duckdb.DuckDBPyConnection, text: str, schema: Schema) -> Batches:
    names = list(schema.names)
    for batch in cursor.sql(text).to_arrow_reader(BATCH_ROWS):
        yield pa.Table.from_batches([batch]).rename_columns(names)


def _history(
    schema: Schema | None,
    empty: pa.Table,
    rows: Batches,
    watch: Watch,
    historical: Historical,
    session: Session,
) -> History:
    checked = _checked_rows(rows, watch, historical, session.bounds)
    return History(schema, empty, checked, watch.cancel, watch.stages)


def _empty(schema: Schema) -> pa.Table:
    fields = [pa.field(column.name, arrow_type(column.type)) for column in schema.columns]
    return pa.schema(fields).empty_table()


def _checked_rows(rows: Batches, watch: Watch, historical: Historical, bounds: Bounds) -> Batches:
    """The rows, checked against the bounds. DuckDB's errors become errors of the engine. A
    cancelled query ends without an error, unless its time limit cancelled it."""
    historical.queries.add(watch)
    try:
        watch.check()
        yield from _within_bounds(rows, watch, bounds)
    except CancelledError:
        return
    except MillstreamError as error:
        if not watch.cancelled.is_set() or error.code == TIMED_OUT:
            raise
    except duckdb.Error as error:
        if not watch.cancelled.is_set():
            raise wordings.QUERY_FAILED(detail=reason(error)) from error
    finally:
        historical.queries.discard(watch)
        rows.close()


def _within_bounds(rows: Batches, watch: Watch, bounds: Bounds) -> Batches:
    """The rows, checked against the bounds. Only the time to compute them counts, not the time
    until the caller requests the next ones."""
    budget = TimeBudget(bounds.milliseconds)
    count = size = 0
    while True:
        with budget.spend(watch.cancel):
            table = next(rows, None)
        if table is None:
            return
        count, size = count + table.num_rows, size + table.nbytes
        check_size(count, size, bounds)
        yield table
