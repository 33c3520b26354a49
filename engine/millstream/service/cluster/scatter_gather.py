"""The rows of tables for a pull query: from the state that is here, and from other instances."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.catalog.catalog import QueryKind
from millstream.catalog.source import Source
from millstream.model.batch import PART, ROWTIME
from millstream.model.errors import UnavailableError
from millstream.model.physical import duckdb_type, physical_names
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import BIGINT
from millstream.operators.sql import identifier
from millstream.operators.view import View, table_view
from millstream.query.conditions import Condition, condition_sql, pinned
from millstream.service import wordings
from millstream.service.bounded import collected
from millstream.service.cluster.alignment import Snapshot, aligned
from millstream.service.cluster.key_routing import partitions_of_keys
from millstream.service.cluster.participant import Participations
from millstream.service.cluster.partition_read import (
    ACTIVE_ONLY,
    NOT_READY,
    PartitionRead,
    not_ready,
)
from millstream.service.cluster.routing import Routing
from millstream.service.engine import Engine
from millstream.service.failures import reason
from millstream.service.queries import topology_of
from millstream.service.session import Session
from millstream.topology.topology import SubTopology

STANDBY_READS = "ksql.query.pull.enable.standby.reads"
LAG_MAX = "ksql.query.pull.max.allowed.offset.lag"
FORWARDING_MS = "ksql.query.pull.forwarding.timeout.ms"
READY_MS = "millstream.query.pull.ready.timeout.ms"
SNAPSHOT = "millstream.query.pull.snapshot"
BATCH_ROWS = 65_536
_AGAIN_S = 0.05
_BOUNDS = (Column("WINDOWSTART", BIGINT, Role.KEY), Column("WINDOWEND", BIGINT, Role.KEY))


def pull_schema(source: Source) -> Schema:
    """What a pull query on a source sees: keys, window bounds, values."""
    bounds = _BOUNDS if source.window is not None else ()
    return Schema((*source.schema.key, *bounds, *source.schema.columns[len(source.schema.key) :]))


@dataclass(frozen=True, slots=True)
class MaterializedTable:
    """A table as its query keeps it: `view` is all that this engine's state has."""

    query_id: str
    last: SubTopology
    view: View

    @property
    def partitions(self) -> frozenset[int]:
        """All partitions that the table has."""
        return frozenset(range(self.last.partitions))


def kept(source: Source, engine: Engine) -> MaterializedTable:
    """How a table is kept; StatementError when no query does it."""
    query_id = source.query_id or next(
        (
            query.id
            for query in engine.catalog.queries.values()
            if query.kind is QueryKind.SOURCE_TABLE and source.name in query.sources
        ),
        None,
    )
    planned = engine.plans.get(query_id or "")
    if planned is None or query_id is None:
        raise wordings.NOT_QUERYABLE(
            source=source.name, hint="No query keeps the rows of this one."
        )
    last = topology_of(engine, query_id, planned).subtopologies[-1]
    view = table_view(
        last, engine.functions, lambda name: engine.store.table(query_id, last.index, name)
    )
    if view is None:
        raise wordings.NOT_QUERYABLE(source=source.name, hint="Its query keeps no rows.")
    return MaterializedTable(query_id, last, view)


class ScatterGather:
    """The tables that one pull query reads."""

    def __init__(self, engine: Engine, session: Session, cursor: duckdb.DuckDBPyConnection) -> None:
        """`cursor`: where the query will run; rows from elsewhere become known to it."""
        self.engine = engine
        self.cursor = cursor
        self._bounds = session.bounds
        standby = session.flag(STANDBY_READS)
        self._lag_max = int(session.property(LAG_MAX)) if standby else ACTIVE_ONLY
        self._timeout_ms = int(session.property(FORWARDING_MS))
        self._ready_ms = int(session.property(READY_MS))
        self._aligned = session.flag(SNAPSHOT)
        self._read: list[tuple[str, frozenset[int]]] = []
        self._registered: list[str] = []
        self._kept = ExitStack()
        self._snapshot: Snapshot | None = None
        """What the cursor sees, where it sees several tables as of one moment."""

    def answered(self, text: Callable[[], str], tables: Collection[Source] = ()) -> pa.Table:
        """The answer to the query whose text is made by `text` (which calls `rows`). What cannot be
        read now is tried again until the session's patience is at its end. Several `tables` are
        read as of one moment."""
        until = time.monotonic() + self._ready_ms / 1000
        while True:
            try:
                self._take_snapshot(tables)
                table = collected(self.cursor, text(), self._bounds)
                self._check()
            except UnavailableError as error:
                if error.code != NOT_READY or time.monotonic() >= until:
                    raise
                time.sleep(_AGAIN_S)
            else:
                return table
            finally:
                self._forget()

    def _take_snapshot(self, tables: Collection[Source]) -> None:
        """From here on the cursor sees the state as it is when all that feeds these tables has been
        read up to the same offsets."""
        if not self._aligned or len({source.name for source in tables}) < 2:
            return
        query_ids = {kept(source, self.engine).query_id for source in tables}
        if len(query_ids) < 2:
            return
        self._snapshot = self._kept.enter_context(aligned(self.engine, query_ids, self.cursor))

    def rows(self, source: Source, conditions: tuple[Condition, ...] = ()) -> str:
        """A SELECT of the committed rows of a table, those at least that meet the conditions, with
        the physical columns of its pull schema and `$rowtime`."""
        table = kept(source, self.engine)
        routing = self.engine.routing
        if routing is None:
            return table.view.text
        ask = PartitionRead(
            source.name,
            table.query_id,
            self._partitions(source, table, conditions),
            columns_of(source),
            conditions,
            self._lag_max,
        )
        if self._snapshot is not None:
            gathered = self._snapshot.gather(ask, routing.fetch, self._timeout_ms)
        else:
            gathered = routing.gather(ask, self._timeout_ms)
            self._read.append((table.query_id, gathered.here))
        parts = [_of_partitions(table, gathered.here, source)]
        for rows in gathered.rows:
            name = f"$gathered_{len(self._registered)}"
            self._registered.append(name)
            self.cursor.register(name, rows)
            parts.append(f"SELECT {_listed(source)} FROM {identifier(name)}")
        return " UNION ALL ".join(parts)

    def _partitions(
        self, source: Source, table: MaterializedTable, conditions: tuple[Condition, ...]
    ) -> frozenset[int]:
        key = [column.name for column in source.schema.key]
        keys = pinned(conditions, key)
        if keys is None:
            return table.partitions
        known = self.engine.catalog.sources

        def own(read: Source) -> bool:
            found = known.get(read.name)
            return found is not None and found.query_id is not None

        found = partitions_of_keys(table.last, key, keys, self.cursor, own)
        return table.partitions if found is None else found

    def _check(self) -> None:
        """What was read here must have been here all the time."""
        if self.engine.routing is not None:
            for query_id, here in self._read:
                self.engine.routing.check_here(query_id, here, self._lag_max)

    def _forget(self) -> None:
        self._snapshot = None
        self._kept.close()
        for name in self._registered:
            self.cursor.unregister(name)
        self._registered.clear()
        self._read.clear()


def columns_of(source: Source) -> tuple[tuple[str, str], ...]:
    """The columns of a table as they travel: physical names and DuckDB types, `$rowtime` last."""
    columns = pull_schema(source).columns
    names = physical_names(column.name for column in columns)
    types = (duckdb_type(column.type) for column in columns)
    return (*zip(names, types, strict=True), (ROWTIME, "BIGINT"))


def _listed(source: Source) -> str:
    return ", ".join(identifier(name) for name, _ in columns_of(source))


def _of_partitions(table: MaterializedTable, partitions: frozenset[int], source: Source) -> str:
    """The rows of some partitions alone: the state may have leftovers of others."""
    numbers = ", ".join(map(str, sorted(partitions)))
    held = f"{identifier(PART)} IN ({numbers})" if numbers else "FALSE"
    return f"SELECT {_listed(source)} FROM ({table.view.text}) WHERE {held}"


def answer(
    engine: Engine, ask: PartitionRead, snapshots: Participations
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The rows that another instance asks for, from the state that is here.

    UnavailableError (E-NOT-READY) where it is not, or where this instance has another idea of the
    table: one of the two has yet to hear of a statement.
    """
    source = engine.catalog.sources.get(ask.table)
    if source is None or columns_of(source) != ask.columns or engine.routing is None:
        raise not_ready(ask.query_id, min(ask.partitions, default=0), "is not known here as asked")
    table = kept(source, engine)
    if table.query_id != ask.query_id or not ask.partitions <= table.partitions:
        raise not_ready(ask.query_id, min(ask.partitions, default=0), "is not known here as asked")
    names = pull_schema(source).names
    physical = dict(zip(names, physical_names(names), strict=True))
    if any(condition.column not in physical for condition in ask.conditions):
        raise wordings.ROWS_WITHOUT_COLUMN(table=ask.table)
    tests = [condition_sql(condition, physical) for condition in ask.conditions]
    text = " AND ".join((_of_partitions(table, ask.partitions, source), *tests))
    if ask.snapshot:
        return _read_snapshot(ask, text, snapshots)
    return _read_here(engine.store.cursor(), engine.routing, ask, text)


def _read_snapshot(
    ask: PartitionRead, text: str, snapshots: Participations
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    with snapshots.reading(ask.snapshot) as cursor:
        try:
            found = cursor.sql(text).to_arrow_table()
        except duckdb.Error as error:
            raise wordings.ROWS_UNREADABLE(table=ask.table, detail=reason(error)) from error
    return found.schema, iter(found.to_batches(BATCH_ROWS))


def _read_here(
    cursor: duckdb.DuckDBPyConnection, routing: Routing, ask: PartitionRead, text: str
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    try:
        routing.check_here(ask.query_id, ask.partitions, ask.lag_max)
        reader = cursor.sql(text).to_arrow_reader(BATCH_ROWS)
        # The rows are those of one moment, between these two checks.
        routing.check_here(ask.query_id, ask.partitions, ask.lag_max)
    except duckdb.Error as error:
        cursor.close()
        raise wordings.ROWS_UNREADABLE(table=ask.table, detail=reason(error)) from error
    except BaseException:
        cursor.close()
        raise
    return reader.schema, _drained(reader, cursor)


def _drained(
    reader: pa.RecordBatchReader, cursor: duckdb.DuckDBPyConnection
) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    finally:
        cursor.close()
