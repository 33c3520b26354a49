"""One server: its engine, its settings, and the threads in which statements run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from millstream.command_topic.outcomes import Outcomes
from millstream.model.errors import MillstreamError
from millstream.model.overrides import Overrides
from millstream.query.results import History
from millstream.query.session import Bounds, Session
from millstream.service.engine import Engine
from millstream_server.auth.guard import Guard, NoAuthentication
from millstream_server.auth.principal import Principal
from millstream_server.entities.changed import statuses_of
from millstream_server.entities.view import View
from millstream_server.failures import (
    COMMAND_TIMEOUT,
    MALFORMED,
    STARTING,
    STOPPING,
    TERMINATED,
    TOO_MANY,
    RefusedError,
)
from millstream_server.ongoing import OngoingWork
from millstream_server.requests import Asked
from millstream_server.results.held import HeldRows
from millstream_server.results.lookups import Lookups

P = ParamSpec("P")
R = TypeVar("R")
COMPATIBLE_VERSION = "0.29.0"
"""The ksqlDB version of this API, which clients check."""
_COMMAND_PAUSE_S = 0.02


class State(Enum):
    """The state of a server, by the names of /healthcheck."""

    INITIALIZING = "INITIALIZING"
    READY = "READY"
    TERMINATING = "TERMINATING"
    TERMINATED = "TERMINATED"


_REFUSING = {
    State.INITIALIZING: (STARTING, "KSQL is not yet ready to serve requests."),
    State.TERMINATING: (STOPPING, "The server is shutting down"),
    State.TERMINATED: (TERMINATED, "The cluster has been terminated."),
}


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server. `properties` are the defaults of every request."""

    service_id: str = "default_"
    host: str = "localhost:8088"
    """The name of this server in descriptions."""
    properties: Mapping[str, str] = field(default_factory=dict)
    internal_listener: str = ""
    """The separate address for other servers, if any: requests of servers are then refused here."""
    bounds: Bounds = field(default_factory=Bounds)
    """The limits of each pull query."""
    overrides: Overrides = field(default_factory=Overrides)
    """The properties that clients may set."""
    statement_threads: int = 8
    lookup_threads: int = 2
    print_threads: int = 16
    push_queries_max: int = 1_000
    pull_queries_max: int = 1_000
    statements_max: int = 500
    answers_bytes_max: int = 256 << 20
    """The bytes of unread rows of all pull queries together."""
    body_bytes_max: int = 10 << 20
    body_seconds: float = 10.0
    headers_max: int = 100
    websocket_seconds: float = 3_600.0
    command_timeout_ms: int = 5_000


class Server:
    """The state shared by all requests. The caller closes it; that does not close the engine."""

    def __init__(
        self, engine: Engine, settings: ServerSettings | None = None, guard: Guard | None = None
    ) -> None:
        self.engine = engine
        self.settings = settings or ServerSettings()
        engine.cluster.host_info.host = self.settings.host
        self.guard: Guard = guard or NoAuthentication()
        self.state = State.READY
        self.pulling = 0
        """The number of running and queued pull queries."""
        self.reading: WeakKeyDictionary[History, str] = WeakKeyDictionary()
        """Queries whose rows are streamed to their clients, by the secret name that only the client
        has."""
        self.held = HeldRows(self.settings.answers_bytes_max)
        self.owners: dict[str, str] = {}
        """The principals of the running push queries."""
        self.ongoing = OngoingWork()
        self._outcomes = Outcomes(engine.command_topic)
        self.statuses: dict[str, Mapping[str, Any]] = {}
        """The status of commands that are on no topic."""
        self._statements = ThreadPoolExecutor(
            self.settings.statement_threads, "millstream-statement"
        )
        self.lookups = Lookups(engine, self.guard, self.settings.lookup_threads, self.pull)
        self._printing = ThreadPoolExecutor(self.settings.print_threads, "millstream-print")

    def session(self, asked: Asked) -> Session:
        """The session of one request; raises RefusedError if a property cannot be set."""
        session = Session(dict(self.settings.properties), dict(asked.variables), local=False)
        session.bounds, session.overrides = self.settings.bounds, self.settings.overrides
        for name, value in asked.properties.items():
            try:
                session.set(name, value)
            except MillstreamError as error:
                raise RefusedError(MALFORMED, str(error)) from error
        return session

    def view(self, principal: Principal) -> View:
        """A snapshot of the engine, as far as the principal may see it."""
        sight = self.guard.sight(principal, self.engine.catalog)
        pushing = [
            name
            for name in sorted(self.engine.push_queries.streams)
            if self.may_end(principal, name)
        ]
        return View(
            self.engine,
            self.engine.metrics.now(),
            self.settings.host,
            sight,
            pushing,
            self.engine.cluster.host_info.peers(),
        )

    def may_end(self, principal: Principal, query_id: str) -> bool:
        """Whether a push query is the principal's own, or one that the principal operates."""
        if self.owners.get(query_id) == principal.name:
            return True
        return self.guard.sight(principal, self.engine.catalog).operates(query_id)

    @contextmanager
    def pull(self) -> Iterator[None]:
        """Count a pull query while it runs; raises RefusedError if there are too many."""
        running = self.pulling + len(self.reading)
        if running >= self.settings.pull_queries_max:
            raise RefusedError(
                TOO_MANY,
                f"There are {running} pull queries already; try again later",
                headers={"retry-after": "1"},
            )
        self.pulling += 1
        try:
            yield
        finally:
            self.pulling -= 1

    def check_serving(self) -> None:
        """Raise RefusedError while no statements can be executed."""
        if self.state in _REFUSING:
            code, message = _REFUSING[self.state]
            raise RefusedError(code, message, headers={"retry-after": "1"})

    async def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a blocking function in a thread for statements."""
        return await self._in(self._statements, partial(call, *args, **kwargs))

    async def run_printing(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function that waits for records, in a separate thread pool."""
        return await self._in(self._printing, partial(call, *args, **kwargs))

    async def _in(self, executor: Executor, call: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(executor, call)

    async def caught_up(self, number: int | None) -> None:
        """Wait until a command has been executed here; raises RefusedError after a timeout."""
        if number is None:
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + self.settings.command_timeout_ms / 1000
        while self.last_command < number:
            if loop.time() >= until:
                raise RefusedError(
                    COMMAND_TIMEOUT,
                    "Timed out while waiting for a previous command to execute. command sequence"
                    f" number: {number}",
                    headers={"retry-after": "1"},
                )
            await asyncio.sleep(_COMMAND_PAUSE_S)

    @property
    def last_command(self) -> int:
        """The number of the last command executed here."""
        engine = self.engine
        return (
            engine.command_topic.state.position
            if engine.shared
            else engine.command_topic.log.next_offset
        ) - 1

    def known_statuses(self) -> Mapping[str, Mapping[str, Any]]:
        """The status of all commands of the service, and of statements that were executed only
        here. May block: call it in a thread."""
        return {**statuses_of(self._outcomes.known()), **self.statuses}

    def close(self) -> None:
        """Accept no more statements, and end the push queries so that their clients disconnect."""
        self.state = State.TERMINATING
        # Before the streams end: cancelling the last step of a response would truncate it.
        self.lookups.close()
        self._statements.shutdown(wait=False, cancel_futures=True)
        self._printing.shutdown(wait=False, cancel_futures=True)
        for stream in list(self.engine.push_queries.streams.values()):
            stream.close()
