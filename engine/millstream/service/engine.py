"""The engine: statements in, results out. It is a list of phases; the work is in the leaves.

text -> substitute variables -> parse -> for each statement: plan -> write the command -> apply
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import Catalogue
from millstream.functions.user import UserFunction
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Writer
from millstream.model.errors import ConflictError, FencedError, MillstreamError, StatementError
from millstream.model.settings import EngineSettings
from millstream.plan.build import Planned
from millstream.runtime.instance import Instance
from millstream.runtime.spec import QueryStatus, RuntimeSettings
from millstream.service import asserts, control, definitions, inserting, inspect, pulling, pushing
from millstream.service.commands import Command, CommandLog, database_id
from millstream.service.driver import Driver
from millstream.service.explain import explain
from millstream.service.opening import open_state
from millstream.service.printing import print_topic
from millstream.service.processing_log import ProcessingLog
from millstream.service.results import Done, Result, Stream
from millstream.service.session import Session
from millstream.service.text import Piece, locate, parse_text, split_text, substituted
from millstream.state.store import Store
from millstream_parser import statements as s

CLIENT_IDENTITY = "_millstream_client"


class Engine:
    """One database: its log, its state, its catalog and its running queries.

    Statements may come from any thread; the catalog and the set of queries change under the
    driver's lock, records are inserted without it.
    """

    def __init__(
        self,
        log: EmbeddedLog,
        store: Store,
        settings: EngineSettings,
        clock: Callable[[], int],
        functions: Catalogue,
    ) -> None:
        self.log = log
        self.store = store
        self.settings = settings
        self.clock = clock
        self.catalog = Catalog()
        self.functions = functions
        self.processing_log = ProcessingLog()
        runtime = RuntimeSettings(
            commit_interval_ms=settings.commit_interval_ms,
            max_batch_records=settings.max_batch_records,
        )
        self.instance: Instance[pa.Table] = Instance(log, runtime, self.processing_log.add)
        self.driver = Driver(self.instance, clock, log.maintain)
        self.commands = CommandLog(log, settings.command_topic)
        self.writer: Writer[pa.Table] = log.writer(CLIENT_IDENTITY)
        self.plans: dict[str, Planned] = {}
        self.paused: set[str] = set()
        self.pushing: dict[str, Stream] = {}
        self.pushes = 0
        self._cancel_wake = log.on_append(self.driver.wake)
        self.closed = False
        self.failed: dict[str, str] = {}
        """Why queries of the catalog could not be started when the file was opened."""
        self.driver.on_failure = self._fail_pushes

    @staticmethod
    def open(
        path: str,
        settings: EngineSettings,
        clock: Callable[[], int],
        functions: Sequence[UserFunction] = (),
    ) -> Engine:
        """Open a file (made when missing) or ":memory:", and start the queries it holds;
        `functions` are those of the user that its queries call."""
        catalogue = _with_functions(builtin_catalogue(), functions)
        log = EmbeddedLog.open(path, threads=settings.threads, memory_limit=settings.memory_limit)
        try:
            store, problem = open_state(log, path, database_id(log, settings.command_topic))
            log.lock()
            engine = Engine(log, store, settings, clock, catalogue)
            if problem is not None:
                engine.processing_log.add("", (problem,))
            engine.replay()
        except BaseException:
            log.close()
            raise
        return engine

    def register(self, functions: Sequence[UserFunction]) -> None:
        """Make users' functions known to statements that come after."""
        self.functions = _with_functions(self.functions, functions)

    def start(self) -> None:
        """Let the queries run in a thread of their own."""
        self.driver.start()

    def replay(self) -> None:
        """Apply the command log: the catalog as it was, every query running again."""
        for offset, command in self.commands.read():
            for piece in parse_text(command.text):
                session = Session(dict(command.properties))
                definitions.apply(piece, self, session, offset, replaying=True)
        definitions.start_replayed(self)

    def execute_script(self, text: str, session: Session) -> Iterator[Result]:
        """Parse everything, then execute statement by statement, giving each result."""
        for piece in self._parsed(text, session):
            yield self.execute_piece(piece, session)

    def _parsed(self, text: str, session: Session) -> Iterator[Piece]:
        """The statements of a script. One that defines variables is parsed as it runs."""
        for part in split_text(text) if "DEFINE" in text.upper() else (text,):
            substituting = session.flag("ksql.variable.substitution.enable")
            yield from parse_text(substituted(part, session.variables) if substituting else part)

    def execute_piece(self, piece: Piece, session: Session) -> Result:
        """Execute one statement."""
        if self.driver.failure is not None:
            raise FencedError("the engine has stopped", detail=str(self.driver.failure))
        try:
            return self._dispatch(piece, session)
        except MillstreamError as error:
            locate(error, piece.script)
            raise

    def _dispatch(self, piece: Piece, session: Session) -> Result:
        statement = piece.statement
        match statement:
            case s.SelectStatement(query) if query is not None and query.emit is not None:
                return pushing.push(query, piece.script, self, session)
            case s.SelectStatement():
                return pulling.pull(statement, piece, self, session)
            case s.InsertValues():
                return inserting.insert_values(statement, self, session)
            case s.CopyFrom():
                return inserting.copy_from(statement, self, session)
            case s.Show():
                return inspect.show(statement, self, session)
            case s.Describe():
                return inspect.describe(statement, self)
            case s.Explain():
                return explain(statement, self, session)
            case s.PrintTopic():
                return print_topic(statement, self)
            case s.SetProperty() | s.DefineVariable():
                return control.set_property(statement, session)
            case s.AssertTopic() | s.AssertSchema() | s.AssertValues() | s.AssertSource():
                return asserts.check(statement, self)
            case s.RunScript(path):
                return self._run_script(path, session)
            case s.Spool():
                raise StatementError("SPOOL is a command of the shell, not of the engine")
            case s.CreateConnector() | s.DropConnector():
                raise StatementError("Connectors need Kafka Connect, which is not configured")
            case _:
                return self._define(piece, session)

    def _define(self, piece: Piece, session: Session) -> Result:
        """A statement that changes the catalog: applied, and written to the command log."""
        with self.driver.lock:
            offset, before = self.commands.next_offset, self.catalog
            command = Command(piece.text, dict(session.properties))

            def write() -> None:
                self.commands.append(command, self.clock())

            done, unwritten = definitions.apply(piece, self, session, offset, write=write)
            try:
                if unwritten:
                    write()
            except MillstreamError:
                definitions.undo(self, before)
                raise
        self.driver.wake()
        return done

    def _run_script(self, path: str, session: Session) -> Result:
        if not session.local:
            raise StatementError("RUN SCRIPT reads a local file; send the statements instead")
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as failure:
            reason = failure.strerror if isinstance(failure, OSError) else failure.reason
            raise StatementError(f"Cannot read script {path}: {reason}") from failure
        count = sum(1 for _ in self.execute_script(text, session))
        return Done(f"{count} statements executed")

    def statuses(self) -> tuple[QueryStatus, ...]:
        """What every running query is doing."""
        with self.driver.lock:
            return self.instance.status()

    def _fail_pushes(self, failure: BaseException) -> None:
        """The engine thread has died: nobody will ever feed the push queries again."""
        for stream in list(self.pushing.values()):
            stream.fail(FencedError("the engine has stopped", detail=str(failure)))

    def drain(self) -> None:
        """Return when all queries have processed and committed what there is."""
        while self.driver.run_until_idle():
            pass

    def close(self) -> None:
        """Stop, commit and release everything; idempotent."""
        if self.closed:
            return
        self._cancel_wake()
        for stream in list(self.pushing.values()):
            stream.close()
        self.driver.stop()
        self.closed = True
        self.instance.close(self.clock())
        self.commands.close()
        self.writer.close()
        self.log.maintain()
        self.log.close()


def _with_functions(catalogue: Catalogue, functions: Sequence[UserFunction]) -> Catalogue:
    try:
        return catalogue.with_functions(functions)
    except ValueError as error:
        raise ConflictError(
            f"The functions cannot be registered: {error}.", hint="Give it another name."
        ) from error
