"""Sealing what an embedded log has, for programs that read the streams without the engine."""

from __future__ import annotations

from pathlib import Path

from millstream.history.sealed import seal
from millstream.history.shared import share
from millstream.history.splits import whole
from millstream.model.errors import StatementError
from millstream.model.schema import SourceKind
from millstream.service.engine import Engine


def seal_streams(engine: Engine) -> Path:
    """Write all records of all streams down as Parquet, as far as they are not yet; the folder.

    StatementError for a log on Kafka.
    """
    if engine.history.on_spark.kafka is not None:
        raise StatementError(
            "Only the log in a file is sealed; this one is on Kafka.",
            hint="Spark reads topics of a cluster itself.",
        )
    streams = [
        source for source in engine.catalog.sources.values() if source.kind is SourceKind.STREAM
    ]
    topics = {source.topic for source in streams}
    found = (engine.log.topic(name) for name in sorted(topics))
    places = [(topic.name, n) for topic in found if topic for n in range(topic.partitions)]
    with engine.history.on_spark.sealing() as folder:
        share(folder, streams, seal(engine.log, whole(engine.log, places).values(), folder))
    return folder
