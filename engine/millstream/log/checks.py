"""Checks with the same error messages for every log."""

from __future__ import annotations

from millstream.log.log import Topic
from millstream.model.errors import (
    ConflictError,
    CorruptionError,
    FencedError,
    StatementError,
    UnavailableError,
)


def check_new_topic(topic: Topic, existing: Topic | None) -> None:
    """Refuse a topic whose name is taken or that has no partitions."""
    if existing is not None:
        raise ConflictError(
            f"Cannot create topic '{topic.name}': a topic of this name exists already.",
            hint="Use another name, or delete the existing topic first.",
        )
    if topic.partitions < 1:
        raise StatementError(
            f"Cannot create topic '{topic.name}' with {topic.partitions} partitions.",
            hint="A topic needs at least one partition.",
        )


def check_partition(name: str, partition: int, topic: Topic | None) -> None:
    """Refuse a partition that does not exist."""
    if topic is None:
        raise StatementError(
            f"There is no topic '{name}' on the log.",
            hint="SHOW TOPICS lists the topics; names are case-sensitive.",
            code="E-NO-TOPIC",
        )
    if not 0 <= partition < topic.partitions:
        raise StatementError(
            f"Topic '{name}' has no partition {partition}: "
            f"it has {topic.partitions}, numbered from 0.",
            code="E-NO-PARTITION",
        )


def check_offset(name: str, partition: int, offset: int, start: int, end: int) -> None:
    """Refuse to read where records are missing, instead of silently reading elsewhere."""
    if offset < start:
        raise CorruptionError(
            f"Records of topic '{name}', partition {partition}, are gone: asked for offset "
            f"{offset}, the earliest is {start}; {start - offset} records are lost.",
            code="E-GAP",
        )
    if offset > end:
        raise CorruptionError(
            f"Topic '{name}', partition {partition}, ends at offset {end}, before the position "
            f"{offset}: the log was truncated, or belongs to another installation.",
            code="E-TRUNCATED",
        )


def check_epoch(identity: str, epoch: int, newest: int) -> None:
    """Refuse a writer that a newer one has replaced."""
    if epoch != newest:
        raise FencedError(
            f"Writer '{identity}' (epoch {epoch}) was replaced by a newer one (epoch {newest}); "
            "nothing was written."
        )


def closed(what: str) -> UnavailableError:
    """The error of a call on something closed."""
    return UnavailableError(f"The {what} is closed.", code="E-CLOSED")
