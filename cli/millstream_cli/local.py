"""Statements executed by an engine in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from millstream.catalog.source import Source
from millstream.model.schema import Role
from millstream.service.database import Database
from millstream.service.figures import PERSISTENT, QueryMetrics
from millstream.service.results import Done, Result, Rows, Stream
from millstream_cli.names import ColumnName, Names, SourceName, function_names
from millstream_cli.results import Answer, Live, Outcome, Progress, QueryStatus, Row, Said, Status
from millstream_cli.sizes import rows_in


class LocalSession:
    """A session of a database that is open in this process."""

    def __init__(self, database: Database, where: str = "in memory") -> None:
        self.database = database
        self.where = where
        self.pipelining = False
        self._known: tuple[object, Names] | None = None

    def run(self, text: str, progress: Progress | None = None) -> Iterator[Outcome]:
        """Execute statements one after another. Raises MillstreamError."""
        totals: dict[str, int | None] = {}

        def copying(path: str, rows: int) -> None:
            if progress is not None:
                if path not in totals:
                    totals[path] = rows_in(Path(path))
                progress(rows, totals[path])

        self.database.session.copying = copying
        yield from map(outcome, self.database.each(text))

    def define(self, name: str, value: str) -> None:
        """Set a variable."""
        self.database.session.variables[name] = value

    def names(self) -> Names:
        """What the catalog holds, and the functions of the user as well."""
        engine = self.database.engine
        catalog = engine.catalog
        if self._known is None or self._known[0] is not catalog:
            names = Names(
                {source.name: _source(source) for source in catalog.sources.values()},
                tuple(catalog.types),
                tuple(sorted({source.topic for source in catalog.sources.values()})),
                tuple(catalog.queries),
                function_names(engine.functions),
            )
            self._known = (catalog, names)
        return self._known[1]

    def status(self) -> Status:
        """What the persistent queries do."""
        queries = self.database.metrics().queries
        return Status(self.where, tuple(_status(q) for q in queries if q.type == PERSISTENT))

    def version(self) -> str:
        """The version of Millstream that is installed."""
        return version("millstream")

    def close(self) -> None:
        """Commit and release everything."""
        self.database.close()


def outcome(result: Result) -> Outcome:
    """A result of the engine as the shell shows it."""
    match result:
        case Done(message):
            return Said(message)
        case Rows():
            return Answer(
                result.columns, list(result), result.title, query=result.schema is not None
            )
        case Stream() if not result.schema.columns:
            return Live((), _batches(result), result.close)
        case Stream():
            key = tuple(result.columns.index(name) for name in result.key)
            return Live(
                result.columns, _batches(result), result.close, key, result.limit is not None
            )


def _batches(stream: Stream) -> Iterator[Sequence[Row]]:
    for table in stream.batches():
        columns = [column.to_pylist() for column in table.columns]
        yield list(zip(*columns, strict=True))


def _source(source: Source) -> SourceName:
    columns = tuple(
        ColumnName(column.name, str(column.type), column.role is Role.KEY)
        for column in source.schema.columns
    )
    return SourceName(source.name, source.kind.value, columns, source.window is not None)


def _status(query: QueryMetrics) -> QueryStatus:
    replay = query.restoration
    if replay is None:
        return QueryStatus(query.query_id, query.state, query.lag)
    return QueryStatus(
        query.query_id, query.state, query.lag, replay.left, replay.total, replay.eta_seconds
    )
