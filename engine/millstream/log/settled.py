"""Waits for transactions that other writers have left open."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from millstream.log.log import Log, TopicPartition
from millstream.model.errors import UnavailableError

SETTLE_SECONDS = 30.0
_PAUSE_SECONDS = 0.05


def await_settled(log: Log[Any], topic_partitions: Iterable[TopicPartition]) -> None:
    """Wait until everything written to these partitions by now is committed or aborted. Raises
    UnavailableError when that takes longer than SETTLE_SECONDS."""
    ends = log.written_ends(frozenset(topic_partitions))
    deadline = time.monotonic() + SETTLE_SECONDS
    for topic_partition, end in ends.items():
        while log.end_offset(*topic_partition) < end:
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"A transaction on topic '{topic_partition[0]}' is still open"
                )
            time.sleep(_PAUSE_SECONDS)
