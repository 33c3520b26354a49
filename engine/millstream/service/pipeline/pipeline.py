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
from millstream.model.settings import EngineSettings
from millstream.service.clock import now_ms
from millstream.service.engine import Engine
from millstream.service.execution import open_engine
from millstream.service.pipeline.carried import Advance, Carried, Runner
from millstream.service.pipeline.script import apply_script
from millstream.service.session import Session

_NONE: Mapping[str, str] = MappingProxyType({})

Failed = Callable[[str, MillstreamError], None]
"""Told of a query that could not be processed, and why."""


class Pipeline:
    """An open database whose engine processes nothing by itself. Use it in a `with`, or `close()`
    it; whoever opens the file then goes on from there."""

    def __init__(self, engine: Engine, runner: Runner, failed: Failed) -> None:
        """`failed`: called with each query that stops, or has to wait, and its error."""
        self.engine = engine
        self.stopped: set[str] = set()
        """The queries that go no further: trying again does not mend them."""
        self.waiting: set[str] = set()
        """Those that the last epoch has left for the next one."""
        self._runner = runner
        self._failed = failed
        self._carried: dict[str, Carried] = {}
        for query_id, reason in engine.failed.items():
            self.stopped.add(query_id)
            failed(query_id, MillstreamError(reason))

    def epoch(self) -> Iterator[Advance]:
        """Have each query process what has come since its last epoch, sources before those that
        read them, each in a transaction of its own; what was done, as it is done."""
        self.waiting.clear()
        for record in in_order(self.engine.catalog.queries.values()):
            if record.id in self.stopped or record.id in self.engine.paused:
                continue
            advance = self._advanced(record.id)
            if advance is not None:
                yield advance
        self.engine.log.maintain()

    def _advanced(self, query_id: str) -> Advance | None:
        try:
            if query_id not in self._carried:
                self._carried[query_id] = Carried(self.engine, query_id)
            return self._carried[query_id].advance(self._runner)
        except MillstreamError as error:
            away = isinstance(error, UnavailableError)
            (self.waiting if away else self.stopped).add(query_id)
            self._failed(query_id, error)
            return None

    def close(self) -> None:
        """Release everything; idempotent."""
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
    settings: EngineSettings | None = None,
    properties: Mapping[str, str] = _NONE,
    functions: Sequence[UserFunction] = (),
) -> Pipeline:
    """Open a file (made when missing), make what the script at `script` says, and be ready to
    process it: on Spark where `master` says, else in this process.

    For the rest see `connect`. Raises what that and the statements raise, UnavailableError where
    PySpark, Java or the cluster is missing.
    """
    session = Session()
    for name, value in properties.items():
        session.set(name, value)
    settings = settings or EngineSettings()
    if master is not None:
        settings = replace(settings, spark_master=master)
    engine = open_engine(path, settings, now_ms, functions)
    try:
        apply_script(engine, script, session)
        if master is not None:
            # Whoever has no Spark is to hear of it before there is anything to do.
            engine.history.on_spark.start()
    except BaseException:
        engine.close()
        raise
    runner = partial(_here if master is None else _on_spark, engine)
    return Pipeline(engine, runner, failed)


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

    def place(query: QueryRecord) -> None:
        if query.id in visited:
            return
        visited.add(query.id)
        for other in known:
            if other.sink in query.sources:
                place(other)
        placed[query.id] = query

    for query in known:
        place(query)
    return list(placed.values())
