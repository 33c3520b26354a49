"""Resolves the sources of an extended query that reads history."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

import duckdb
import pyarrow as pa

from millstream.catalog.source import Source
from millstream.cluster.scatter_gather import ScatterGather, pull_schema, wire_columns
from millstream.cluster.stores import source_named
from millstream.historical.historical import Historical
from millstream.historical.planning import BoundedQuery, plan_historical
from millstream.historical.spool import Spool
from millstream.model.batch import ROWTIME
from millstream.model.physical import physical_names
from millstream.model.schema import SourceKind
from millstream.operators.sql import identifier
from millstream.query.bounded import TIMEOUT, within
from millstream.query.extended import Written, extended_sql, mentioned
from millstream.query.past import whole
from millstream.query.session import Session
from millstream_parser.history import Range

BATCH_ROWS = 50_000


class Relations:
    """The sources of one query. A table without a range is read from the current state of its
    query. All other sources are read from the log into `spools`, which are empty at first."""

    def __init__(
        self,
        written: Written,
        cursor: duckdb.DuckDBPyConnection,
        historical: Historical,
        session: Session,
    ) -> None:
        self.spools: list[tuple[BoundedQuery, Spool]] = []
        self._written = written
        self._cursor = cursor
        self._historical = historical
        self._session = session
        self._mentioned = mentioned(written)
        self._scatter_gather = ScatterGather(historical.cluster, session, cursor)
        self._current: list[Source] = []
        """The tables that are read from their current state."""
        self._relations: dict[tuple[str, Range | None], str] = {}
        self._limit = int(session.property(TIMEOUT))

    def empty(self) -> pa.Table:
        """An empty table with the columns of the result. Errors of DuckDB's binder are raised
        here."""
        query = extended_sql(self._written, self._empty_relation)
        return self._cursor.sql(query).limit(0).to_arrow_table()

    def rows(self) -> Iterator[pa.Table]:
        """The rows of the result. The spools must be filled before."""
        with within(self._cursor, self._limit):
            found = self._from_snapshot() if self._current else self._streamed()
        yield from found

    def _from_snapshot(self) -> Iterator[pa.Table]:
        """The result over a consistent snapshot of the current tables."""
        found = self._scatter_gather.execute(
            lambda: extended_sql(self._written, self._relation), self._current
        )
        starts = range(0, found.num_rows, BATCH_ROWS)
        return (found.slice(start, BATCH_ROWS) for start in starts)

    def _streamed(self) -> Iterator[pa.Table]:
        """The result in batches. The first batch is computed at once, so that errors are raised
        here."""
        query = self._cursor.sql(extended_sql(self._written, self._relation))
        batches = iter(query.to_arrow_reader(BATCH_ROWS))
        first = list(islice(batches, 1))
        return (pa.Table.from_batches([batch]) for batch in chain(first, batches))

    def _empty_relation(self, name: str, ranged: Range | None) -> str:
        source = source_named(self._historical.registry, name)
        if not _kept(source, ranged):
            return self._relation(name, ranged)
        self._current.append(source)
        names = physical_names(pull_schema(source).names)
        types = [kind for _, kind in wire_columns(source)]
        listed = [
            f"CAST(NULL AS {kind}) AS {identifier(name)}"
            for name, kind in zip((*names, "ROWTIME"), types, strict=True)
        ]
        return f"SELECT {', '.join(listed)}"

    def _relation(self, name: str, ranged: Range | None) -> str:
        source = source_named(self._historical.registry, name)
        if _kept(source, ranged):
            return _selected(
                source, pull_schema(source).names, f"({self._scatter_gather.rows(source)})"
            )
        if (name, ranged) not in self._relations:
            self._relations[name, ranged] = self._spooled(source, ranged)
        return self._relations[name, ranged]

    def _spooled(self, source: Source, ranged: Range | None) -> str:
        wanted = self._columns(source)
        bounded = plan_historical(
            whole(source.name, ranged, wanted), self._historical, self._session, ""
        )
        spool = Spool(bounded, self._cursor)
        self.spools.append((bounded, spool))
        return _selected(source, wanted, f"({spool.relation()})")

    def _columns(self, source: Source) -> tuple[str, ...]:
        """The columns that the query needs: the ones that it mentions; all columns of a table, or
        if the mentions are unknown."""
        schema = pull_schema(source)
        if self._mentioned is None or source.kind is SourceKind.TABLE:
            return schema.names
        physical = physical_names(schema.names)
        wanted = [
            name
            for name, written in zip(schema.names, physical, strict=True)
            if written.upper() in self._mentioned
        ]
        return tuple(wanted) or schema.names[:1]


def _kept(source: Source, ranged: Range | None) -> bool:
    return source.kind is SourceKind.TABLE and ranged is None


def _selected(source: Source, wanted: tuple[str, ...], relation: str) -> str:
    """A SELECT of columns, renamed to their physical names among all columns of the source."""
    names = pull_schema(source).names
    physical = dict(zip(names, physical_names(names), strict=True))
    here = dict(zip(wanted, physical_names(wanted), strict=True))
    columns = [f"{identifier(here[name])} AS {identifier(physical[name])}" for name in wanted]
    return f'SELECT {", ".join(columns)}, "{ROWTIME}" AS ROWTIME FROM {relation} AS t'
