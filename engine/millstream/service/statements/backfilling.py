"""CREATE … WITH (BACKFILL = …) AS SELECT: the past of a new query as a bounded run, before the
statement is carried out. Nothing is made meanwhile, and nobody waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from millstream.catalog.properties import Form, read_properties
from millstream.history.local import run_local
from millstream.history.reading import FromLog
from millstream.history.splits import Run, everything
from millstream.history.task import Produced
from millstream.log.log import Appended
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.problem import Problem
from millstream.service import queries, wordings
from millstream.service.context import Context
from millstream.service.engine import Engine
from millstream.service.history.filled import Filled
from millstream.service.history.running import run_of
from millstream.service.history.watch import CancelledError, Watch, Watched
from millstream.service.session import Session
from millstream.service.statements.definitions import unwritten
from millstream.service.statements.persistent import Draft, draft
from millstream.service.text import Piece, show_statement
from millstream_parser import statements as s

_READ = "read"


def fill(statement: s.CreateAs, piece: Piece, engine: Engine, session: Session) -> Filled | None:
    """Run the query from the first record of each source to its present end; None where the name
    is taken, so that there is none to run.

    StatementError where that cannot be, UnavailableError (code E-CANCELLED) when the engine closes
    meanwhile.
    """
    if statement.name in engine.catalog.sources and not statement.or_replace:
        return None
    context = Context(piece.text, piece.script, engine, session, 0, False, unwritten)
    made = draft(statement, context)
    if made.replaced is not None:
        _check_replacing(statement, made, engine)
    run, width = _run_of(made, engine)
    topics = queries.topics_of(engine, run.topology)
    with _watched(statement.name, engine, session) as watch:
        try:
            produced = list(_produced(statement, run, engine, watch))
        except MillstreamError as error:
            show_statement(error, piece)
            raise
        watch.check()
    return Filled(
        run.topology,
        topics,
        width,
        tuple(item for item in produced if isinstance(item, Appended)),
        tuple(item for item in produced if isinstance(item, Problem)),
        {place: split.end for place, split in run.splits.items()},
        made.replaced,
    )


@contextmanager
def _watched(name: str, engine: Engine, session: Session) -> Iterator[Watch]:
    """What a job tells how far it is, and hears that it is to end by."""
    watch = Watch(name)
    engine.history.filling.add(watch)
    try:
        if session.filling is not None:
            session.filling(watch)
        yield watch
    except (CancelledError, UnavailableError):
        if not watch.cancelled.is_set():
            raise
        raise UnavailableError(
            f"The back-fill of {name} was cancelled; nothing was made", code="E-CANCELLED"
        ) from None
    finally:
        engine.history.filling.discard(watch)


def _check_replacing(statement: s.CreateAs, made: Draft, engine: Engine) -> None:
    """Refuse what cannot be made anew, or only out of itself."""
    name = statement.name
    if statement.kind == "STREAM":
        raise wordings.STREAM_MADE_ANEW(
            name=name,
            hint="Leave BACKFILL out: the new definition counts from now on. Or create another"
            " stream with BACKFILL.",
        )
    if name in _made_of(made, engine):
        raise wordings.TABLE_OUT_OF_ITSELF(name=name)


def _made_of(made: Draft, engine: Engine) -> set[str]:
    """All streams and tables that a query reads, and those that these are made of."""
    found: set[str] = set()
    left = [source.name for source in made.planned.sources]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += engine.catalog.sources[name].origins if name in engine.catalog.sources else ()
    return found


def _run_of(made: Draft, engine: Engine) -> tuple[Run, int]:
    """The run, and the partitions of the sink."""
    planned, properties = made.planned, made.record.properties
    assert planned.sink_topic is not None
    topology = queries.topology_of(engine, made.record.id, planned)
    width = queries.sink_partitions(engine, planned.sink_topic)
    run = run_of(engine, topology, everything(engine.log, topology), properties)
    return replace(run, widths={**run.widths, planned.sink_topic.name: width}), width


def _produced(statement: s.CreateAs, run: Run, engine: Engine, watch: Watch) -> Iterator[Produced]:
    if read_properties(statement.properties, Form.CREATE_AS).backfill == "spark":
        return engine.history.on_spark.produced(
            run, {}, engine.log, engine.functions, watch, lazily=False
        )
    watch.show(_READ, 0, run.records)
    return run_local(run, Watched(FromLog(engine.log), watch, _READ), engine.functions)
