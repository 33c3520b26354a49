"""What of the catalog a principal may see: in lists, descriptions and explanations."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.catalog.catalog import Catalog
from millstream.model.nearest import Suggested
from millstream_server.auth.access import Access
from millstream_server.auth.needs import Kind, Need, Operation
from millstream_server.auth.principal import Principal


@dataclass(frozen=True, slots=True)
class VisibleCatalog:
    """What one principal may see of a catalog."""

    catalog: Catalog
    access: Access
    principal: Principal

    def topic(self, name: str) -> bool:
        """Whether a topic is seen."""
        return self._may(Kind.TOPIC, name, Operation.DESCRIBE)

    def source(self, name: str) -> bool:
        """Whether a stream or table is seen: who may not see its topic does not."""
        found = self.catalog.find(name)
        return found is not None and self.topic(found.topic)

    def query(self, query_id: str) -> bool:
        """Whether a query is seen: by who may describe it, or all that it reads and writes. The
        text of a query tells of both."""
        if self._may(Kind.QUERY, query_id, Operation.DESCRIBE):
            return True
        found = self.catalog.queries.get(query_id)
        if found is None:
            return False
        touched = (*found.sources, *(() if found.sink is None else (found.sink,)))
        return all(map(self.source, touched))

    def suggested(self, hint: Suggested) -> bool:
        """Whether what a hint names is seen."""
        return self.topic(hint.named) if hint.kind == "topic" else self.source(hint.named)

    def operates(self, query_id: str) -> bool:
        """Whether the principal may end a query that is not their own."""
        return self._may(Kind.QUERY, query_id, Operation.OPERATE)

    def _may(self, kind: Kind, name: str, operation: Operation) -> bool:
        return self.access.allows(self.principal, Need(kind, name, operation))
