"""An immutable snapshot of the catalog and of its persistent queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from millstream.catalog.catalog import Catalog, TerminatedQuery
from millstream.log.log import Topic
from millstream.plan.build import Planned


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """The catalog, and the plans, topics and paused ids of its queries, at one moment."""

    catalog: Catalog = field(default_factory=Catalog)
    plans: Mapping[str, Planned] = field(default_factory=dict)
    """The logical plan of each query."""
    topics: Mapping[str, tuple[Topic, ...]] = field(default_factory=dict)
    """The topics of each query, as they were when the query was created."""
    paused: frozenset[str] = frozenset()

    def with_catalog(
        self, catalog: Catalog, plans: Mapping[str, Planned] | None = None
    ) -> CatalogSnapshot:
        """The snapshot with another catalog and with the plans of its new queries. Queries that the
        catalog lacks are removed."""
        updated = replace(
            self, catalog=catalog, plans={**self.plans, **plans} if plans else self.plans
        )
        if self.catalog.queries.keys() <= catalog.queries.keys():
            return updated
        known = catalog.queries
        return CatalogSnapshot(
            catalog,
            {query_id: plan for query_id, plan in updated.plans.items() if query_id in known},
            {query_id: topics for query_id, topics in self.topics.items() if query_id in known},
            self.paused & known.keys(),
        )

    def with_topics(self, topics: Mapping[str, tuple[Topic, ...]]) -> CatalogSnapshot:
        """The snapshot with the topics of new queries. The topics of known queries stay."""
        new = {query_id: found for query_id, found in topics.items() if query_id not in self.topics}
        return replace(self, topics={**self.topics, **new}) if new else self

    def with_terminated(self, terminated: tuple[TerminatedQuery, ...]) -> CatalogSnapshot:
        """The snapshot with other terminated queries."""
        return replace(self, catalog=replace(self.catalog, terminated=terminated))

    def cleared(self) -> CatalogSnapshot:
        """An empty snapshot that has only the system sources of the engine."""
        return CatalogSnapshot(Catalog(system=self.catalog.system))
