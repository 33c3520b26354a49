"""Runs a case: its statements one after another, in a database of its own.

Inserted records are processed before the next statement that is not an INSERT, so that it sees
their results. Nothing runs in the background and the clock is simulated, so that results are
reproducible.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.model.python_values import tuples
from millstream.model.settings import EngineSettings
from millstream.query.changes import Row, changed_rows
from millstream.query.results import Done, Stream
from millstream.query.session import Bounds, Session
from millstream.runtime.spec import QueryState
from millstream.scripts.text import ParsedStatement
from millstream.service.engine import Engine
from millstream.service.execution import execute_statement, open_engine, parse_script
from millstream.statements.inserting import rows_to_insert
from millstream.testing.topics import create_missing_topic
from millstream_cli.screen.live import marked
from millstream_cli.sessions.objects import with_objects
from millstream_cli.testing.cases import Case, ExpectedError, Step
from millstream_cli.testing.clock import TestClock
from millstream_cli.testing.outcomes import (
    Failed,
    Failure,
    Message,
    Outcome,
    ResultRows,
    failure_of,
)
from millstream_parser import statements as s

PROPERTIES = {"auto.offset.reset": "earliest"}
"""A query of a test processes all records, whether it is created before or after them."""
SETTINGS = EngineSettings(threads=1)
TIMEOUT = "E-TEST-TIMEOUT"
_STOPPED = (QueryState.ERROR, QueryState.FENCED)


@dataclass(frozen=True, slots=True)
class Options:
    """How cases run. `batch`: records are processed after so many INSERTs; None: as late as
    possible. `restart`: the database is closed and opened again in the middle of a case."""

    batch: int | None = None
    restart: bool = False
    timeout_seconds: float = 10.0


class Storage(Protocol):
    """Keeps the log and the state of a case."""

    def open(self, clock: Callable[[], int]) -> Engine:
        """Open an engine over them, without starting it. May be called again after it was
        closed."""

    def close(self) -> None:
        """Release everything. The engine must be closed."""


class Embedded:
    """Storage in memory, or, if `durable`, in a temporary file that outlives the engine."""

    def __init__(self, *, durable: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="millstream-") if durable else None

    def open(self, clock: Callable[[], int]) -> Engine:
        """See `Storage`."""
        path = ":memory:" if self._folder is None else str(Path(self._folder.name) / "test.db")
        return open_engine(path, SETTINGS, clock)

    def close(self) -> None:
        """See `Storage`."""
        if self._folder is not None:
            self._folder.cleanup()


@dataclass(slots=True)
class CaseResult:
    """The result of a case. `outcomes`: those of the executed statements. `failures`: empty if the
    case passed."""

    case: Case
    failures: list[Failure] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0


def run_case(case: Case, options: Options) -> CaseResult:
    """Run a case up to the first statement that fails unexpectedly. Wrong rows do not end it."""
    storage = Embedded(durable=options.restart)
    return run_in(CaseRun(storage, options), case)


def run_in(run: CaseRun, case: Case) -> CaseResult:
    """Run a case in the database of a run, and close the database."""
    result = CaseResult(case)
    return timed(run, result, lambda: _run_steps(run, result))


def timed(run: CaseRun, result: CaseResult, steps: Callable[[], None]) -> CaseResult:
    """Call `steps` and close the database; returns the result with the time that it took."""
    started = time.monotonic()
    try:
        steps()
    finally:
        run.close()
        result.seconds = time.monotonic() - started
    return result


def steps_failure(run: CaseRun, case: Case, result: CaseResult) -> Failure | None:
    """Execute the statements of a case up to the first unexpected outcome; returns that failure."""
    for step in case.steps:
        result.outcomes.append(run.outcome(step))
        failure = failure_of(step, result.outcomes[-1])
        if failure is not None:
            return failure
    return None


def _run_steps(run: CaseRun, result: CaseResult) -> None:
    case = result.case
    middle = len(case.steps) // 2 if run.options.restart else None
    for number, step in enumerate(case.steps):
        if number == middle:
            run.restart()
        outcome = run.outcome(step)
        result.outcomes.append(outcome)
        if case.error is not None and step.expected is None and isinstance(outcome, Failed):
            found = failure_of(replace(step, expected=case.error), outcome)
            result.failures += [found] if found else []
            return
        found = failure_of(step, outcome)
        if found is not None:
            result.failures.append(found)
            if isinstance(outcome, Failed) and _final(step, outcome.error):
                return
    if case.error is not None:
        lines = tuple(f"- error: {text}" for text in case.error.texts)
        result.failures.append(Failure(case.line, "no statement failed as expected", lines))


def _final(step: Step, error: MillstreamError) -> bool:
    """Whether the case ends at a failed statement, because later ones depend on it."""
    return step.expected is None or error.code == TIMEOUT


class CaseRun:
    """The database and the session in which a case runs."""

    def __init__(self, storage: Storage, options: Options) -> None:
        self.clock = TestClock()
        self.session = Session(dict(PROPERTIES))
        self.session.bounds = Bounds(milliseconds=round(options.timeout_seconds * 1000))
        self._storage = storage
        self.options = options
        self.engine = storage.open(self.clock)
        self._pending = 0
        self._stopped: set[str] = set()

    def restart(self) -> None:
        """Close the database and open it again. Pending records are processed after that."""
        self.engine.close()
        self.engine = self._storage.open(self.clock)
        self._pending = 0

    def close(self) -> None:
        """Close the database and its storage."""
        self.engine.close()
        self._storage.close()

    def outcome(self, step: Step) -> Outcome:
        """Execute a statement. If a query stops while records are processed, the statement that
        triggers the processing fails: the next one that is not an INSERT, or an INSERT that
        completes a batch or expects an error."""
        try:
            (parsed_statement,) = parse_script(step.padded_text, self.session)
            if not isinstance(parsed_statement.statement, s.InsertValues | s.CopyFrom):
                self.process_all()
                return self.execute(parsed_statement)
            outcome = self._inserted(parsed_statement)
            if isinstance(step.expected, ExpectedError):
                self.process_all()
            return outcome
        except MillstreamError as error:
            return Failed(error)

    def _inserted(self, parsed_statement: ParsedStatement) -> Outcome:
        outcome = self.execute(parsed_statement)
        statement = parsed_statement.statement
        if isinstance(statement, s.InsertValues):
            times: tuple[int, ...] = (self.clock(),)
            if "ROWTIME" in statement.columns:
                times = rows_to_insert(
                    statement,
                    parsed_statement.script,
                    self.engine.catalog,
                    self.engine.inserts,
                    self.session,
                ).times
            for time in times:
                self.clock.inserted(time)
        self._pending += 1
        if self.options.batch is not None and self._pending >= self.options.batch:
            self.process_all()
        return outcome

    def execute(self, parsed_statement: ParsedStatement) -> Outcome:
        """Execute one statement without processing pending records."""
        if isinstance(parsed_statement.statement, s.CreateSource):
            create_missing_topic(parsed_statement.statement, self.engine.log)
        result = execute_statement(self.engine, parsed_statement, self.session)
        match result:
            case Done(message):
                return Message(message)
            case Stream():
                return self._followed(result)
            case _:
                table = result.arrow()
                columns = tuple(table.column_names)
                rows = tuple(with_objects(tuples(table), table.schema))
                required = isinstance(parsed_statement.statement, s.SelectStatement)
                return ResultRows(columns, rows, _ordered(parsed_statement.statement), required)

    def _followed(self, stream: Stream) -> ResultRows:
        """The rows of a push query, or of PRINT, until no more arrive."""
        if stream.schema.columns:
            stream.idle = self._idle
        rows: list[Row] = []
        for table in stream.changes():
            rows += with_objects(changed_rows(table), table.schema)
        return self.followed(stream, rows)

    def followed(self, stream: Stream, rows: Sequence[Row]) -> ResultRows:
        """The outcome of a push query with these rows."""
        shown = tuple(tuple(marked(row)) for row in rows)
        return ResultRows(tuple(stream.columns), shown, ordered=True, expectation_required=True)

    def _idle(self) -> bool:
        self.process_all()
        return False

    def process_all(self) -> None:
        """Process and commit all records. Raises UnavailableError if that does not end in time, and
        StatementError if a query has stopped."""
        self._pending = 0
        limit = self.options.timeout_seconds
        until = time.monotonic() + limit
        self.engine.driver.catch_up(round(limit * 1000))
        if time.monotonic() >= until:
            raise UnavailableError(
                f"No result within {limit:g} s: the queries do not become idle",
                hint="Does a query write to what it reads? --timeout gives a test more time.",
                code=TIMEOUT,
            )
        self._check_queries()

    def _check_queries(self) -> None:
        stopped = {name for name, state in self.engine.runtime.states().items()
                   if state in _STOPPED} - self._stopped  # fmt: skip
        if not stopped:
            return
        self._stopped |= stopped
        statuses = [each for each in self.engine.statuses() if each.query_id in stopped]
        first = statuses[0]
        raise StatementError(f"Query {first.query_id} has stopped: {first.error}", code=first.code)


def _ordered(statement: s.Statement) -> bool:
    """Whether a statement defines the order of its rows."""
    match statement:
        case s.SelectStatement(query) if query is not None:
            return bool(query.order_by)
        case s.SelectStatement(extended=text):
            return "ORDER BY" in " ".join((text or "").upper().split())
        case _:
            return True
