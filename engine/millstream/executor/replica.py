"""The production replica: replays changelogs into the tables that a DuckDBExecutor works on."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

from millstream.executor import changelog
from millstream.executor.channel_watermarks import state_tables
from millstream.executor.upkeep import Upkeep
from millstream.functions.function import Catalogue
from millstream.log.log import Fetched
from millstream.model.errors import UnavailableError
from millstream.operators.compile import compile_subtopology
from millstream.state.store import Store
from millstream.topology.topology import SubTopology


class DuckReplica:
    """Implements `runtime.ports.Replica` over Arrow tables, in a session of its own.

    Its rows and the executor's differ in `$part`, so the two transactions never conflict
    (tests/unit/executor/test_replica.py); each reads only what was committed before it began.
    """

    def __init__(self, store: Store, query_id: str, sub: SubTopology, catalogue: Catalogue) -> None:
        program = compile_subtopology(sub, catalogue, headers=False, cached=False)
        self._session = store.session(query_id, sub.index, state_tables(program, sub))
        self._upkeep = Upkeep(self._session)
        self._written: dict[int, int] = {}
        self._restored = 0

    def position(self, partition: int) -> int:
        """See `runtime.ports.Replica`."""
        found = self._session.position(partition)
        return 0 if found is None else found.at

    def open(self, partition: int) -> int:
        """See `runtime.ports.Replica`."""
        position = self._session.position(partition)
        if position is None:
            self.clear(partition, 0)
        self._written[partition] = position.written if position else 0
        return position.at if position else 0

    def clear(self, partition: int, position: int) -> None:
        """See `runtime.ports.Replica`."""
        self._session.clear(partition)
        self._written[partition] = 0
        self._session.commit({partition: position})

    def restore(self, partition: int, fetched: Fetched[pa.Table]) -> None:
        """See `runtime.ports.Replica`. Raises UnavailableError when the store refuses the rows."""
        try:
            _, rows = changelog.apply(self._session, partition, fetched.batch)
        except duckdb.Error as error:
            raise UnavailableError(
                f"changelog {fetched.topic}-{partition} could not be applied before"
                f" {fetched.next_offset}",
                detail=str(error),
                hint="It is tried again by itself.",
                code="E-STATE-WRITE",
            ) from error
        self._written[partition] += rows
        self._restored += rows

    def commit(self, changelog_positions: Mapping[int, int]) -> None:
        """See `runtime.ports.Replica`."""
        self._upkeep.before_commit(self._restored, changelog_positions)
        self._restored = 0
        self._session.commit(changelog_positions, self._written)

    def discard(self) -> None:
        """See `runtime.ports.Replica`."""
        self._session.rollback()
        self._written.clear()
        self._restored = 0

    def close(self) -> None:
        """See `runtime.ports.Replica`."""
        self._session.close()
