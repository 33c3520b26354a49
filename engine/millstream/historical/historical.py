"""What historical queries and back-fills run on, and those that run now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.cluster.cluster import Cluster
from millstream.historical.on_spark import OnSpark
from millstream.history.local import run_local
from millstream.history.reading import Source
from millstream.history.splits import Run
from millstream.history.task import Produced
from millstream.history.watch import Watch
from millstream.history.workspace import Workspaces
from millstream.log.reopening import ReopeningWriter
from millstream.queries.registry import QueryRegistry


@dataclass(slots=True)
class Historical:
    """The historical queries whose rows are being read, the back-fills whose jobs run, and the
    engine's access to Spark.

    `cluster`: the state of tables, which an extended query may read beside history. `writer`:
    publishes the definitions of sources on Kafka.
    """

    cluster: Cluster
    writer: ReopeningWriter[pa.Table]
    on_spark: OnSpark
    workspaces: Workspaces = field(default_factory=Workspaces)
    queries: set[Watch] = field(default_factory=set)
    backfills: set[Watch] = field(default_factory=set)

    @property
    def registry(self) -> QueryRegistry:
        """The catalog, the log and the state of this instance."""
        return self.cluster.registry

    def run_here(self, run: Run, source: Source) -> Iterator[Produced]:
        """See `run_local`."""
        return run_local(run, source, self.registry.functions, self.workspaces)

    def cancel(self) -> None:
        """Cancel all of them without waiting for their end."""
        for watch in (*self.queries, *self.backfills):
            watch.cancel()

    def close(self) -> None:
        """Stop the Spark session, and release what was kept for further runs; idempotent."""
        self.on_spark.close()
        self.workspaces.close()
