"""Queries over what was: of a stream's records, and of a table as it stood."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.batch import DIFF, PART
from millstream.model.errors import MillstreamError
from millstream.model.physical import arrow_type
from millstream.model.schema import Schema, SourceKind
from millstream.operators.udfs import register_expressions
from millstream.query.extended import Written
from millstream.query.past import whole
from millstream.query.pull import plan_pull, steady
from millstream.service import wordings
from millstream.service.bounded import TIMED_OUT, Patience, check_size
from millstream.service.cluster.scatter_gather import pull_schema
from millstream.service.engine import Engine
from millstream.service.failures import reason
from millstream.service.history.planning import BoundedQuery, plan_historical
from millstream.service.history.relations import BATCH_ROWS, Relations
from millstream.service.history.running import rows_of
from millstream.service.history.spool import Spool
from millstream.service.history.watch import CancelledError, Watch
from millstream.service.results import History
from millstream.service.session import Bounds, Session
from millstream_parser import statements as s

Batches = Generator[pa.Table, None, None]


def of_stream(query: s.Query, script: str, engine: Engine, session: Session) -> History:
    """The answer to a query of the dialect whose FROM is a stream: what a persistent query would
    have made of the range."""
    past = plan_historical(query, engine, session, script)
    watch = Watch()
    if past.kind is SourceKind.STREAM and not past.order:
        rows = _streamed(past, query.limit, engine, session, watch)
    else:
        rows = _sorted(past, query.limit, engine, session, watch)
    return _history(past.schema, _empty(past.schema), rows, watch, engine, session)


def of_table(query: s.Query, script: str, engine: Engine, session: Session) -> History:
    """The answer to a pull query on a table as it stood, or as a range of records made it."""
    source = engine.catalog.source(query.source.name)
    schema = pull_schema(source)
    alias = query.source.alias or source.name
    types = dict(engine.catalog.types)
    plan = plan_pull(query, schema, alias, engine.functions, types, script)
    plan = steady(plan, schema, [PART])
    past = plan_historical(
        whole(source.name, query.source.range, schema.names), engine, session, script
    )
    watch = Watch()

    def rows() -> Batches:
        with _cursor(engine, watch) as cursor:
            register_expressions(cursor, plan.expressions, engine.functions, engine.store.functions)
            spool = Spool(past, cursor)
            spool.fill(rows_of(past, engine, session, watch))
            yield from _read(cursor, plan.sql(f"({spool.relation()})"), plan.schema)

    return _history(plan.schema, _empty(plan.schema), rows(), watch, engine, session)


def beyond(written: Written, engine: Engine, session: Session) -> History:
    """The answer to a query beyond the dialect of which some source is a stream, or is looked at
    in a range of its history."""
    watch = Watch()
    cursor = engine.store.cursor()
    try:
        relations = Relations(written, cursor, engine, session)
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
            for past, spool in relations.spools:
                spool.fill(rows_of(past, engine, session, watch))
            watch.check()
            yield from relations.rows()
        finally:
            watch.on_cancel = None
            cursor.close()

    return _history(None, empty, rows(), watch, engine, session)


def _streamed(
    past: BoundedQuery, limit: int | None, engine: Engine, session: Session, watch: Watch
) -> Batches:
    left = limit
    if left == 0:
        return
    for rows in rows_of(past, engine, session, watch, lazily=limit is not None):
        kept = rows.filter(pc.equal(rows[DIFF], 1)).select(list(past.columns))
        kept = kept.rename_columns(list(past.schema.names))
        if left is not None:
            kept = kept.slice(0, left)
            left -= kept.num_rows
        if kept.num_rows:
            yield kept
        if left == 0:
            return


def _sorted(
    past: BoundedQuery, limit: int | None, engine: Engine, session: Session, watch: Watch
) -> Batches:
    with _cursor(engine, watch) as cursor:
        spool = Spool(past, cursor)
        spool.fill(rows_of(past, engine, session, watch))
        yield from _read(cursor, spool.sorted_sql(limit), past.schema)


@contextmanager
def _cursor(engine: Engine, watch: Watch) -> Iterator[duckdb.DuckDBPyConnection]:
    cursor = engine.store.cursor()
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
    engine: Engine,
    session: Session,
) -> History:
    guarded = _guarded(rows, watch, engine, session.bounds)
    return History(schema, empty, guarded, watch.cancel, watch.stages)


def _empty(schema: Schema) -> pa.Table:
    fields = [pa.field(column.name, arrow_type(column.type)) for column in schema.columns]
    return pa.schema(fields).empty_table()


def _guarded(rows: Batches, watch: Watch, engine: Engine, bounds: Bounds) -> Batches:
    """The same rows, as far as they keep to the bounds; what DuckDB says is translated, and a query
    that was ended ends."""
    engine.history.queries.add(watch)
    try:
        watch.check()
        yield from _bounded(rows, watch, bounds)
    except CancelledError:
        return
    except MillstreamError as error:
        if not watch.cancelled.is_set() or error.code == TIMED_OUT:
            raise
    except duckdb.Error as error:
        if not watch.cancelled.is_set():
            raise wordings.QUERY_FAILED(detail=reason(error)) from error
    finally:
        engine.history.queries.discard(watch)
        rows.close()


def _bounded(rows: Batches, watch: Watch, bounds: Bounds) -> Batches:
    """The same rows. The time in which nobody asks for the next ones does not count."""
    patience = Patience(bounds.milliseconds)
    found = size = 0
    while True:
        with patience.spent_on(watch.cancel):
            table = next(rows, None)
        if table is None:
            return
        found, size = found + table.num_rows, size + table.nbytes
        check_size(found, size, bounds)
        yield table
