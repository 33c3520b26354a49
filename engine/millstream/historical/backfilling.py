"""CREATE … WITH (BACKFILL = …) AS SELECT: runs a new query over the history of its sources before
the statement is issued.

The run is bounded. Until it ends, it creates no source, query or topic, and it does not hold the
driver's lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from millstream.catalog.properties import Form, read_properties
from millstream.ddl.environment import ConfiguredStatement, PlanningContext
from millstream.ddl.persistent import PlannedQuery, plan_create_as
from millstream.ddl.registrations import registrations
from millstream.ddl.topics import sink_topic
from millstream.historical.historical import Historical
from millstream.historical.running import run_of
from millstream.history.reading import FromLog
from millstream.history.splits import Run, everything
from millstream.history.task import Produced
from millstream.history.watch import CancelledError, Watch, Watched
from millstream.log.log import Appended
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.problem import Problem
from millstream.queries import starting
from millstream.queries.backfill_result import BackfillResult
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement, show_statement
from millstream_parser import statements as s

_READ = "read"


def run_backfill(
    statement: s.CreateAs, parsed: ParsedStatement, historical: Historical, session: Session
) -> BackfillResult | None:
    """Run the query from the first record of each source to its current end. Returns None if the
    name is taken and the statement does not replace it: issuing it then does nothing or fails.

    Raises StatementError if the query cannot be planned, and UnavailableError (code E-CANCELLED) if
    the back-fill is cancelled or the engine closes meanwhile.
    """
    if statement.name in historical.registry.catalog.sources and not statement.or_replace:
        return None
    configured = ConfiguredStatement(statement, parsed.text, parsed.script, session.properties)
    context = PlanningContext(
        configured, historical.registry.definitions, historical.registry.environment
    )
    planned_query = plan_create_as(statement, context)
    _register(planned_query, historical)
    run, partition_count = _bounded_run(planned_query, historical)
    topics = starting.topics_of(historical.registry.log, run.topology)
    with _watched(statement.name, historical, session) as watch:
        try:
            produced = list(_produced(statement, run, historical, watch))
        except MillstreamError as error:
            show_statement(error, parsed)
            raise
        watch.check()
    problems = tuple(item for item in produced if isinstance(item, Problem))
    dead = starting.dead_letters_of(historical.registry, session.properties)
    return BackfillResult(
        run.topology,
        topics,
        partition_count,
        tuple(item for item in produced if isinstance(item, Appended)),
        problems,
        {topic_partition: split.end for topic_partition, split in run.splits.items()},
        planned_query.replaced,
        dead.letters(problems),
    )


def _register(planned_query: PlannedQuery, historical: Historical) -> None:
    """Register the schemas of the sink, whose ids are in the records that the job makes."""
    sink, registry = planned_query.planned.sink, historical.registry
    if sink is None or registry.schemas is None:
        return
    for each in registrations(sink, registry.environment, declared=False):
        registry.schemas.id_of(each.subject, each.schema)


@contextmanager
def _watched(name: str, historical: Historical, session: Session) -> Iterator[Watch]:
    """Register a `Watch`, which reports the progress of the job and cancels it."""
    watch = Watch(name)
    historical.backfills.add(watch)
    try:
        if session.on_backfill is not None:
            session.on_backfill(watch)
        yield watch
    except (CancelledError, UnavailableError):
        if not watch.cancelled.is_set():
            raise
        raise UnavailableError(
            f"The back-fill of {name} was cancelled; nothing was made", code="E-CANCELLED"
        ) from None
    finally:
        historical.backfills.discard(watch)


def _bounded_run(planned_query: PlannedQuery, historical: Historical) -> tuple[Run, int]:
    """The bounded run, and the partition count of the sink."""
    planned, properties = planned_query.planned, planned_query.record.properties
    topology = starting.topology_of(historical.registry, planned_query.record.id, planned)
    topic = sink_topic(planned, historical.registry.log, historical.registry.settings)
    run = run_of(
        historical.registry, topology, everything(historical.registry.log, topology), properties
    )
    return replace(run, widths={**run.widths, topic.name: topic.partitions}), topic.partitions


def _produced(
    statement: s.CreateAs, run: Run, historical: Historical, watch: Watch
) -> Iterator[Produced]:
    if read_properties(statement.properties, Form.CREATE_AS).backfill == "spark":
        return historical.on_spark.produced(
            run, {}, historical.registry.log, historical.registry.functions, watch, lazily=False
        )
    watch.show(_READ, 0, run.records)
    return historical.run_here(run, Watched(FromLog(historical.registry.log), watch, _READ))
