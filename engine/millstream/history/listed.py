"""Streams and tables of a service on Kafka, for programs that read them without the engine."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

from millstream.history.from_kafka import FromKafka
from millstream.history.reading import all_records
from millstream.history.sealed import SEGMENT_RECORDS
from millstream.history.shared import Shared, listed
from millstream.history.splits import Split, whole
from millstream.model.errors import CorruptionError, StatementError
from millstream.model.schema import SourceKind

LISTING = "listing"
"""The suffix after a service's prefix: the topic whose last record lists its streams and tables."""


def packed(text: str) -> bytes:
    """A listing as a record."""
    return zlib.compress(text.encode())


def shared_on_kafka(
    servers: str, service_id: str, settings: Mapping[str, str], kind: SourceKind, name: str
) -> Shared:
    """A source of a service as it was last listed, with all currently committed records.

    Raises StatementError where no listing, no source of this kind and name, or no topic exists;
    UnavailableError when the cluster does not respond.
    """
    # Not every process that reads files has the client.
    from millstream.log.kafka.log import KafkaLog
    from millstream.log.kafka.naming import namespace_of

    topic = f"{namespace_of(service_id)}{LISTING}"
    log = KafkaLog(servers, settings=settings)
    try:
        if log.topic(topic) is None:
            raise _unlisted(servers, service_id)
        (split,) = whole(log, [(topic, 0)]).values()
        records = all_records(log, split)["value"].to_pylist()
        if not records:
            raise _unlisted(servers, service_id)
        where = f"service '{service_id}'"
        source, _ = listed(_unpacked(records[-1], where), where, kind, name)
        found = log.topic(source.topic)
        if found is None:
            raise StatementError(f"The topic '{source.topic}' of {name} is not there.")
        places = [(found.name, partition) for partition in range(found.partitions)]
        splits = whole(log, places).values()
    finally:
        log.close()
    pieces = tuple(piece for split in splits for piece in _pieces(split, kind))
    return Shared(source, FromKafka(servers, settings), pieces)


def _pieces(split: Split, kind: SourceKind) -> Iterator[Split]:
    step = SEGMENT_RECORDS if kind is SourceKind.STREAM else max(1, split.end - split.start)
    for at in range(split.start, split.end, step):
        yield Split(split.topic, split.partition, at, min(at + step, split.end))


def _unpacked(value: bytes, where: str) -> str:
    try:
        return zlib.decompress(value).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise CorruptionError(f"The list of the streams of {where} is damaged") from error


def _unlisted(servers: str, service_id: str) -> StatementError:
    return StatementError(
        f"Nothing of service '{service_id}' can be read here: its streams are not listed.",
        hint=f"millstream.connect(kafka='{servers}', service_id='{service_id}').seal() does that.",
    )
