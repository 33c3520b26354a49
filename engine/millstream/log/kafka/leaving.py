"""Closes a consumer that is a member of a group."""

from __future__ import annotations

import time
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException

from millstream.model.errors import MillstreamError

NAME = "group.instance.id"
"""The setting of a member whose seat the group keeps for it for a while."""
QUIET_POLLS = 3
_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 5.0


def leave(consumer: Consumer, *, keeps_seat: bool = False) -> None:
    """Close a consumer after its callbacks. With `keeps_seat` it does not leave the group, so that
    the group keeps the place of its name for the next one.

    librdkafka may never answer a callback that assigns or takes away partitions once the consumer
    is closing (its issue 4884, in 2.16 too), and confluent-kafka waits for that answer with the
    lock of the interpreter: the whole process would stand still for ever. So the partitions are
    given up first, and what is on its way to the callbacks is waited for.
    """
    try:
        with suppress(KafkaException, SystemError, MillstreamError):
            if not keeps_seat:
                consumer.unsubscribe()
            _settle(consumer, keeps_seat)
    finally:
        consumer.close()


def _settle(consumer: Consumer, keeps_seat: bool) -> None:
    deadline, quiet = time.monotonic() + _PATIENCE_SECONDS, 0
    while quiet < QUIET_POLLS and time.monotonic() < deadline:
        consumer.poll(_POLL_SECONDS)
        quiet = quiet + 1 if keeps_seat or not consumer.assignment() else 0
