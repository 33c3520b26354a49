"""Sealing what an embedded log has, for programs that read the streams without the engine."""

from __future__ import annotations

from pathlib import Path

from millstream.history.sealed import seal
from millstream.history.shared import share
from millstream.history.splits import Split
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
    splits = [split for topic in sorted(topics) for split in _splits(engine, topic)]
    with engine.history.on_spark.sealing() as folder:
        share(folder, streams, seal(engine.log, splits, folder))
    return folder


def _splits(engine: Engine, name: str) -> list[Split]:
    topic, log = engine.log.topic(name), engine.log
    places = range(0 if topic is None else topic.partitions)
    return [Split(name, n, log.start_offset(name, n), log.end_offset(name, n)) for n in places]
