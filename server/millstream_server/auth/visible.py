"""The part of the catalog that a principal may see: in lists, descriptions and explanations."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.catalog.catalog import Catalog, QueryRecord
from millstream.model.nearest import Suggested
from millstream_server.auth.access import Access
from millstream_server.auth.needs import Kind, Need, Operation
from millstream_server.auth.principal import Principal


@dataclass(frozen=True, slots=True)
class VisibleCatalog:
    """The part of a catalog that one principal may see."""

    catalog: Catalog
    access: Access
    principal: Principal

    def topic(self, name: str) -> bool:
        """Whether a topic is visible."""
        return self._may(Kind.TOPIC, name, Operation.DESCRIBE)

    def source(self, name: str) -> bool:
        """Whether a stream or table is visible; its topic must be visible too."""
        found = self.catalog.find(name)
        return found is not None and self.topic(found.topic)

    def subject(self, name: str) -> bool:
        """Whether a subject of the schema registry is visible."""
        return self._may(Kind.SUBJECT, name, Operation.DESCRIBE)

    def connector(self, name: str) -> bool:
        """Whether a connector is visible."""
        return self._may(Kind.CONNECTOR, name, Operation.DESCRIBE)

    def query(self, query_id: str) -> bool:
        """Whether a query is visible; see `record`."""
        found = self.catalog.queries.get(query_id)
        if found is None:
            return self._may(Kind.QUERY, query_id, Operation.DESCRIBE)
        return self.record(found)

    def record(self, record: QueryRecord) -> bool:
        """Whether a persistent query is visible, also one that has ended: to principals that may
        describe it, or everything that it reads and writes, because its text contains both."""
        if self._may(Kind.QUERY, record.id, Operation.DESCRIBE):
            return True
        touched = (*record.sources, *(() if record.sink is None else (record.sink,)))
        return all(map(self.source, touched))

    def suggested(self, hint: Suggested) -> bool:
        """Whether the name in a hint is visible."""
        return self.topic(hint.named) if hint.kind == "topic" else self.source(hint.named)

    def operates(self, query_id: str) -> bool:
        """Whether the principal may end other principals' queries."""
        return self._may(Kind.QUERY, query_id, Operation.OPERATE)

    def _may(self, kind: Kind, name: str, operation: Operation) -> bool:
        return self.access.allows(self.principal, Need(kind, name, operation))
