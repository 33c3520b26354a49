"""Runs a case: its statements one after another, in a database of its own.

Records are processed before the next statement that is no INSERT, so that it finds all there is.
Nothing runs in the background, and the clock is simulated: a test gives the same each time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from millstream.log.log import Topic
from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.model.python_values import tuples
from millstream.model.settings import EngineSettings
from millstream.runtime.spec import QueryState
from millstream.service.changes import Row, changed_rows
from millstream.service.engine import Engine
from millstream.service.execution import execute_piece, open_engine, parsed
from millstream.service.results import Done, Stream
from millstream.service.session import Bounds, Session
from millstream.service.statements.inserting import row_of
from millstream.service.text import ParsedStatement
from millstream_cli.screen.live import marked
from millstream_cli.sessions.objects import with_objects
from millstream_cli.testing.cases import Case, ExpectedError, Step
from millstream_cli.testing.clock import TestClock
from millstream_cli.testing.outcomes import Answer, Failed, Failure, Message, Outcome, failure_of
from millstream_parser import statements as s

PROPERTIES = {"auto.offset.reset": "earliest"}
"""A test is about all of its records, whether a query comes before or after them."""
SETTINGS = EngineSettings(threads=1)
TIMEOUT = "E-TEST-TIMEOUT"
_STOPPED = (QueryState.ERROR, QueryState.FENCED)


@dataclass(frozen=True, slots=True)
class Options:
    """How cases run. `batch`: after so many inserted records they are processed, None for as late
    as possible. `restart`: the database is closed and opened again in the middle of a case."""

    batch: int | None = None
    restart: bool = False
    timeout_seconds: float = 10.0


class Place(Protocol):
    """Where the log and the state of a case are."""

    def open(self, clock: Callable[[], int]) -> Engine:
        """An engine over them that is not started; also after it was closed."""

    def close(self) -> None:
        """Give everything back, when the engine is closed."""


class Embedded:
    """In memory, or in a temporary file where that has to outlive the engine."""

    def __init__(self, *, durable: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="millstream-") if durable else None

    def open(self, clock: Callable[[], int]) -> Engine:
        """See `Place`."""
        path = ":memory:" if self._folder is None else str(Path(self._folder.name) / "test.db")
        return open_engine(path, SETTINGS, clock)

    def close(self) -> None:
        """See `Place`."""
        if self._folder is not None:
            self._folder.cleanup()


@dataclass(slots=True)
class CaseResult:
    """What came of a case. `outcomes` are those of its statements, as far as it came; `failures`
    is empty where it passed."""

    case: Case
    failures: list[Failure] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0


def run_case(case: Case, options: Options) -> CaseResult:
    """Run a case up to the first statement that is refused or fails and should not. Further wrong
    rows are told as well."""
    place = Embedded(durable=options.restart)
    return run_in(CaseRun(place, options), case)


def run_in(run: CaseRun, case: Case) -> CaseResult:
    """Run a case in a database that is made for it, and close that."""
    result = CaseResult(case)
    return timed(run, result, lambda: _run_steps(run, result))


def timed(run: CaseRun, result: CaseResult, steps: Callable[[], None]) -> CaseResult:
    """Have steps run in a database and close it; the result, with the time that it took."""
    started = time.monotonic()
    try:
        steps()
    finally:
        run.close()
        result.seconds = time.monotonic() - started
    return result


def steps_failure(run: CaseRun, case: Case, result: CaseResult) -> Failure | None:
    """Execute the statements of a case up to the first that does not do as expected."""
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
    """Whether what comes behind a statement that failed would only fail of that."""
    return step.expected is None or error.code == TIMEOUT


class CaseRun:
    """A database and a session, and the statements executed so far."""

    def __init__(self, place: Place, options: Options) -> None:
        self.clock = TestClock()
        self.session = Session(dict(PROPERTIES))
        self.session.bounds = Bounds(milliseconds=round(options.timeout_seconds * 1000))
        self._place = place
        self.options = options
        self.engine = place.open(self.clock)
        self._pending = 0
        self._stopped: set[str] = set()

    def restart(self) -> None:
        """Process what there is, close the database and open it again."""
        self.engine.close()
        self.engine = self._place.open(self.clock)
        self._pending = 0

    def close(self) -> None:
        """Close the database, and give back what it lay in."""
        self.engine.close()
        self._place.close()

    def outcome(self, step: Step) -> Outcome:
        """Execute a statement. That a query stops while records are processed is a failure of the
        statement behind them, or of the INSERT that expects an error."""
        try:
            (piece,) = parsed(step.placed, self.session)
            if not isinstance(piece.statement, s.InsertValues | s.CopyFrom):
                self.settle()
                return self.execute(piece)
            outcome = self._inserted(piece)
            if isinstance(step.expected, ExpectedError):
                self.settle()
            return outcome
        except MillstreamError as error:
            return Failed(error)

    def _inserted(self, piece: ParsedStatement) -> Outcome:
        outcome = self.execute(piece)
        statement = piece.statement
        if isinstance(statement, s.InsertValues):
            time = self.clock()
            if "ROWTIME" in statement.columns:
                time = row_of(
                    statement, piece.script, self.engine.catalog, self.engine, self.session
                ).time
            self.clock.inserted(time)
        self._pending += 1
        if self.options.batch is not None and self._pending >= self.options.batch:
            self.settle()
        return outcome

    def execute(self, piece: ParsedStatement) -> Outcome:
        """Execute one statement, without waiting for what came before."""
        self._make_topic(piece.statement)
        result = execute_piece(self.engine, piece, self.session)
        match result:
            case Done(message):
                return Message(message)
            case Stream():
                return self._followed(result)
            case _:
                table = result.arrow()
                columns = tuple(table.column_names)
                rows = tuple(with_objects(tuples(table), table.schema))
                wanted = isinstance(piece.statement, s.SelectStatement)
                return Answer(columns, rows, _ordered(piece.statement), wanted)

    def _make_topic(self, statement: s.Statement) -> None:
        """Create the topic of CREATE STREAM or TABLE where it is missing and the statement has no
        PARTITIONS: there is no producer in a test that would have created it."""
        if not isinstance(statement, s.CreateSource):
            return
        given = dict(statement.properties)
        topic = given.get("KAFKA_TOPIC")
        if topic and "PARTITIONS" not in given and self.engine.log.topic(str(topic)) is None:
            self.engine.log.create_topic(Topic(str(topic), 1))

    def _followed(self, stream: Stream) -> Answer:
        """The rows of a push query, or of PRINT, up to where nothing more comes."""
        if stream.schema.columns:
            stream.idle = self._idle
        rows: list[Row] = []
        for table in stream.changes():
            rows += with_objects(changed_rows(table), table.schema)
        return self.followed(stream, rows)

    def followed(self, stream: Stream, rows: Sequence[Row]) -> Answer:
        """What a push query that had these rows answers."""
        shown = tuple(tuple(marked(row)) for row in rows)
        return Answer(tuple(stream.columns), shown, ordered=True, wanted=True)

    def _idle(self) -> bool:
        self.settle()
        return False

    def settle(self) -> None:
        """Process and commit all there is. UnavailableError where that does not end in time, and
        StatementError where a query has stopped."""
        self._pending = 0
        limit = self.options.timeout_seconds
        until = time.monotonic() + limit
        self.engine.driver.catch_up(round(limit * 1000))
        if time.monotonic() >= until:
            raise UnavailableError(
                f"No answer within {limit:g} s: the queries do not come to an end",
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
    """Whether the language defines the order of a statement's rows."""
    match statement:
        case s.SelectStatement(query) if query is not None:
            return bool(query.order_by)
        case s.SelectStatement(extended=text):
            return "ORDER BY" in " ".join((text or "").upper().split())
        case _:
            return True
