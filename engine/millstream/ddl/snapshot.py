"""The catalog at one moment, with what belongs to its persistent queries: immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from millstream.catalog.catalog import Catalog
from millstream.log.log import Topic
from millstream.plan.build import Planned


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """One state of the catalog and of its queries."""

    catalog: Catalog = field(default_factory=Catalog)
    plans: Mapping[str, Planned] = field(default_factory=dict)
    """The logical plan of each query."""
    topics: Mapping[str, tuple[Topic, ...]] = field(default_factory=dict)
    """The topics of the queries, as they were when these were created."""
    paused: frozenset[str] = frozenset()

    def with_catalog(
        self, catalog: Catalog, plans: Mapping[str, Planned] | None = None
    ) -> CatalogSnapshot:
        """With another catalog, and the plans that are new in it. Nothing is left of queries that
        it does not have."""
        made = replace(
            self, catalog=catalog, plans={**self.plans, **plans} if plans else self.plans
        )
        if self.catalog.queries.keys() <= catalog.queries.keys():
            return made
        known = catalog.queries
        return CatalogSnapshot(
            catalog,
            {query_id: plan for query_id, plan in made.plans.items() if query_id in known},
            {query_id: topics for query_id, topics in self.topics.items() if query_id in known},
            self.paused & known.keys(),
        )

    def with_topics(self, topics: Mapping[str, tuple[Topic, ...]]) -> CatalogSnapshot:
        """With the topics of new queries. Those of a query that has some stay as they are."""
        new = {query_id: found for query_id, found in topics.items() if query_id not in self.topics}
        return replace(self, topics={**self.topics, **new}) if new else self

    def cleared(self) -> CatalogSnapshot:
        """With nothing but what is part of the engine."""
        return CatalogSnapshot(Catalog(system=self.catalog.system))
