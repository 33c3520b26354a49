"""Closes a consumer that is a member of a group."""

from __future__ import annotations

import time
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException

from millstream.model.errors import MillstreamError

GROUP_INSTANCE_ID = "group.instance.id"
"""The setting of a static member, whose tasks the group keeps for it until its session expires."""
QUIET_POLLS = 3
_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 5.0


def leave(consumer: Consumer, *, static: bool = False) -> None:
    """Close a consumer after its rebalance callbacks have run. A `static` member does not leave the
    group.

    librdkafka may never return from assigning or revoking partitions in a callback once the
    consumer is closing (its issue 4884, in 2.16 too), and confluent-kafka holds the lock of the
    interpreter during that call: the whole process would hang. So the consumer first unsubscribes,
    and polls until its partitions are revoked and no callback is pending. A static member cannot
    unsubscribe without leaving the group, so its partitions are still revoked by the closing.
    """
    try:
        with suppress(KafkaException, SystemError, MillstreamError):
            if not static:
                consumer.unsubscribe()
            _run_callbacks(consumer, static)
    finally:
        consumer.close()


def _run_callbacks(consumer: Consumer, static: bool) -> None:
    deadline, quiet = time.monotonic() + _PATIENCE_SECONDS, 0
    while quiet < QUIET_POLLS and time.monotonic() < deadline:
        consumer.poll(_POLL_SECONDS)
        quiet = quiet + 1 if static or not consumer.assignment() else 0
