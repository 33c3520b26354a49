"""Ways to run a test file in which it must give the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from millstream.functions.catalogue import builtin_catalogue
from millstream.log.batches import TABLES
from millstream.log.simulated import SimulatedLog
from millstream.model.errors import StatementError
from millstream.model.schema import SourceKind
from millstream.query.changes import Deletion, Row
from millstream.query.results import Stream
from millstream.scripts.text import ParsedStatement
from millstream.service.engine import Engine
from millstream.service.execution import parse_script, resume_engine
from millstream.state.store import Store
from millstream_cli.testing.cells import render
from millstream_cli.testing.outcomes import Outcome, ResultRows
from millstream_cli.testing.running import SETTINGS, CaseRun, Embedded, Options, Storage
from millstream_parser import print_statement
from millstream_parser import statements as s

ALL = "BETWEEN OFFSETS 0 AND 1000000"


class Simulated:
    """A simulated log, which has markers of transactions and no order of arrival, as Kafka's. It
    outlives the engine; the state does not, and is made again from the changelogs."""

    def __init__(self) -> None:
        self._log: SimulatedLog[pa.Table] = SimulatedLog(TABLES, markers=True)

    def open(self, clock: Callable[[], int]) -> Engine:
        store = Store.open(":memory:")
        return resume_engine(self._log, store, SETTINGS, clock, builtin_catalogue())

    def close(self) -> None:
        pass


class HistoryRun(CaseRun):
    """Asks each query over history as well, where it can be: it must have the same final rows."""

    def __init__(self, storage: Storage, options: Options) -> None:
        super().__init__(storage, options)
        self._final: list[Row] | None = None
        self._keyed = False
        self.asked = 0
        """How many queries history has answered."""

    def execute(self, parsed_statement: ParsedStatement) -> Outcome:
        self._final = None
        outcome = super().execute(parsed_statement)
        question = self._question(parsed_statement.statement)
        if question is None or not isinstance(outcome, ResultRows):
            return outcome
        final = outcome.rows if self._final is None else self._final
        if self.session.property("millstream.history.backend") == "auto":
            self.session.set("millstream.history.backend", "duckdb")
        (past,) = parse_script(question, self.session)
        try:
            found = super().execute(past)
        except StatementError:
            return outcome  # history refuses what it does not know, as table functions
        assert isinstance(found, ResultRows)
        self.asked += 1
        assert rendered(found.rows) == rendered(final), question
        return outcome

    def _question(self, statement: s.Statement) -> str | None:
        """The same about all of history; None where history does not know of it."""
        if not isinstance(statement, s.SelectStatement) or statement.query is None:
            return None
        query = statement.query
        late = self.session.property("auto.offset.reset") != "earliest"
        if late or query.limit is not None or query.source.range is not None:
            return None
        if query.emit is None and not query.joins and self._kind(query) is SourceKind.TABLE:
            name = query.source.name
            ranged = self._ranged(name)
            source = replace(query.source, range=ranged)
            return print_statement(s.SelectStatement(replace(query, source=source)))
        if query.emit != "CHANGES" or self._final is None or not self._over_streams(query):
            return None
        # Pull queries on streams are queries over history already: those with state are asked.
        if bool(query.group_by) is not self._keyed or not (query.group_by or query.joins):
            return None
        return print_statement(s.SelectStatement(replace(query, emit=None)))

    def _kind(self, query: s.Query) -> SourceKind | None:
        found = self.engine.catalog.find(query.source.name)
        return None if found is None else found.kind

    def _over_streams(self, query: s.Query) -> bool:
        """Joins of tables, and aggregates without GROUP BY, are something else over history."""
        joined = [self.engine.catalog.source(join.source.name) for join in query.joins]
        streams = all(source.kind is SourceKind.STREAM for source in joined)
        return streams and self._kind(query) is SourceKind.STREAM

    def _ranged(self, name: str) -> Any:
        (question,) = parse_script(f"SELECT * FROM `{name}` {ALL};", self.session)
        statement = question.statement
        assert isinstance(statement, s.SelectStatement) and statement.query is not None
        return statement.query.source.range

    def followed(self, stream: Stream, rows: Sequence[Row]) -> ResultRows:
        key = [stream.columns.index(name) for name in stream.key]
        last: dict[tuple[str, ...], Row] = {}
        for row in rows:
            place = tuple(render(row[index]) for index in key)
            last.pop(place, None)
            if not isinstance(row, Deletion):
                last[place] = row
        self._keyed = bool(key)
        self._final = list(last.values()) if key else list(rows)
        return super().followed(stream, rows)


def rendered(rows: Any) -> Counter[tuple[str, ...]]:
    return Counter(tuple(map(render, row)) for row in rows)


@dataclass(frozen=True, slots=True)
class Mode:
    """`parts`: what a file may refuse to be run with, and without which it then runs."""

    options: Options
    storage: Callable[[], Storage]
    run: Callable[[Storage, Options], CaseRun]
    parts: frozenset[str]


MODES = {
    "one by one, over history": Mode(
        Options(batch=1), Embedded, HistoryRun, frozenset({"history"})
    ),
    "three at once, simulated Kafka": Mode(
        Options(batch=3), Simulated, CaseRun, frozenset({"simulated"})
    ),
    "all at once, reopened file": Mode(
        Options(restart=True), lambda: Embedded(durable=True), CaseRun, frozenset({"restart"})
    ),
}


def made(mode: Mode, skipped: set[str]) -> CaseRun | None:
    """A database in which a case runs that skips some modes; None where it skips this one."""
    if "simulated" in mode.parts & skipped or mode.parts == {"restart"} <= skipped:
        return None
    options = replace(mode.options, restart=mode.options.restart and "restart" not in skipped)
    run = CaseRun if "history" in skipped else mode.run
    return run(mode.storage(), options)
