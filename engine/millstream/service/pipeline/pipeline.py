"""A database whose persistent queries are processed in epochs, by jobs on Spark or in this process,
instead of record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from millstream.catalog.catalog import QueryKind, QueryRecord
from millstream.functions.user import UserFunction
from millstream.history.local import run_local
from millstream.history.reading import FromLog
from millstream.history.splits import Run
from millstream.history.task import Produced
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.settings import EngineSettings, InstanceSettings
from millstream.service.database import open_log_engine
from millstream.service.engine import Engine
from millstream.service.pipeline.carried import Advance, Carried, Runner
from millstream.service.pipeline.coordinator import PipelineCoordinator
from millstream.service.pipeline.script import Script, apply_script, show_query
from millstream.service.session import Session

_NONE: Mapping[str, str] = MappingProxyType({})

Failed = Callable[[str, MillstreamError], None]
"""Told of a query that could not be processed, and why."""


class Pipeline:
    """An open database whose engine processes nothing by itself. Use it in a `with`, or `close()`
    it; whoever opens the database then goes on from there.

    On a log that other instances of the service work on, a query is theirs or the pipeline's: it
    takes what nobody has, and gives it away behind the running epoch when an instance comes.
    """

    def __init__(
        self, engine: Engine, runner: Runner, failed: Failed, script: Script = MappingProxyType({})
    ) -> None:
        """`failed`: called with each query that stops, or has to wait, and its error, which shows
        where in the script the query is; once for the same error in epoch after epoch."""
        self.engine = engine
        self.stopped: set[str] = set()
        """The queries that go no further: trying again does not mend them."""
        self.waiting: set[str] = set()
        """Those that the last epoch has left for the next one."""
        self._runner = runner
        self._failed = failed
        self._script = script
        self._told: dict[str, str] = {}
        self._carried: dict[str, Carried] = {}
        self._attending = PipelineCoordinator(engine, lambda: tuple(self._carried.values()))
        if engine.shared:
            self._attending.start()

    def epoch(self) -> Iterator[Advance]:
        """Have each query process what has come since its last epoch, sources before those that
        read them, each in a transaction of its own; what was done, as it is done."""
        self.waiting.clear()
        asked = [query_id for query_id in self._processed() if self._asked(query_id)]
        for query_id in asked:
            advance = self._advanced(query_id)
            if advance is not None:
                yield advance
        self.engine.log.maintain()

    def _processed(self) -> Iterator[str]:
        """The queries to process, in order. Those that are defined anew begin anew."""
        engine = self.engine
        with engine.driver.lock:
            known, reasons = in_order(engine.catalog.queries.values()), dict(engine.failed)
        gone = self._carried.keys() - {record.id for record in known}
        gone |= {query_id for query_id, carried in self._carried.items() if not carried.current}
        for query_id in gone:
            self._carried.pop(query_id).close()
            self.stopped.discard(query_id)
        for record in known:
            if record.id in self.stopped or record.id in engine.paused:
                continue
            if record.id in reasons:
                again = record.id in engine.queries and engine.queries[record.id].retry
                kind = UnavailableError if again else MillstreamError
                self._tell(record.id, kind(reasons[record.id]))
            else:
                yield record.id

    def _asked(self, query_id: str) -> bool:
        """Whether a query's tasks are this pipeline's, or soon will be. All queries ask for them
        before one of them waits."""
        try:
            carried = self._carried_of(query_id)
            return carried is not None and carried.ask()
        except MillstreamError as error:
            self._tell(query_id, error)
            return False

    def _carried_of(self, query_id: str) -> Carried | None:
        """None where the query was dropped just now."""
        if query_id not in self._carried:
            with self.engine.driver.lock:
                if query_id not in self.engine.plans:
                    return None
                self._carried[query_id] = Carried(self.engine, query_id)
        return self._carried[query_id]

    def _advanced(self, query_id: str) -> Advance | None:
        try:
            advance = self._carried[query_id].advance(self._runner)
        except MillstreamError as error:
            if self._carried[query_id].current:
                record = self.engine.catalog.queries.get(query_id)
                if record is not None:
                    show_query(error, record.statement, self._script)
                self._tell(query_id, error)
            return None
        self._told.pop(query_id, None)
        return advance

    def _tell(self, query_id: str, error: MillstreamError) -> None:
        away = isinstance(error, UnavailableError)
        (self.waiting if away else self.stopped).add(query_id)
        if self._told.get(query_id) != error.message:
            self._told[query_id] = error.message
            self._failed(query_id, error)

    def close(self) -> None:
        """Release everything; idempotent."""
        self._attending.stop()
        for carried in self._carried.values():
            carried.close()
        self._carried.clear()
        self.engine.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_pipeline(
    path: str,
    script: str,
    failed: Failed,
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
    """Open a database, make what the script at `script` says, and be ready to process it: on
    Spark where `master` says, else in this process.

    For the rest see `connect`. Raises what that and the statements raise, UnavailableError where
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
            # Whoever has no Spark is to hear of it before there is anything to do.
            engine.history.on_spark.start()
    except BaseException:
        engine.close()
        raise
    runner = partial(_here if master is None else _on_spark, engine)
    return Pipeline(engine, runner, failed, applied)


def _here(engine: Engine, run: Run) -> Iterator[Produced]:
    return run_local(run, FromLog(engine.log), engine.functions)


def _on_spark(engine: Engine, run: Run) -> Iterator[Produced]:
    return engine.history.on_spark.epoch(run, engine.log, engine.functions)


def in_order(queries: Iterable[QueryRecord]) -> list[QueryRecord]:
    """The queries to process, each behind those that write what it reads; where they write to each
    other, as they were made."""
    known = [query for query in queries if query.kind is not QueryKind.SOURCE_TABLE]
    placed: dict[str, QueryRecord] = {}
    visited: set[str] = set()

    def topic_partition(query: QueryRecord) -> None:
        if query.id in visited:
            return
        visited.add(query.id)
        for other in known:
            if other.sink in query.sources:
                topic_partition(other)
        placed[query.id] = query

    for query in known:
        topic_partition(query)
    return list(placed.values())
