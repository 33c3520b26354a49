"""Executes scripts. This module defines the phases; other modules implement them.

text -> substitute variables -> parse -> for each statement: plan -> write the command -> apply
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from millstream.command_topic import following, issuing
from millstream.command_topic.commands import database_id
from millstream.ddl.effects import Change
from millstream.ddl.environment import ConfiguredStatement
from millstream.ddl.inference import with_columns
from millstream.ddl.persistent import has_backfill
from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import Catalogue
from millstream.functions.user import UserFunction
from millstream.historical import backfilling
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import WatchedLog
from millstream.log.policy import check_defaults
from millstream.model.errors import FencedError, MillstreamError
from millstream.model.schema_text import Schemas
from millstream.model.settings import EngineSettings
from millstream.push import pushing
from millstream.push.printing import print_topic
from millstream.queries import reconcile
from millstream.queries.backfill_result import BackfillResult
from millstream.query.results import Done, History, Result
from millstream.query.session import Session
from millstream.scripts.text import (
    ParsedStatement,
    locate,
    locate_by_name,
    parameters_for,
    parse_text,
    read_script,
    show_statement,
    split_text,
    substituted,
)
from millstream.service import wordings
from millstream.service.backing_up import backup_to
from millstream.service.creating import runs
from millstream.service.engine import Engine, with_functions
from millstream.service.opening import files_of, open_state
from millstream.service.processing_stream import open_processing_stream
from millstream.state.store import Store
from millstream.statements import asserts, connectors, control, inserting, inspect, pulling
from millstream.statements.explain import explain
from millstream.statements.peeking import peek
from millstream.statements.replay import replay
from millstream.statements.topic_settings import alter_topic
from millstream_parser import Values
from millstream_parser import statements as s


def open_engine(
    path: str,
    settings: EngineSettings,
    clock: Callable[[], int],
    functions: Sequence[UserFunction] = (),
) -> Engine:
    """Open a file, which is created if it is missing, or ":memory:", with the queries that it
    holds. `functions`: the users' functions that these queries call."""
    catalogue = with_functions(builtin_catalogue(), functions)
    check_defaults(settings.topic_settings)
    log = EmbeddedLog.open(
        path, threads=settings.threads, memory_limit=settings.memory_limit, clock=clock
    )
    try:
        identity = database_id(log, settings.command_topic)
        store, problem = open_state(log, path, identity, settings.internal_prefix)
        log.lock()
        engine = resume_engine(log, store, settings, clock, catalogue)
    except BaseException:
        log.close()
        raise
    engine.metrics.files = files_of(path)
    engine.cluster.host_info.cluster_id = identity
    engine.historical.on_spark.database = engine.metrics.files.get("log")
    engine.historical.on_spark.database_id = identity
    if problem is not None:
        engine.processing_log.add("", (problem,))
    return engine


def resume_engine(
    log: WatchedLog[pa.Table],
    store: Store,
    settings: EngineSettings,
    clock: Callable[[], int],
    catalogue: Catalogue,
    *,
    incarnation: str = "",
) -> Engine:
    """Create an engine over an open log and an open state. It restores the catalog from the command
    topic and adds its queries to the runtime. `incarnation`: see `Engine`."""
    engine = Engine(log, store, settings, clock, catalogue, incarnation=incarnation)
    try:
        open_processing_stream(engine.processing_log, engine.inserts, engine.push_queries)
        following.restore_catalog(engine.command_topic)
        following.delete_orphans(engine.command_topic)
        reconcile.reconcile(engine.registry, quiesced=engine.command_topic.state.quiesced_id)
    except BaseException:
        engine.close()
        raise
    engine.follower = following.TopicFollower(engine.command_topic)
    return engine


def execute_script(
    engine: Engine, text: str, session: Session, parameters: Values = ()
) -> Iterator[Result]:
    """Parse a script, then execute its statements in their order, and yield the result of each. On
    a shared log, statements in a row that create are executed before the result of the first of
    them is yielded."""
    return execute_all(engine, parse_script(text, session, parameters), session)


def execute_all(
    engine: Engine, statements: Iterable[ParsedStatement], session: Session
) -> Iterator[Result]:
    """Execute statements in their order, and yield the result of each; see `execute_script`."""
    for run in runs(statements, together=engine.shared):
        if len(run) == 1:
            yield execute_statement(engine, run[0], session)
            continue
        changes = issuing.issue_all(
            engine.command_topic, [_configured(parsed, session, engine.schemas) for parsed in run]
        )
        for parsed in run:
            check_running(engine)
            _check_changeable(engine.queries_file)
            with located(parsed):
                change = next(changes)
            yield _done(change)


def parse_script(
    text: str, session: Session, parameters: Values = (), *, test_statements: bool = True
) -> Iterator[ParsedStatement]:
    """The statements of a script. If the script may change variables, each statement is parsed only
    when it is requested. See `parse_text` and `parameters_for`."""
    values = parameters_for(text, parameters)
    extended = session.flag("millstream.query.pull.extended.enabled")
    changing = any(word in text.upper() for word in ("DEFINE", "VARIABLE.SUBSTITUTION"))
    for part in split_text(text) if changing else (text,):
        substituting = session.flag("ksql.variable.substitution.enable")
        yield from parse_text(
            substituted(part, session.variables) if substituting else part,
            extended_pull=extended,
            test_statements=test_statements,
            parameters=values,
        )


def parse_push_query(text: str, session: Session, parameters: Values = ()) -> ParsedStatement:
    """The one push query of a text; raises StatementError for another text."""
    parsed = list(parse_script(text, session, parameters))
    query = parsed[0].statement if len(parsed) == 1 else None
    if not isinstance(query, s.SelectStatement) or query.query is None or query.query.emit is None:
        raise wordings.SUBSCRIBED_KIND(
            hint="It is one SELECT with EMIT CHANGES; execute() executes all other statements.",
        )

    return parsed[0]


def execute_statement(engine: Engine, parsed: ParsedStatement, session: Session) -> Result:
    """Execute one statement."""
    check_running(engine)
    with located(parsed):
        result = _dispatch(engine, parsed, session)
    if isinstance(result, History):
        result.explain = partial(show_statement, parsed=parsed)
    return result


@contextmanager
def located(parsed: ParsedStatement) -> Iterator[None]:
    """Add the line that an error points at."""
    try:
        yield
    except MillstreamError as error:
        locate(error, parsed.script)
        locate_by_name(error, parsed)
        raise


def check_running(engine: Engine) -> None:
    """Raise UnavailableError (E-CLOSED) if the database is closed, FencedError if the engine has
    stopped permanently."""
    engine.require_open()
    if engine.driver.failure is not None:
        raise FencedError("the engine has stopped", detail=str(engine.driver.failure))


def _dispatch(engine: Engine, parsed: ParsedStatement, session: Session) -> Result:
    statement = parsed.statement
    match statement:
        case s.SelectStatement(query) if query is not None and query.emit is not None:
            return pushing.push(query, parsed.script, engine.push_queries, session)
        case s.SelectStatement():
            return pulling.pull(statement, parsed, engine.historical, session)
        case s.InsertValues():
            return inserting.insert_values(statement, parsed.script, engine.inserts, session)
        case s.CopyFrom():
            return inserting.copy_from(statement, engine.inserts, session)
        case s.Show(listing) if listing in connectors.LISTINGS:
            return connectors.show_connectors(statement, engine.connectors)
        case s.Describe("CONNECTOR", name):
            sources = engine.catalog.sources.values()
            return connectors.describe_connector(name, engine.connectors, sources)
        case s.Show():
            return inspect.show(statement, engine.push_queries, engine.metrics, session)
        case s.Describe():
            return inspect.describe(statement, engine.registry, engine.metrics)
        case s.Explain():
            return explain(statement, parsed.script, engine.push_queries, engine.metrics, session)
        case s.Peek():
            return peek(statement, engine.registry)
        case s.AlterTopic():
            return alter_topic(statement, engine.registry)
        case s.Replay():
            return replay(statement, engine.registry)
        case s.PrintTopic():
            return print_topic(statement, engine.push_queries)
        case s.SetProperty() | s.DefineVariable():
            return control.set_property(statement, session)
        case s.AssertTopic() | s.AssertSchema() | s.AssertValues() | s.AssertSource():
            return asserts.check(statement, parsed.script, engine.registry, session)
        case s.RunScript(path):
            return _run_script(engine, path, session)
        case s.Backup():
            return backup_to(engine.registry, statement, session)
        case s.Spool():
            raise wordings.SPOOL()
        case s.CreateConnector():
            return connectors.creation(statement, engine.connectors)
        case s.DropConnector():
            return connectors.drop_connector(statement, engine.connectors)
        case s.CreateAs() if has_backfill(statement):
            backfill = backfilling.run_backfill(statement, parsed, engine.historical, session)
            return _change_catalog(engine, parsed, session, backfill)
        case _:
            return _change_catalog(engine, parsed, session)


def _change_catalog(
    engine: Engine,
    parsed: ParsedStatement,
    session: Session,
    backfill: BackfillResult | None = None,
) -> Done:
    _check_changeable(engine.queries_file)
    if isinstance(parsed.statement, s.ControlQuery):
        ended = control.terminate_push_query(parsed.statement, engine.push_queries)
        if ended is not None:
            return ended
    configured = _configured(parsed, session, engine.schemas)
    return _done(issuing.issue(engine.command_topic, configured, backfill))


def _check_changeable(queries_file: str) -> None:
    if queries_file:
        raise wordings.CATALOG_FROM_FILE(
            path=queries_file, hint="Add the statement to that file and start again."
        )


def _configured(
    parsed: ParsedStatement, session: Session, schemas: Schemas | None
) -> ConfiguredStatement:
    given = ConfiguredStatement(parsed.statement, parsed.text, parsed.script, session.properties)
    return with_columns(given, schemas)


def _done(change: Change) -> Done:
    return Done(change.message, change.query_id, change.changed)


def _run_script(engine: Engine, path: str, session: Session) -> Result:
    if not session.local:
        raise wordings.RUN_SCRIPT()
    text = read_script(path)
    count = sum(1 for _ in execute_script(engine, text, session))
    return Done(f"{count} statements executed")
