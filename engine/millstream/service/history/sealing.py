"""Publishes streams and tables for programs that read them without the engine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from millstream.history.listed import LISTING, packed
from millstream.history.sealed import seal
from millstream.history.shared import listing, share
from millstream.history.splits import whole
from millstream.log.log import AS_THE_CLUSTER, Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import ConflictError
from millstream.service.engine import Engine


def seal_streams(engine: Engine) -> str:
    """Write the definitions of all streams and tables. For an embedded log, also write their
    records as Parquet, except those that are sealed already. Returns the folder; on Kafka, the
    topic of the definitions."""
    if engine.history.on_spark.kafka is not None:
        return _list(engine)
    return str(_seal(engine))


def _seal(engine: Engine) -> Path:
    sources = tuple(engine.catalog.sources.values())
    topics = {source.topic for source in sources}
    found = (engine.log.topic(name) for name in sorted(topics))
    partitions = [(topic.name, n) for topic in found if topic for n in range(topic.partitions)]
    with engine.history.on_spark.sealing() as folder:
        share(folder, sources, seal(engine.log, whole(engine.log, partitions).values(), folder))
    return folder


def _list(engine: Engine) -> str:
    log, topic = engine.log, f"{engine.settings.internal_prefix}{LISTING}"
    if log.topic(topic) is None:
        config = {"cleanup.policy": "delete", "retention.ms": "-1"}
        with suppress(ConflictError):
            log.create_topic(Topic(topic, 1, AS_THE_CLUSTER, config))
    outdated = log.end_offset(topic, 0)
    value = packed(listing(engine.catalog.sources.values()))
    batch = raw_batch([(None, value, engine.clock())])
    engine.writer.append([Appended(topic, 0, batch, 1, len(value))])
    log.truncate(topic, 0, outdated)
    return topic
