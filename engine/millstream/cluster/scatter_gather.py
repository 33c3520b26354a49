"""Gathers the rows of tables for a pull query, from local state and from other instances."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from millstream.catalog.catalog import QueryKind
from millstream.catalog.source import Source
from millstream.cluster.alignment import AlignedSnapshot, aligned_snapshot
from millstream.cluster.cluster import Cluster
from millstream.cluster.key_routing import partitions_of_keys
from millstream.cluster.participant import Participations
from millstream.cluster.partition_read import (
    ACTIVE_ONLY,
    NOT_READY,
    PartitionRead,
    not_ready,
)
from millstream.cluster.restored import check_restored
from millstream.cluster.routing import Routing
from millstream.cluster.stores import find_source, store_view
from millstream.formats.proto_zeros import has_zeros, with_zeros
from millstream.model.batch import PART, ROWTIME
from millstream.model.errors import StatementError, UnavailableError
from millstream.model.physical import duckdb_type, physical_names
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import BIGINT
from millstream.operators.sql import identifier
from millstream.operators.view import View, table_view
from millstream.queries.starting import topology_of
from millstream.query import wordings
from millstream.query.bounded import collected
from millstream.query.conditions import Condition, condition_sql, pinned
from millstream.query.failures import reason
from millstream.query.session import Session
from millstream.topology.topology import SubTopology

STANDBY_READS = "ksql.query.pull.enable.standby.reads"
LAG_MAX = "ksql.query.pull.max.allowed.offset.lag"
FORWARDING_MS = "ksql.query.pull.forwarding.timeout.ms"
READY_MS = "millstream.query.pull.ready.timeout.ms"
SNAPSHOT = "millstream.query.pull.snapshot"
BATCH_ROWS = 65_536
_RETRY_S = 0.05
_WINDOW_BOUNDS = (Column("WINDOWSTART", BIGINT, Role.KEY), Column("WINDOWEND", BIGINT, Role.KEY))


def pull_schema(source: Source) -> Schema:
    """The schema of a source in a pull query: keys, window bounds, values."""
    bounds = _WINDOW_BOUNDS if source.window is not None else ()
    return Schema((*source.schema.key, *bounds, *source.schema.columns[len(source.schema.key) :]))


@dataclass(frozen=True, slots=True)
class MaterializedTable:
    """A table as its query materializes it. `sub`: the sub-topology with the state; `view`: all
    rows in this engine's state; `partitioned`: whether a row is in the partition of its key."""

    query_id: str
    sub: SubTopology
    view: View
    partitioned: bool = True

    @property
    def partitions(self) -> frozenset[int]:
        """All partitions of the table."""
        return frozenset(range(self.sub.partitions))


def materialized_table(source: Source, cluster: Cluster) -> MaterializedTable:
    """The materialization of a table; StatementError if no query materializes it."""
    query_id = source.query_id or next(
        (
            query.id
            for query in cluster.registry.catalog.queries.values()
            if query.kind is QueryKind.SOURCE_TABLE and source.name in query.sources
        ),
        None,
    )
    planned = cluster.registry.plans.get(query_id or "")
    if planned is None or query_id is None:
        raise wordings.NOT_QUERYABLE(
            source=source.name, hint="No query keeps the rows of this one."
        )
    subtopologies = topology_of(cluster.registry, query_id, planned).subtopologies
    for sub in subtopologies if source.store else subtopologies[-1:]:
        view = _view(source, query_id, sub, cluster)
        if view is not None:
            return MaterializedTable(query_id, sub, view, partitioned=not source.store)
    raise wordings.NOT_QUERYABLE(source=source.name, hint="Its query keeps no rows.")


def _view(source: Source, query_id: str, sub: SubTopology, cluster: Cluster) -> View | None:
    functions = cluster.registry.functions

    def state(name: str) -> str:
        return cluster.registry.store.table(query_id, sub.index, name)

    if source.store:
        return store_view(source, sub, functions, state)
    view = table_view(sub, functions, state)
    if view is None or not has_zeros(source.value_format):
        return view
    names = physical_names(source.schema.names)
    zeros = {
        identifier(name): with_zeros(f"({view.columns[identifier(name)]})", column.type)
        for name, column in zip(names, source.schema.columns, strict=True)
        if column.role is Role.VALUE and identifier(name) in view.columns
    }
    return replace(view, columns={**view.columns, **zeros})


class ScatterGather:
    """Reads the tables of one pull query."""

    def __init__(
        self, cluster: Cluster, session: Session, cursor: duckdb.DuckDBPyConnection
    ) -> None:
        """`cursor`: runs the query. The rows of other instances are registered with it."""
        self.cluster = cluster
        self.cursor = cursor
        self._bounds = session.bounds
        standby = session.flag(STANDBY_READS)
        self._lag_max = int(session.property(LAG_MAX)) if standby else ACTIVE_ONLY
        self._timeout_ms = int(session.property(FORWARDING_MS))
        self._ready_ms = int(session.property(READY_MS))
        self._aligned = session.flag(SNAPSHOT)
        self._local_reads: list[tuple[str, frozenset[int]]] = []
        self._registered: list[str] = []
        self._resources = ExitStack()
        self._snapshot: AlignedSnapshot | None = None
        """The snapshot that the cursor reads, for several tables as of one moment."""

    def execute(self, text: Callable[[], str], tables: Collection[Source] = ()) -> pa.Table:
        """Run the query that `text` returns (it calls `rows`). Retries while tables are not ready,
        until the session's READY_MS have passed. Reads several `tables` as of one moment."""
        until = time.monotonic() + self._ready_ms / 1000
        while True:
            try:
                self._take_snapshot(tables)
                table = collected(self.cursor, text(), self._bounds)
                self._check_still_readable()
            except UnavailableError as error:
                if error.code != NOT_READY or time.monotonic() >= until:
                    raise
                time.sleep(_RETRY_S)
            else:
                return table
            finally:
                self._reset()

    def _take_snapshot(self, tables: Collection[Source]) -> None:
        """If several queries materialize these tables, align the queries: the cursor then reads
        their state as of the same offsets."""
        if not self._aligned or len({source.name for source in tables}) < 2:
            return
        query_ids = {materialized_table(source, self.cluster).query_id for source in tables}
        if len(query_ids) < 2:
            return
        self._snapshot = self._resources.enter_context(
            aligned_snapshot(self.cluster, query_ids, self.cursor)
        )

    def rows(self, source: Source, conditions: tuple[Condition, ...] = ()) -> str:
        """A SELECT of the committed rows of a table, with the physical columns of its pull schema
        and `$rowtime`. It contains all rows that satisfy the conditions, and perhaps others."""
        table = materialized_table(source, self.cluster)
        routing = self.cluster.routing
        if routing is None:
            check_restored(self.cluster.registry, table.query_id, table.sub)
            return table.view.text
        request = PartitionRead(
            source.name,
            table.query_id,
            self._partitions(source, table, conditions),
            wire_columns(source),
            conditions,
            self._lag_max,
        )
        if self._snapshot is not None:
            gathered = self._snapshot.gather(request, routing.fetch, self._timeout_ms)
        else:
            gathered = routing.gather(request, self._timeout_ms)
            self._local_reads.append((table.query_id, gathered.local))
        parts = [_partition_rows(table, gathered.local, source)]
        for rows in gathered.rows:
            name = f"$gathered_{len(self._registered)}"
            self._registered.append(name)
            self.cursor.register(name, rows)
            parts.append(f"SELECT {_column_list(source)} FROM {identifier(name)}")
        return " UNION ALL ".join(parts)

    def _partitions(
        self, source: Source, table: MaterializedTable, conditions: tuple[Condition, ...]
    ) -> frozenset[int]:
        key = [column.name for column in source.schema.key]
        keys = pinned(conditions, key)
        if keys is None or not table.partitioned:
            return table.partitions
        known = self.cluster.registry.catalog.sources

        def is_written(read: Source) -> bool:
            source = known.get(read.name)
            if source is None or source.partition_column is not None:
                return False
            return source.query_id is not None

        partitions = partitions_of_keys(table.sub, key, keys, self.cursor, is_written)
        return table.partitions if partitions is None else partitions

    def _check_still_readable(self) -> None:
        """Raise UnavailableError if local state has lost partitions since they were read."""
        if self.cluster.routing is not None:
            for query_id, partitions in self._local_reads:
                self.cluster.routing.check_readable(query_id, partitions, self._lag_max)

    def _reset(self) -> None:
        self._snapshot = None
        self._resources.close()
        for name in self._registered:
            self.cursor.unregister(name)
        self._registered.clear()
        self._local_reads.clear()


def wire_columns(source: Source) -> tuple[tuple[str, str], ...]:
    """The columns of a table in a request: physical names and DuckDB types, `$rowtime` last."""
    columns = pull_schema(source).columns
    names = physical_names(column.name for column in columns)
    types = (duckdb_type(column.type) for column in columns)
    return (*zip(names, types, strict=True), (ROWTIME, "BIGINT"))


def _column_list(source: Source) -> str:
    return ", ".join(identifier(name) for name, _ in wire_columns(source))


def _partition_rows(table: MaterializedTable, partitions: frozenset[int], source: Source) -> str:
    """A SELECT of the rows of some partitions: the state may contain orphaned rows of others."""
    numbers = ", ".join(map(str, sorted(partitions)))
    predicate = f"{identifier(PART)} IN ({numbers})" if numbers else "FALSE"
    return f"SELECT {_column_list(source)} FROM ({table.view.text}) WHERE {predicate}"


def serve_read(
    cluster: Cluster, request: PartitionRead, snapshots: Participations
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Serve the request of another instance from local state.

    Raises UnavailableError (E-NOT-READY) if this instance does not host the partitions, or has
    another definition of the table: one of the two instances has not applied a statement yet.
    """
    source: Source | None = None
    with suppress(StatementError):
        source = find_source(cluster.registry, request.table)
    if source is None or wire_columns(source) != request.columns or cluster.routing is None:
        raise not_ready(
            request.query_id, min(request.partitions, default=0), "is not known here as asked"
        )
    table = materialized_table(source, cluster)
    if table.query_id != request.query_id or not request.partitions <= table.partitions:
        raise not_ready(
            request.query_id, min(request.partitions, default=0), "is not known here as asked"
        )
    names = pull_schema(source).names
    physical = dict(zip(names, physical_names(names), strict=True))
    if any(condition.column not in physical for condition in request.conditions):
        raise wordings.ROWS_WITHOUT_COLUMN(table=request.table)
    predicates = [condition_sql(condition, physical) for condition in request.conditions]
    text = " AND ".join((_partition_rows(table, request.partitions, source), *predicates))
    if request.snapshot:
        return _read_snapshot(request, text, snapshots)
    return _read_current(cluster.registry.store.cursor(), cluster.routing, request, text)


def _read_snapshot(
    request: PartitionRead, text: str, snapshots: Participations
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    with snapshots.reading(request.snapshot) as cursor:
        try:
            rows = cursor.sql(text).to_arrow_table()
        except duckdb.Error as error:
            raise wordings.ROWS_UNREADABLE(table=request.table, detail=reason(error)) from error
    return rows.schema, iter(rows.to_batches(BATCH_ROWS))


def _read_current(
    cursor: duckdb.DuckDBPyConnection, routing: Routing, request: PartitionRead, text: str
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    try:
        routing.check_readable(request.query_id, request.partitions, request.lag_max)
        reader = cursor.sql(text).to_arrow_reader(BATCH_ROWS)
        # DuckDB reads a snapshot that it takes between these two checks.
        routing.check_readable(request.query_id, request.partitions, request.lag_max)
    except duckdb.Error as error:
        cursor.close()
        raise wordings.ROWS_UNREADABLE(table=request.table, detail=reason(error)) from error
    except BaseException:
        cursor.close()
        raise
    return reader.schema, _batches(reader, cursor)


def _batches(
    reader: pa.RecordBatchReader, cursor: duckdb.DuckDBPyConnection
) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    finally:
        cursor.close()
