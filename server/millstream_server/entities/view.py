"""The data that entities are built from: a snapshot of the engine, and the server's address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.catalog.catalog import QueryRecord
from millstream.catalog.source import Source
from millstream.cluster.host_info import PeerHost
from millstream.metrics.figures import EngineMetrics, QueryMetrics
from millstream.model.schema import SourceKind
from millstream.service.engine import Engine
from millstream_server.auth.visible import VisibleCatalog

_STATES = {"PAUSED": "PAUSED", "ERROR": "ERROR", "FENCED": "ERROR"}


@dataclass(frozen=True, slots=True)
class View:
    """`host`: the advertised "name:port" of this server; `sight`: what may be shown; `pushing`: the
    visible push queries; `peers`: the other instances of the service."""

    engine: Engine
    figures: EngineMetrics
    host: str
    sight: VisibleCatalog
    pushing: Sequence[str]
    peers: Sequence[PeerHost] = ()

    def figures_of(self, query_id: str) -> QueryMetrics | None:
        """The metrics of a query; None if it does not run here."""
        found = (query for query in self.figures.queries if query.query_id == query_id)
        return next(found, None)

    def state_of(self, query_id: str) -> str:
        """RUNNING, PAUSED or ERROR."""
        found = self.figures_of(query_id)
        return "ERROR" if found is None else _STATES.get(found.state, "RUNNING")

    def states_of(self, query_id: str) -> dict[str, str]:
        """The same by host, including the other instances of the service."""
        found = {
            other.host: _STATES.get(other.metadata.states[query_id], "RUNNING")
            for other in self.peers
            if other.alive and query_id in other.metadata.states
        }
        return {self.host: self.state_of(query_id), **found}

    def of_kind(self, kind: SourceKind) -> list[Source]:
        """All streams, or all tables, by name."""
        sources = self.engine.catalog.every().values()
        found = (s for s in sources if s.kind is kind and self.sight.source(s.name))
        return sorted(found, key=lambda source: source.name)

    def records(self) -> list[QueryRecord]:
        """The persistent queries."""
        queries = self.engine.catalog.queries.values()
        return [record for record in queries if self.sight.query(record.id)]

    def persistent(self, record: QueryRecord) -> dict[str, Any]:
        """A persistent query in a list."""
        sink = self.engine.catalog.sources.get(record.sink or "")
        return self._query(
            record.id,
            record.statement,
            "PERSISTENT",
            [] if sink is None else [sink.name],
            [] if sink is None else [sink.topic],
        )

    def pushed(self, query_id: str) -> dict[str, Any]:
        """A push query in a list."""
        stream = self.engine.push_queries.streams.get(query_id)
        text = "" if stream is None else stream.statement
        return self._query(query_id, text, "PUSH", [], [])

    def queries(self, records: Iterable[QueryRecord]) -> list[dict[str, Any]]:
        """Persistent queries in a list."""
        return [self.persistent(record) for record in records if self.sight.query(record.id)]

    def _query(
        self, query_id: str, text: str, kind: str, sinks: list[str], topics: list[str]
    ) -> dict[str, Any]:
        states = self.states_of(query_id)
        return {
            "queryString": text,
            "sinks": sinks,
            "sinkKafkaTopics": topics,
            "id": query_id,
            "statusCount": dict(Counter(states.values())),
            "queryType": kind,
            "state": _together(states.values()),
        }


def _together(states: Collection[str]) -> str:
    """The state of a query that is in several: the worst one."""
    return min(states, key=("ERROR", "RUNNING", "PAUSED").index)
