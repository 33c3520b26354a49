"""What an engine has of queries over history, and of back-fills."""

from __future__ import annotations

from millstream.history.session import SparkSettings
from millstream.model.settings import EngineSettings
from millstream.service.history.on_spark import OnSpark
from millstream.service.history.watch import Watch


class Historical:
    """The queries whose rows are being read, the back-fills whose jobs run, and Spark for those
    that run there."""

    def __init__(self, settings: EngineSettings) -> None:
        self.reading: set[Watch] = set()
        self.filling: set[Watch] = set()
        self.on_spark = OnSpark(
            SparkSettings(settings.spark_master, options=settings.spark_options)
        )

    def cancel(self) -> None:
        """End all of them, without waiting for that."""
        for watch in (*self.reading, *self.filling):
            watch.cancel()

    def close(self) -> None:
        """Release what is left; idempotent."""
        self.on_spark.close()
