"""The running historical queries and back-fills of an engine."""

from __future__ import annotations

from millstream.history.session import SparkSettings
from millstream.history.watch import Watch
from millstream.model.settings import EngineSettings
from millstream.service.history.on_spark import OnSpark


class Historical:
    """The historical queries whose rows are being read, the back-fills whose jobs run, and the
    engine's access to Spark."""

    def __init__(self, settings: EngineSettings) -> None:
        self.queries: set[Watch] = set()
        self.backfills: set[Watch] = set()
        self.on_spark = OnSpark(
            SparkSettings(settings.spark_master, options=settings.spark_options)
        )

    def cancel(self) -> None:
        """Cancel all of them without waiting for their end."""
        for watch in (*self.queries, *self.backfills):
            watch.cancel()

    def close(self) -> None:
        """Stop the Spark session; idempotent."""
        self.on_spark.close()
