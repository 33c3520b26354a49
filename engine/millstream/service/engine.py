"""One open database: the resources that its statements and queries share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.cluster.cluster import CLIENT_IDENTITY, Cluster
from millstream.command_topic.command_topic import CommandTopic
from millstream.command_topic.commands import CommandLog
from millstream.connectors.opening import open_connectors
from millstream.executor.decode_cache import DecodeCache
from millstream.functions.function import Catalogue, ProcessorFunction
from millstream.functions.user import UserFunction
from millstream.historical.historical import Historical
from millstream.historical.on_spark import OnSpark
from millstream.history.session import SparkSettings
from millstream.log.checks import closed
from millstream.log.log import WatchedLog
from millstream.log.reopening import ReopeningWriter
from millstream.metrics.metrics import Metrics
from millstream.model.clock import ticks_ns
from millstream.model.errors import ConflictError, FencedError, UnavailableError
from millstream.model.settings import EngineSettings
from millstream.push.push_queries import PushQueries
from millstream.queries.draining import drain
from millstream.queries.processing_log import ProcessingLog
from millstream.queries.registry import QueryRegistry
from millstream.queries.statuses import statuses
from millstream.runtime.runtime import Runtime
from millstream.runtime.spec import QueryStatus, RuntimeSettings
from millstream.scheduler.checkpoints import open_checkpoints
from millstream.scheduler.driver import Driver
from millstream.scheduler.restoring import Restoring
from millstream.schemas.opening import open_registry
from millstream.service.generated import GeneratedOutput
from millstream.state.store import Store
from millstream.statements.inserting import Inserts

CLOSE_SECONDS = 20
"""The time that queries have to stop in `close`."""


class Follower(Protocol):
    """Applies the statements that other instances of the service issue."""

    def start(self) -> None:
        """Start, in a thread if the engine needs one."""

    def stop(self) -> None:
        """Stop; idempotent."""


class Engine:
    """One database: its log, state, catalog and running queries.

    Statements may run in any thread. The catalog and the set of queries change under the driver's
    lock; inserts do not take it.
    """

    def __init__(
        self,
        log: WatchedLog[pa.Table],
        store: Store,
        settings: EngineSettings,
        clock: Callable[[], int],
        functions: Catalogue,
        *,
        incarnation: str = "",
        ticks: Callable[[], int] = ticks_ns,
    ) -> None:
        """`incarnation`: identifies this process among the instances of its service if they share
        the log; empty otherwise. `clock`: the time of day in ms. `ticks`: a monotonic clock in
        ns."""
        self.log = log
        self.shared = bool(incarnation)
        self.incarnation = incarnation
        self.store = store
        self.settings = settings
        self.clock = clock
        self.processing_log = ProcessingLog()
        runtime = _runtime_settings(settings, ticks, log.poll_interval_ms)
        self.restoring = self._restoring(runtime)
        self.runtime: Runtime[pa.Table] = Runtime(
            log, runtime, self.processing_log.add, self.restoring
        )
        self.driver = Driver(
            self.runtime,
            clock,
            log.maintain,
            threads=settings.processing_threads,
            function_threads=settings.function_threads,
            full=settings.max_batch_records,
            linger_ms=settings.linger_ms if log.private else 0,
        )
        self.runtime.background = self.driver.workers
        self.schemas = open_registry(settings, log, clock, shared=self.shared)
        self.registry = self._registry(functions)
        self.cluster = Cluster(self.registry, incarnation, clock)
        self.command_topic = CommandTopic(
            CommandLog(log, settings.command_topic, shared=self.shared),
            self.registry,
            clock,
            ticks,
            incarnation,
            self._alive,
        )
        self.follower: Follower | None = None
        self.writer = self._writer_for_clients()
        self.inserts = Inserts(self.registry, self.writer, clock)
        self.connectors = open_connectors(
            settings, log, GeneratedOutput(self.inserts), clock, shared=self.shared
        )
        self.push_queries = PushQueries(self.cluster)
        self.historical = Historical(self.cluster, self.writer, OnSpark(_spark_settings(settings)))
        self.metrics = Metrics(self.historical, self.push_queries, self.processing_log, ticks)
        self._cancel_wake = log.on_news(self.driver.tell)
        self.closed = False
        self.queries_file = ""
        """The file that defines the catalog, if statements must not change it; empty otherwise."""
        self.driver.on_failure = self._fail_pushes

    def _registry(self, functions: Catalogue) -> QueryRegistry:
        return QueryRegistry(
            self.log,
            self.store,
            self.settings,
            functions,
            self.runtime,
            self.driver,
            DecodeCache(self.settings.decoded_bytes),
            self.restoring,
            self.processing_log.add,
            self.shared,
            self.schemas,
        )

    def _restoring(self, runtime: RuntimeSettings) -> Restoring | None:
        """Who restores state beside the queries: of an instance among others, or from
        checkpoints."""
        settings, checkpoints = self.settings, None
        if settings.checkpoints_url:
            checkpoints = open_checkpoints(
                settings.checkpoints_url,
                self.store,
                self.log,
                settings.checkpoint_interval_ms,
                self.clock,
            )
        elif not self.shared:
            return None
        return Restoring(self.log, self.clock, runtime, self._restored, checkpoints)

    def _alive(self) -> frozenset[str]:
        """The incarnations of the other instances that are alive."""
        peers = self.cluster.host_info.peers()
        return frozenset(peer.metadata.incarnation for peer in peers if peer.alive)

    def _writer_for_clients(self) -> ReopeningWriter[pa.Table]:
        name = self.cluster.unique_name(CLIENT_IDENTITY)
        writer = ReopeningWriter(lambda: self.log.writer(name), own=self.shared)
        writer.open()
        return writer

    def _restored(self, query_id: str) -> None:
        """Called when the state of tasks is restored, so that they can be processed."""
        self.driver.wake(query_id)

    def register(self, functions: Sequence[UserFunction]) -> None:
        """Register users' functions for later statements."""
        self.registry.functions = with_functions(self.functions, functions)

    def require_open(self) -> None:
        """Raise UnavailableError (E-CLOSED) if this is closed."""
        if self.closed:
            raise closed("database")

    def start(self) -> None:
        """Start the threads that run the queries."""
        if self.restoring is not None:
            self.restoring.start()
        if self.follower is not None:
            self.follower.start()
        self.driver.start()
        self.metrics.start()
        if self.connectors is not None:
            self.connectors.start()
        for callback in self.cluster.on_start:
            callback()

    @property
    def catalog(self) -> Catalog:
        """Streams, tables, types and persistent queries."""
        return self.registry.catalog

    @property
    def functions(self) -> Catalogue:
        """The functions that statements may call."""
        return self.registry.functions

    def statuses(self) -> tuple[QueryStatus, ...]:
        """The status of every running query, within a second."""
        return statuses(self.registry)

    def _fail_pushes(self, failure: BaseException) -> None:
        """Fail all push queries after a processing thread has died, as they get no more rows."""
        self.push_queries.fail(FencedError("the engine has stopped", detail=str(failure)))

    def drain(self) -> None:
        """Return when all queries have processed and committed all records that are there now; see
        `queries.draining.drain`. Raises UnavailableError as that does."""
        drain(self.registry)

    def close(self) -> None:
        """Stop, commit and release everything; idempotent.

        Raises UnavailableError if queries do not stop in time, because a user's function hangs. All
        other queries are committed then, and resources are released when the last query stops.
        """
        if self.closed:
            return
        self._cancel_wake()
        if self.connectors is not None:
            self.connectors.close()
        if self.follower is not None:
            self.follower.stop()
        self.driver.end(CLOSE_SECONDS)
        self.historical.cancel()
        self.push_queries.close()
        self.metrics.stop()
        self.closed = True
        left = self.driver.stop()
        if not left:
            self._release()
            return
        self._release_after(left)
        raise UnavailableError(
            f"The database is not fully closed: {', '.join(left)} did not stop within"
            f" {CLOSE_SECONDS} seconds",
            hint="Check for a Python function that hangs. The files are released when it returns or"
            " the process ends; committed data is kept.",
            code="E-QUERY-BUSY",
        )

    def _release_after(self, left: Sequence[str]) -> None:
        """Release everything when the last of these queries has stopped."""
        running, lock = set(left), threading.Lock()

        def stopped(query_id: str) -> None:
            with lock:
                running.discard(query_id)
                last = not running
            if last:
                self._release()

        for query_id in left:
            if not self.driver.after_release(query_id, partial(stopped, query_id)):
                stopped(query_id)

    def _release(self) -> None:
        for callback in self.cluster.on_close:
            callback()
        self.historical.close()
        if self.restoring is not None:
            self.restoring.close()
        self.command_topic.log.close()
        if self.schemas is not None:
            self.schemas.close()
        self.writer.close()
        self.log.maintain()
        self.log.close()
        self.store.close()


def _spark_settings(settings: EngineSettings) -> SparkSettings:
    return SparkSettings(settings.spark_master, options=settings.spark_options)


def _runtime_settings(
    settings: EngineSettings, ticks: Callable[[], int], poll_interval_ms: int | None
) -> RuntimeSettings:
    return RuntimeSettings(
        commit_interval_ms=settings.commit_interval_ms,
        max_batch_records=settings.max_batch_records,
        idle_poll_ms=poll_interval_ms,
        stopwatch=ticks,
    )


def with_functions(catalogue: Catalogue, functions: Sequence[UserFunction]) -> Catalogue:
    """The catalogue with users' functions added; raises ConflictError if a name is taken."""
    try:
        processors = [each for each in functions if isinstance(each, ProcessorFunction)]
        others = [each for each in functions if not isinstance(each, ProcessorFunction)]
        return catalogue.with_functions(others).with_processors(processors)
    except ValueError as error:
        raise ConflictError(
            f"The functions cannot be registered: {error}.", hint="Choose another name."
        ) from error
