"""The catalog, and the persistent queries that run in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.ddl.environment import Environment
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.ddl.topics import PlannedTopics
from millstream.executor.decode_cache import DecodeCache
from millstream.functions.function import Catalogue
from millstream.log.log import Topic, WatchedLog
from millstream.model.problem import Problem
from millstream.model.schema_text import Schemas
from millstream.model.settings import EngineSettings
from millstream.plan.build import Planned
from millstream.runtime.runtime import Runtime
from millstream.runtime.spec import QueryState
from millstream.scheduler.driver import Driver
from millstream.scheduler.restoring import Restoring
from millstream.state.store import Store


@dataclass(frozen=True, slots=True)
class EndedQuery:
    """An ended query whose topics and positions are still to be deleted: the ids of its `topics`,
    and the attempts that are left while other instances still run it."""

    topics: frozenset[str]
    attempts: int


@dataclass(slots=True)
class PersistentQuery:
    """A persistent query in this process. `stopped`: it does not run, and only its state is here.
    `error`: why it could not be started. `retry`: whether to start it again, because the log did
    not answer."""

    planned: Planned
    paused: bool = False
    stopped: bool = False
    error: str = ""
    retry: bool = False


@dataclass(slots=True)
class QueryRegistry:
    """What the statements define, and what of it runs in this process. It changes under the
    driver's lock.

    `decoded`: what the queries have decoded for one another. `shared`: whether other instances work
    on the log at the same time. `report`: adds problems of a query to the processing log.
    `restoring`: restores and follows state in the background, if the log is shared.
    """

    log: WatchedLog[pa.Table]
    store: Store
    settings: EngineSettings
    functions: Catalogue
    runtime: Runtime[pa.Table]
    driver: Driver
    decoded: DecodeCache
    restoring: Restoring | None
    report: Callable[[str, Sequence[Problem]], None]
    shared: bool
    schemas: Schemas | None = None
    """The schema registry; None if there is none."""
    definitions: CatalogSnapshot = field(default_factory=CatalogSnapshot)
    """The catalog and the plans of its queries, replaced as a whole."""
    queries: dict[str, PersistentQuery] = field(default_factory=dict)
    """The persistent queries in this process; `reconcile` makes them match the catalog."""
    ended_queries: dict[str, EndedQuery] = field(default_factory=dict)
    """Ended queries whose topics and positions are still to be deleted."""
    replaced: set[str] = field(default_factory=set)
    """Queries whose state may be of an earlier plan."""

    def clear(self) -> None:
        """Begin again with an empty catalog. Call it before any query runs."""
        self.definitions = self.definitions.cleared()
        self.replaced.clear()

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
        """The topics of the persistent queries, as they were when the queries were created."""
        return self.definitions.topics

    @property
    def failed(self) -> Mapping[str, str]:
        """The errors of the queries of the catalog that could not be started, by id."""
        return {query_id: run.error for query_id, run in tuple(self.queries.items()) if run.error}

    @property
    def environment(self) -> Environment:
        """The environment for planning a new statement."""
        topics = PlannedTopics(self.log)
        return Environment(self.functions, self.settings, topics, self.shared, self.schemas)

    @property
    def replay_environment(self) -> Environment:
        """The environment for planning statements of the command topic."""
        return Environment(self.functions, self.settings)

    def states(self) -> dict[str, str]:
        """The state of each query of the catalog in this process, by the names of `QueryState`."""
        states = dict.fromkeys(self.failed, QueryState.ERROR) | self.runtime.states()
        known = self.catalog.queries
        return {name: state.value for name, state in states.items() if name in known}
