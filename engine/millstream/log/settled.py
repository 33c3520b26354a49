"""Waiting for transactions that others have left open."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from millstream.log.log import Log, TopicPartition
from millstream.model.errors import UnavailableError

SETTLE_SECONDS = 30.0
_PAUSE_SECONDS = 0.05


def await_settled(log: Log[Any], places: Iterable[TopicPartition]) -> None:
    """Until all that has been written to these partitions by now is committed or aborted.
    UnavailableError when that takes longer than SETTLE_SECONDS."""
    ends = log.written_ends(frozenset(places))
    deadline = time.monotonic() + SETTLE_SECONDS
    for place, end in ends.items():
        while log.end_offset(*place) < end:
            if time.monotonic() > deadline:
                raise UnavailableError(f"A transaction on topic '{place[0]}' is still open")
            time.sleep(_PAUSE_SECONDS)
