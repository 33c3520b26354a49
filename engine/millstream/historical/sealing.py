"""Publishes streams and tables for programs that read them without the engine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from millstream.historical.historical import Historical
from millstream.history.listed import LISTING, packed
from millstream.history.sealed import seal
from millstream.history.shared import listing, share
from millstream.history.splits import whole
from millstream.log.log import AS_THE_CLUSTER, Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import ConflictError


def seal_streams(historical: Historical) -> str:
    """Write the definitions of all streams and tables. For an embedded log, also write their
    records as Parquet, except those that are sealed already. Returns the folder; on Kafka, the
    topic of the definitions."""
    if historical.on_spark.kafka is not None:
        return _list(historical)
    return str(_seal(historical))


def _seal(historical: Historical) -> Path:
    sources = tuple(historical.registry.catalog.sources.values())
    topics = {source.topic for source in sources}
    found = (historical.registry.log.topic(name) for name in sorted(topics))
    partitions = [(topic.name, n) for topic in found if topic for n in range(topic.partitions)]
    with historical.on_spark.sealing() as folder:
        share(
            folder,
            sources,
            seal(
                historical.registry.log, whole(historical.registry.log, partitions).values(), folder
            ),
        )
    return folder


def _list(historical: Historical) -> str:
    log, topic = historical.registry.log, f"{historical.registry.settings.internal_prefix}{LISTING}"
    if log.topic(topic) is None:
        config = {"cleanup.policy": "delete", "retention.ms": "-1"}
        with suppress(ConflictError):
            log.create_topic(Topic(topic, 1, AS_THE_CLUSTER, config))
    outdated = log.end_offset(topic, 0)
    value = packed(listing(historical.registry.catalog.sources.values()))
    batch = raw_batch([(None, value, historical.cluster.clock())])
    historical.writer.append([Appended(topic, 0, batch, 1, len(value))])
    log.truncate(topic, 0, outdated)
    return topic
