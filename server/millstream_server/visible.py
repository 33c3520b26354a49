"""SHOW and the plural DESCRIBE, without the rows about what a principal may not see."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.service.results import Rows
from millstream_parser import statements as s
from millstream_server.access import Access
from millstream_server.needs import Kind, Need, Operation
from millstream_server.principal import Principal


def visible(
    statement: s.Statement, rows: Rows, catalog: Catalog, access: Access, principal: Principal
) -> Rows:
    """The rows of a listing (whose first column is the name of what each is about) that the
    principal may see; other results as they are."""
    test = _test(statement, Sight(catalog, access, principal))
    if test is None or not rows.table.num_columns:
        return rows
    names = rows.table.column(0).to_pylist()
    keep = pa.array([name is not None and test(name) for name in names], pa.bool_())
    return Rows(rows.table.filter(keep), rows.title, rows.schema)


class Sight:
    """What one principal may see of the catalog."""

    def __init__(self, catalog: Catalog, access: Access, principal: Principal) -> None:
        self._catalog, self._access, self._principal = catalog, access, principal

    def topic(self, name: str) -> bool:
        """Whether a topic is seen."""
        need = Need(Kind.TOPIC, name, Operation.DESCRIBE)
        return self._access.allows(self._principal, need)

    def source(self, name: str) -> bool:
        """Whether a stream or table is seen: who may not see its topic does not."""
        found = self._catalog.sources.get(name)
        return found is not None and self.topic(found.topic)

    def query(self, query_id: str) -> bool:
        """Whether a query is seen: by who may describe it, or all that it reads and writes. The
        text of a query tells of both."""
        if self._access.allows(self._principal, Need(Kind.QUERY, query_id, Operation.DESCRIBE)):
            return True
        found = self._catalog.queries.get(query_id)
        if found is None:
            return False
        touched = (*found.sources, *(() if found.sink is None else (found.sink,)))
        return all(map(self.source, touched))


def _test(statement: s.Statement, sight: Sight) -> Callable[[str], bool] | None:
    match statement:
        case s.Show(s.Listing.STREAMS | s.Listing.TABLES) | s.Describe("STREAMS" | "TABLES"):
            return sight.source
        case s.Show(s.Listing.TOPICS):
            return sight.topic
        case s.Show(s.Listing.QUERIES):
            return sight.query
        case _:
            return None
