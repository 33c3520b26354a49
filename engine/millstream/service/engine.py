"""One open database: everything that statements and queries share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.ddl.environment import Environment
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.ddl.topics import PlannedTopics
from millstream.functions.function import Catalogue
from millstream.functions.user import UserFunction
from millstream.log.log import Topic, TopicPartition, WatchedLog
from millstream.log.reopening import ReopeningWriter
from millstream.model.errors import ConflictError, FencedError, UnavailableError
from millstream.model.settings import EngineSettings
from millstream.plan.build import Planned
from millstream.runtime.runtime import Runtime
from millstream.runtime.spec import QueryState, QueryStatus, RuntimeSettings
from millstream.service.clock import ticks_ns
from millstream.service.cluster.host_info import HostInfo
from millstream.service.cluster.routing import Routing
from millstream.service.command_topic.commands import CommandLog
from millstream.service.command_topic.replay_state import ReplayState
from millstream.service.history.historical import Historical
from millstream.service.metrics.sampling import Sampler
from millstream.service.processing_log import ProcessingLog
from millstream.service.results import Stream
from millstream.service.shared_push import SharedPushQuery
from millstream.service.threads.driver import Driver
from millstream.service.threads.restoring import Restoring
from millstream.state.store import Store

CLIENT_IDENTITY = "_millstream_client"
PATIENCE_SECONDS = 0.2
CLOSE_SECONDS = 20
RETRY_SECONDS = 60


class Follower(Protocol):
    """Keeps an engine up with what the other instances of its service do."""

    def start(self) -> None:
        """Begin, in a thread where one is needed."""

    def stop(self) -> None:
        """End; idempotent."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a query that has ended leaves to delete: the ids of its `topics`, and how often that
    may be tried yet while others still run it."""

    topics: frozenset[str]
    tries: int


@dataclass(slots=True)
class PersistentQuery:
    """What this process has of a query. `stopped`: only its state. `error`: why it could not be
    started, and whether to `retry`, as the log did not answer."""

    planned: Planned
    paused: bool = False
    stopped: bool = False
    error: str = ""
    retry: bool = False


class Engine:
    """One database: its log, its state, its catalog and its running queries.

    Statements may come from any thread; the catalog and the set of queries change under the
    driver's lock, records are inserted without it.
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
        """`incarnation`: what tells this process from the other instances of its service, where
        these work on the log at the same time.
        `clock` tells the time of day in ms, `ticks` how many ns have gone by."""
        self.log = log
        self.shared = bool(incarnation)
        self.incarnation = incarnation
        self.store = store
        self.settings = settings
        self.clock = clock
        self.definitions = CatalogSnapshot()
        """The catalog and the plans of its queries; replaced as a whole under the driver's lock."""
        self.functions = functions
        self.processing_log = ProcessingLog()
        runtime = _runtime_settings(settings, ticks)
        self.restoring = Restoring(log, clock, runtime, self._restored) if self.shared else None
        self.runtime: Runtime[pa.Table] = Runtime(
            log, runtime, self.processing_log.add, self.restoring
        )
        self.driver = Driver(
            self.runtime,
            clock,
            log.maintain,
            threads=settings.processing_threads,
            full=settings.max_batch_records,
        )
        self.commands = CommandLog(log, settings.command_topic, shared=self.shared)
        self.ledger = ReplayState()
        self.follower: Follower | None = None
        self.writer = self._writer_for_clients()
        self.pushing: dict[str, Stream] = {}
        self.tails: dict[str, SharedPushQuery] = {}
        self.pushes = 0
        self._cancel_wake = log.on_append(self.driver.wake)
        self.closed = False
        self.queries_file = ""
        """The file that the catalog comes from, where statements must not change it."""
        self.queries: dict[str, PersistentQuery] = {}
        """What this process has of queries; `reconcile` makes it match the catalog."""
        self.ended: dict[str, Ended] = {}
        """Ended queries whose topics and positions are still to be deleted."""
        self.routing: Routing | None = None
        """Where state is that other instances hold; None where all of it is here."""
        self.host_info = HostInfo()
        self.on_start: list[Callable[[], None]] = []
        """Called by `start`."""
        self.on_close: list[Callable[[], None]] = []
        """Called by `close` when the queries have ended, and the log and the state have not."""
        self.driver.on_failure = self._fail_pushes
        self.history = Historical(settings)
        self.files: Mapping[str, str] = {}
        """Where the log and the state lie, as far as these are files."""
        self.opened_at = ticks()
        self.ticks = ticks
        self.sampler = Sampler(lambda: self._status({}), ticks)

    def named(self, identity: str) -> str:
        """The name of a writer, or of a query, that is this process's alone."""
        return f"{identity}.{self.incarnation}" if self.incarnation else identity

    def _writer_for_clients(self) -> ReopeningWriter[pa.Table]:
        name = self.named(CLIENT_IDENTITY)
        made = ReopeningWriter(lambda: self.log.writer(name), own=self.shared)
        made.open()
        return made

    def _restored(self) -> None:
        """Tasks that came from other instances can be processed now."""
        self.driver.wake()

    def register(self, functions: Sequence[UserFunction]) -> None:
        """Make users' functions known to statements that come after."""
        self.functions = with_functions(self.functions, functions)

    def start(self) -> None:
        """Let the queries run in threads of their own."""
        if self.restoring is not None:
            self.restoring.start()
        if self.follower is not None:
            self.follower.start()
        self.driver.start()
        self.sampler.start()
        for begin in self.on_start:
            begin()

    @property
    def catalog(self) -> Catalog:
        """Streams, tables, types and persistent queries."""
        return self.definitions.catalog

    @property
    def plans(self) -> Mapping[str, Planned]:
        """The logical plans of the persistent queries."""
        return self.definitions.plans

    @property
    def paused(self) -> frozenset[str]:
        """The persistent queries that are paused."""
        return self.definitions.paused

    @property
    def topics(self) -> Mapping[str, tuple[Topic, ...]]:
        """The topics of the persistent queries, as they were when these were created."""
        return self.definitions.topics

    @property
    def failed(self) -> Mapping[str, str]:
        """Why queries of the catalog could not be started."""
        return {query_id: run.error for query_id, run in tuple(self.queries.items()) if run.error}

    @property
    def environment(self) -> Environment:
        """What one statement is planned with that is given now."""
        return Environment(self.functions, self.settings, PlannedTopics(self.log), self.shared)

    @property
    def replay_environment(self) -> Environment:
        """What statements of the command topic are planned with."""
        return Environment(self.functions, self.settings)

    def states(self) -> dict[str, str]:
        """What each query of the catalog does here, by the names of `QueryState`."""
        states = dict.fromkeys(self.failed, QueryState.ERROR) | self.runtime.states()
        known = self.catalog.queries
        return {name: state.value for name, state in states.items() if name in known}

    def statuses(self) -> tuple[QueryStatus, ...]:
        """What every running query is doing, told within a second. Where a log does not answer,
        what the queries lack is unknown; where that has them wait, they are looked at beside it."""
        with self.driver.lock.tried(PATIENCE_SECONDS):
            inputs = self.runtime.inputs()
        ends = self.log.end_offsets(inputs)
        with self.driver.lock.tried(PATIENCE_SECONDS):
            return self._status(ends)

    def _status(self, ends: Mapping[TopicPartition, int]) -> tuple[QueryStatus, ...]:
        statuses = self.runtime.status(ends)
        return statuses if self.restoring is None else self.restoring.completed(statuses)

    def _fail_pushes(self, failure: BaseException) -> None:
        """A processing thread has died: nobody will ever feed the push queries again."""
        for stream in list(self.pushing.values()):
            stream.fail(FencedError("the engine has stopped", detail=str(failure)))

    def drain(self) -> None:
        """Return when all queries have processed and committed what there is.

        Where brokers may be away for a while, queries that wait for them are waited for;
        UnavailableError when that takes longer than a minute.
        """
        until = time.monotonic() + RETRY_SECONDS
        while True:
            while self.driver.run_until_idle():
                pass
            waiting = self.runtime.retrying() if self.shared else {}
            if not waiting:
                return
            if time.monotonic() > until:
                query_id, why = next(iter(waiting.items()))
                raise UnavailableError(f"Query {query_id} cannot go on: {why}")
            time.sleep(PATIENCE_SECONDS)

    def close(self) -> None:
        """Stop, commit and release everything; idempotent.

        Raises UnavailableError when queries do not stop in time, because a user's function hangs:
        all others are committed then, and the rest is released when they do stop.
        """
        if self.closed:
            return
        self._cancel_wake()
        if self.follower is not None:
            self.follower.stop()
        self.driver.end(CLOSE_SECONDS)
        self.history.cancel()
        for stream in list(self.pushing.values()):
            stream.close()
        self.sampler.stop()
        self.closed = True
        left = self.driver.stop()
        if not left:
            self._release()
            return
        self._release_after(left)
        raise UnavailableError(
            f"The database is not quite closed: {', '.join(left)} did not stop within"
            f" {CLOSE_SECONDS} seconds",
            hint="Does a function in Python hang? The files are released when it returns, or with"
            " the end of the process; what was committed stays.",
            code="E-QUERY-BUSY",
        )

    def _release_after(self, left: Sequence[str]) -> None:
        """Release everything when the last of these queries has come back."""
        away, guard = set(left), threading.Lock()

        def back(query_id: str) -> None:
            with guard:
                away.discard(query_id)
                last = not away
            if last:
                self._release()

        for query_id in left:
            if not self.driver.after_release(query_id, partial(back, query_id)):
                back(query_id)

    def _release(self) -> None:
        for leave in self.on_close:
            leave()
        self.history.close()
        if self.restoring is not None:
            self.restoring.close()
        self.commands.close()
        self.writer.close()
        self.log.maintain()
        self.log.close()
        self.store.close()


def _runtime_settings(settings: EngineSettings, ticks: Callable[[], int]) -> RuntimeSettings:
    return RuntimeSettings(
        commit_interval_ms=settings.commit_interval_ms,
        max_batch_records=settings.max_batch_records,
        stopwatch=ticks,
    )


def with_functions(catalogue: Catalogue, functions: Sequence[UserFunction]) -> Catalogue:
    """The catalogue with users' functions; ConflictError when a name is taken."""
    try:
        return catalogue.with_functions(functions)
    except ValueError as error:
        raise ConflictError(
            f"The functions cannot be registered: {error}.", hint="Give it another name."
        ) from error
