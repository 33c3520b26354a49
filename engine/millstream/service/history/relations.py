"""What the names in a query beyond the dialect stand for, where history is among it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

import duckdb
import pyarrow as pa

from millstream.catalog.source import Source
from millstream.model.batch import ROWTIME
from millstream.model.physical import physical_names
from millstream.model.schema import SourceKind
from millstream.operators.sql import identifier
from millstream.query.extended import Written, extended_sql, mentioned
from millstream.query.past import whole
from millstream.service.bounded import TIMEOUT, within
from millstream.service.cluster.scatter_gather import ScatterGather, columns_of, pull_schema
from millstream.service.engine import Engine
from millstream.service.history.planning import BoundedQuery, plan_past
from millstream.service.history.spool import Spool
from millstream.service.session import Session
from millstream_parser.history import Range

BATCH_ROWS = 50_000


class Relations:
    """The sources of one query. A table without a range is what its query keeps now; the rest is
    read from the log into `spools`, which are empty at first."""

    def __init__(
        self, written: Written, cursor: duckdb.DuckDBPyConnection, engine: Engine, session: Session
    ) -> None:
        self.spools: list[tuple[BoundedQuery, Spool]] = []
        self._written = written
        self._cursor = cursor
        self._engine = engine
        self._session = session
        self._mentioned = mentioned(written)
        self._gathering = ScatterGather(engine, session, cursor)
        self._present: list[Source] = []
        """The tables among them as they are now."""
        self._texts: dict[tuple[str, Range | None], str] = {}
        self._limit = int(session.property(TIMEOUT))

    def empty(self) -> pa.Table:
        """The columns of the answer. What DuckDB refuses, it refuses here."""
        query = extended_sql(self._written, self._shape)
        return self._cursor.sql(query).limit(0).to_arrow_table()

    def answer(self) -> Iterator[pa.Table]:
        """The rows of the answer, once the spools are full."""
        with within(self._cursor, self._limit):
            found = self._gathered() if self._present else self._begun()
        yield from found

    def _gathered(self) -> Iterator[pa.Table]:
        """The answer of one moment of the tables that are kept."""
        found = self._gathering.answered(
            lambda: extended_sql(self._written, self._text), self._present
        )
        starts = range(0, found.num_rows, BATCH_ROWS)
        return (found.slice(start, BATCH_ROWS) for start in starts)

    def _begun(self) -> Iterator[pa.Table]:
        """The answer as it is computed, which has begun."""
        query = self._cursor.sql(extended_sql(self._written, self._text))
        batches = iter(query.to_arrow_reader(BATCH_ROWS))
        first = list(islice(batches, 1))
        return (pa.Table.from_batches([batch]) for batch in chain(first, batches))

    def _shape(self, name: str, ranged: Range | None) -> str:
        source = self._engine.catalog.source(name)
        if not _kept(source, ranged):
            return self._text(name, ranged)
        self._present.append(source)
        names = physical_names(pull_schema(source).names)
        types = [kind for _, kind in columns_of(source)]
        listed = [
            f"CAST(NULL AS {kind}) AS {identifier(name)}"
            for name, kind in zip((*names, "ROWTIME"), types, strict=True)
        ]
        return f"SELECT {', '.join(listed)}"

    def _text(self, name: str, ranged: Range | None) -> str:
        source = self._engine.catalog.source(name)
        if _kept(source, ranged):
            return _selected(source, pull_schema(source).names, f"({self._gathering.rows(source)})")
        if (name, ranged) not in self._texts:
            self._texts[name, ranged] = self._spooled(source, ranged)
        return self._texts[name, ranged]

    def _spooled(self, source: Source, ranged: Range | None) -> str:
        wanted = self._columns(source)
        past = plan_past(whole(source.name, ranged, wanted), self._engine, self._session, "")
        spool = Spool(past, self._cursor)
        self.spools.append((past, spool))
        return _selected(source, wanted, f"({spool.relation()})")

    def _columns(self, source: Source) -> tuple[str, ...]:
        """Those that the query needs: the columns that it mentions, and the key of a table."""
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
    """A SELECT of columns under the names that they have among all columns of the source."""
    names = pull_schema(source).names
    physical = dict(zip(names, physical_names(names), strict=True))
    here = dict(zip(wanted, physical_names(wanted), strict=True))
    columns = [f"{identifier(here[name])} AS {identifier(physical[name])}" for name in wanted]
    return f'SELECT {", ".join(columns)}, "{ROWTIME}" AS ROWTIME FROM {relation} AS t'
