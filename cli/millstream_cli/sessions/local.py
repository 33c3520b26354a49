"""Executes statements on an engine in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from millstream.catalog.source import Source
from millstream.metrics.figures import PERSISTENT, QueryMetrics
from millstream.model.problem import LATE
from millstream.model.schema import Role
from millstream.query.changes import changed_rows
from millstream.query.results import Done, History, Result, Rows, Stream
from millstream.service.database import Database
from millstream_cli.sessions.filling import followed
from millstream_cli.sessions.historical import shown
from millstream_cli.sessions.interrupts import Interrupt, noted
from millstream_cli.sessions.names import ColumnName, Names, SourceName, function_names
from millstream_cli.sessions.objects import with_objects
from millstream_cli.sessions.results import (
    FROM_NOW_ON,
    Live,
    Message,
    Outcome,
    Progress,
    QueryStatus,
    ResultTable,
    Row,
    Status,
)
from millstream_cli.sessions.sizes import rows_in
from millstream_parser.lexemes import LexemeKind, lexemes


class LocalSession:
    """A session of a database that is open in this process."""

    def __init__(self, database: Database, where: str = "in memory") -> None:
        self.database = database
        self.where = where
        self.pipelining = False
        self._known: tuple[object, Names] | None = None

    def run(self, text: str, progress: Progress | None = None) -> Iterator[Outcome]:
        """Execute statements one after another. Raises MillstreamError, and KeyboardInterrupt after
        Ctrl-C: a query ends at once, COPY after a batch, a back-fill with its own error, and any
        other statement is completed.
        """
        results = self.database.each(text)
        while True:
            if _only_reads(text):
                result = _read(results)
                pressed = False
            else:
                with noted() as interrupt, followed(progress, interrupt) as filling:
                    self.database.session.on_copy_progress = _copying(progress, interrupt)
                    self.database.session.on_backfill = filling
                    result = next(results, None)
                pressed = interrupt.wanted
            if result is None:
                return
            yield self._hinted(outcome(result, progress))
            if pressed:
                raise KeyboardInterrupt

    def _hinted(self, result: Outcome) -> Outcome:
        latest = self.database.session.property("auto.offset.reset") != "earliest"
        if isinstance(result, Live) and result.columns and latest:
            return replace(result, hint=FROM_NOW_ON)
        return result

    def define(self, name: str, value: str) -> None:
        """Set a variable."""
        self.database.session.variables[name] = value

    def names(self) -> Names:
        """The contents of the catalog, including user functions."""
        engine = self.database.engine
        catalog = engine.catalog
        if self._known is None or self._known[0] is not catalog:
            names = Names(
                {source.name: _source(source) for source in catalog.every().values()},
                tuple(catalog.types),
                tuple(sorted({source.topic for source in catalog.sources.values()})),
                tuple(catalog.queries),
                function_names(engine.functions),
            )
            self._known = (catalog, names)
        return self._known[1]

    def status(self) -> Status:
        """The status of the persistent queries."""
        queries = self.database.metrics().queries
        return Status(self.where, tuple(_status(q) for q in queries if q.type == PERSISTENT))

    def version(self) -> str:
        """The version of Millstream that is installed."""
        return version("millstream")

    def close(self) -> None:
        """Commit and release everything."""
        self.database.close()


_READING = frozenset({"SELECT", "WITH", "PRINT", "PEEK", "SHOW", "LIST", "DESCRIBE", "EXPLAIN"})


def _only_reads(text: str) -> bool:
    """Whether no statement of a text changes anything."""
    firsts, first = set(), True
    for word in lexemes(text):
        if word.kind is not LexemeKind.COMMENT:
            if first and word.text != ";":
                firsts.add(word.upper)
            first = word.text == ";"
    return firsts <= _READING


def _read(results: Iterator[Result]) -> Result | None:
    try:
        return next(results, None)
    except RuntimeError as error:
        # DuckDB handles Ctrl-C itself and ends its query with an error of its own.
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from error
        raise


def _copying(progress: Progress | None, interrupt: Interrupt) -> Callable[[str, int], None]:
    """The callback of COPY after each batch, where it can be cancelled."""
    totals: dict[str, int | None] = {}

    def copying(path: str, rows: int) -> None:
        if interrupt.wanted:
            raise KeyboardInterrupt
        if progress is not None:
            if path not in totals:
                totals[path] = rows_in(Path(path))
            progress(rows, totals[path])

    return copying


def outcome(result: Result, progress: Progress | None = None) -> Outcome:
    """A result of the engine as the shell shows it."""
    match result:
        case Done(message):
            return Message(message)
        case Rows():
            return ResultTable(
                result.columns, _rows(result), result.title, query=result.schema is not None
            )
        case History():
            return shown(result, progress)
        case Stream() if not result.schema.columns:
            return Live((), _batches(result), result.close)
        case Stream():
            key = tuple(result.columns.index(name) for name in result.key)
            return Live(
                result.columns, _batches(result), result.close, key, result.limit is not None
            )


def _rows(result: Rows) -> Sequence[Row]:
    return list(with_objects(iter(result), result.table.schema))


def _batches(stream: Stream) -> Iterator[Sequence[Row]]:
    for table in stream.changes():
        yield list(with_objects(changed_rows(table), table.schema))


def _source(source: Source) -> SourceName:
    columns = tuple(
        ColumnName(column.name, str(column.type), column.role is Role.KEY)
        for column in source.schema.columns
    )
    return SourceName(source.name, source.kind.value, columns, source.window is not None)


def _status(query: QueryMetrics) -> QueryStatus:
    skipped = sum(count for kind, count in query.problems.items() if kind != LATE)
    status = QueryStatus(query.query_id, query.state, query.lag, skipped=skipped)
    replay = query.restoration
    if replay is None:
        return status
    return replace(
        status,
        restore_left=replay.left,
        restore_total=replay.total,
        eta_seconds=replay.eta_seconds,
    )
