"""A database whose persistent queries are processed in epochs, on Spark or in this process, instead
of continuously."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from millstream.catalog.catalog import QueryKind, QueryRecord
from millstream.functions.user import UserFunction
from millstream.historical.historical import Historical
from millstream.history.reading import FromLog
from millstream.history.splits import Run
from millstream.history.task import Produced
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.settings import EngineSettings, InstanceSettings
from millstream.pipeline.carried import Advance, PipelineQuery, Runner
from millstream.pipeline.coordinator import PipelineCoordinator
from millstream.pipeline.script import Script, apply_script, show_query
from millstream.query.session import Session
from millstream.service.database import open_log_engine
from millstream.service.engine import Engine

_NONE: Mapping[str, str] = MappingProxyType({})

OnFailure = Callable[[str, MillstreamError], None]
"""Called with the id of a query that could not be processed, and the error."""


class Pipeline:
    """An open database whose engine processes records only in `epoch`. Use it in a `with`, or
    `close()` it; a process that opens the database afterwards continues from its last commit.

    On a log that other instances of the service share, a query belongs to them or to the pipeline.
    The pipeline takes a query whose group is empty, and leaves the group after the running epoch
    when an instance joins it.
    """

    def __init__(
        self,
        engine: Engine,
        runner: Runner,
        failed: OnFailure,
        script: Script = MappingProxyType({}),
    ) -> None:
        """`failed`: called for each query that stops or has to wait, with its error, which shows
        the query's position in the script. It is called once while the error stays the same."""
        self.engine = engine
        self.stopped: set[str] = set()
        """The queries that have stopped, for which a retry does not help."""
        self.waiting: set[str] = set()
        """The queries that the last epoch postponed to the next one."""
        self._runner = runner
        self._failed = failed
        self._script = script
        self._reported: dict[str, str] = {}
        self._queries: dict[str, PipelineQuery] = {}
        self._coordinator = PipelineCoordinator(
            engine.command_topic, lambda: tuple(self._queries.values())
        )
        if engine.shared:
            self._coordinator.start()

    def epoch(self) -> Iterator[Advance]:
        """Process the new records of each query in its own transaction. A query that writes a
        source runs before the queries that read it. Yields the counts of each query."""
        self.waiting.clear()
        requested = [query_id for query_id in self._processed() if self._request_tasks(query_id)]
        for query_id in requested:
            advance = self._advanced(query_id)
            if advance is not None:
                yield advance
        self.engine.log.maintain()

    def _processed(self) -> Iterator[str]:
        """The queries to process, in order. A query whose definition changed is reset."""
        engine = self.engine
        with engine.driver.lock:
            known, reasons = in_order(engine.catalog.queries.values()), dict(engine.registry.failed)
        gone = self._queries.keys() - {record.id for record in known}
        gone |= {query_id for query_id, query in self._queries.items() if not query.current}
        for query_id in gone:
            self._queries.pop(query_id).close()
            self.stopped.discard(query_id)
        for record in known:
            if record.id in self.stopped or record.id in engine.registry.paused:
                continue
            if record.id in reasons:
                again = (
                    record.id in engine.registry.queries
                    and engine.registry.queries[record.id].retry
                )
                kind = UnavailableError if again else MillstreamError
                self._report(record.id, kind(reasons[record.id]))
            else:
                yield record.id

    def _request_tasks(self, query_id: str) -> bool:
        """Join a query's group; returns whether the query can be processed. All queries join
        before the first one waits for its tasks, so that the waits overlap."""
        try:
            query = self._query(query_id)
            return query is not None and query.request_tasks()
        except MillstreamError as error:
            self._report(query_id, error)
            return False

    def _query(self, query_id: str) -> PipelineQuery | None:
        """The query of an id; None if it was dropped meanwhile."""
        if query_id not in self._queries:
            with self.engine.driver.lock:
                if query_id not in self.engine.registry.plans:
                    return None
                self._queries[query_id] = PipelineQuery(self.engine.command_topic, query_id)
        return self._queries[query_id]

    def _advanced(self, query_id: str) -> Advance | None:
        try:
            advance = self._queries[query_id].advance(self._runner)
        except MillstreamError as error:
            if self._queries[query_id].current:
                record = self.engine.catalog.queries.get(query_id)
                if record is not None:
                    show_query(error, record.statement, self._script)
                self._report(query_id, error)
            return None
        self._reported.pop(query_id, None)
        return advance

    def _report(self, query_id: str, error: MillstreamError) -> None:
        retry = isinstance(error, UnavailableError)
        (self.waiting if retry else self.stopped).add(query_id)
        if self._reported.get(query_id) != error.message:
            self._reported[query_id] = error.message
            self._failed(query_id, error)

    def close(self) -> None:
        """Release everything; idempotent."""
        self._coordinator.stop()
        for query in self._queries.values():
            query.close()
        self._queries.clear()
        self.engine.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_pipeline(
    path: str,
    script: str,
    failed: OnFailure,
    *,
    master: str | None = None,
    kafka: str | None = None,
    service_id: str = "default",
    kafka_settings: Mapping[str, str] = _NONE,
    sharing: InstanceSettings | None = None,
    settings: EngineSettings | None = None,
    properties: Mapping[str, str] = _NONE,
    functions: Sequence[UserFunction] = (),
) -> Pipeline:
    """Open a database, and execute the script at `script` so that its queries can be processed.

    `master`: the Spark master to process them on; None for this process. For the other arguments
    see `connect`. Raises the errors of `connect` and of the statements, and UnavailableError if
    PySpark, Java or the cluster is missing.
    """
    session = Session()
    for name, value in properties.items():
        session.set(name, value)
    settings = settings or EngineSettings()
    if master is not None:
        settings = replace(settings, spark_master=master)
    engine = open_log_engine(path, kafka, service_id, kafka_settings, sharing, settings, functions)
    try:
        applied = apply_script(engine, script, session)
        if master is not None:
            # Raises the error of a missing Spark now, not at the first epoch with records.
            engine.historical.on_spark.start()
    except BaseException:
        engine.close()
        raise
    runner = partial(_run_here if master is None else _run_on_spark, engine.historical)
    return Pipeline(engine, runner, failed, applied)


def _run_here(historical: Historical, run: Run) -> Iterator[Produced]:
    return historical.run_here(run, FromLog(historical.registry.log))


def _run_on_spark(historical: Historical, run: Run) -> Iterator[Produced]:
    registry = historical.registry
    return historical.on_spark.epoch(run, registry.log, registry.functions)


def in_order(queries: Iterable[QueryRecord]) -> list[QueryRecord]:
    """The queries to process, each after those that write its sources; in a cycle, in order of
    their creation."""
    known = [query for query in queries if query.kind is not QueryKind.SOURCE_TABLE]
    placed: dict[str, QueryRecord] = {}
    visited: set[str] = set()

    def visit(query: QueryRecord) -> None:
        if query.id in visited:
            return
        visited.add(query.id)
        for other in known:
            if other.sink in query.sources:
                visit(other)
        placed[query.id] = query

    for query in known:
        visit(query)
    return list(placed.values())
